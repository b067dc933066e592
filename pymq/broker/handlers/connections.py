"""Connected clients, for operators: consumers of a group (203), producers of a group (204), all producers (328)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.broker.report.member_rows import MemberRows
from pymq.broker.report.row_pages import Sight
from pymq.broker.runtime import Runtime
from pymq.errors import Refusal
from pymq.wire.admin_text import encode_in_steps
from pymq.wire.bodies_admin import (
    AllProducers,
    Connection,
    ConsumerConnections,
    ProducerConnections,
    ProducerInfo,
    encode_admin_body,
)
from pymq.wire.bodies_client import PYMQ_LANGUAGE
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.admin import ConsumerConnectionsHeader, ProducerConnectionsHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.metadata.clients import Client, ClientManager
    from pymq.broker.work.sliced_work import Steps

MEMBERS_AT_ONCE = 256  # that are copied before the next rest


class ConnectionHandlers:
    """Shows which clients are connected."""

    def __init__(self, runtime: Runtime, *, clients: ClientManager) -> None:
        self._clients = clients
        self._rows = MemberRows(clients)
        self._cluster = runtime.config.broker_cluster_name
        self._sliced_work = runtime.sliced_work

    def consumers(self, request: Command, header: ConsumerConnectionsHeader, peer: Peer) -> Reply | None:
        """Return a group's members and subscriptions. With ``pymq_all``: the number of members of all groups."""
        if header.pymq_all:
            return self._sliced_work.answer(
                request, peer, self._rows.members(Sight(request.sender, self._cluster), header)
            )
        is_pymq = request.language == PYMQ_LANGUAGE
        return self._sliced_work.answer(request, peer, self._consumers(header, with_differences=is_pymq))

    def _consumers(self, header: ConsumerConnectionsHeader, *, with_differences: bool) -> Steps[Reply]:
        group = self._clients.consumer_group(header.consumer_group)
        if group is None:
            raise Refusal(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{header.consumer_group}] not online")
        connections = []
        for number, client in enumerate(list(group.members.values()), 1):
            connections.append(_connection(client))
            if number % MEMBERS_AT_ONCE == 0:
                yield
        answer = ConsumerConnections(
            connection_set=connections,
            subscription_table=group.subscriptions,
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
            pymq_differences=group.by_member.differences() if with_differences else None,
        )
        return Reply(body=(yield from encode_in_steps(answer)))

    def producers(self, request: Command, header: ProducerConnectionsHeader, peer: Peer) -> Reply:
        """Return a group's producers."""
        found = self._clients.producers(header.producer_group)
        if not found:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"the producer group[{header.producer_group}] not exist")
        return Reply(body=encode_admin_body(ProducerConnections(connection_set=[_connection(one) for one in found])))

    def all_producers(self, request: Command, header: None, peer: Peer) -> Reply:
        """Return every connected producer by group."""
        data = {group: [_info(client) for client in found] for group, found in self._clients.all_producers().items()}
        return Reply(body=encode_admin_body(AllProducers(data=data)))


def _connection(client: Client) -> Connection:
    return Connection(
        client_id=client.client_id, client_addr=client.peer.address, language=client.language, version=client.version
    )


def _info(client: Client) -> ProducerInfo:
    return ProducerInfo(
        client_id=client.client_id,
        remote_ip=f"/{client.peer.address}",
        language=client.language,
        version=client.version,
        last_update_timestamp=client.seen_ms,
    )
