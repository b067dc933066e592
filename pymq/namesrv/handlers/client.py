"""ClientPacketHandler: the one request of producers and consumers, where a topic's queues are."""

from __future__ import annotations

from pymq.config import NamesrvConfig
from pymq.errors import Refusal
from pymq.namesrv.kv import ORDER_TOPIC_NAMESPACE, KvConfig
from pymq.namesrv.table import RouteTable
from pymq.wire.bodies_route import encode_route, wants_quoted_keys
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.route import RouteHeader
from pymq.wire.reply import Reply


class ClientPacketHandler:
    """Answers route look-ups."""

    def __init__(self, table: RouteTable, kv: KvConfig, config: NamesrvConfig) -> None:
        self._table = table
        self._kv = kv
        self._config = config

    def route(self, command: Command, header: RouteHeader, peer: Peer) -> Reply:
        """GET_ROUTEINFO_BY_TOPIC (105)."""
        config = self._config
        order = self._kv.get(ORDER_TOPIC_NAMESPACE, header.topic) if config.order_message_enable else None
        route = self._table.route(header.topic, order, acting_master=config.support_acting_master)
        if route is None:
            raise Refusal(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {header.topic[:255]}; create the topic, or see "
                "that a broker which has it is registered here",
            )
        quoted = wants_quoted_keys(command.version, header.accept_standard_json_only)
        return Reply(body=encode_route(route, quoted=quoted))
