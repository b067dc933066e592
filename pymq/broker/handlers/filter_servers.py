"""REGISTER_FILTER_SERVER (301): a filter server reports every few seconds over one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.headers.filter_server import RegisterFilterServerAnswer, RegisterFilterServerHeader
from pymq.wire.reply import Reply

if TYPE_CHECKING:
    from pymq.broker.metadata.filter_servers import FilterServers
    from pymq.config import BrokerConfig


class FilterServerHandlers:
    """Keeps the table of filter servers."""

    def __init__(self, *, config: BrokerConfig, filter_servers: FilterServers) -> None:
        self._config = config
        self._filter_servers = filter_servers

    def register(self, request: Command, header: RegisterFilterServerHeader, peer: Peer) -> Reply:
        """Note a filter server. The answer names the broker that it serves."""
        self._filter_servers.register(peer, header.filter_server_addr)
        answer = RegisterFilterServerAnswer(broker_name=self._config.broker_name, broker_id=self._config.broker_id)
        return Reply(ext=answer)
