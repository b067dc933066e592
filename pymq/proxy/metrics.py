"""A proxy's figures for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pymq
from pymq.metrics.family import Collector, Family, Reading, counter, gauge, single
from pymq.net.memory_budget import MemoryBudget
from pymq.proxy.protocol.names import ClientType, Code

if TYPE_CHECKING:
    from pymq.proxy.server import ProxyServer

NODE_TYPE = "proxy"
OTHER = "OTHER"
_CODES = {number: name for name, number in vars(Code).items() if name.isupper()}
_CLIENT_TYPES = {number: name for name, number in vars(ClientType).items() if name.isupper()}

INFO = gauge("pymq_proxy_info", "Always 1; the label says which version runs.", "pymq_version")
CONNECTIONS = gauge("pymq_proxy_connections", "Open connections of clients.")
CLIENTS = gauge(
    "pymq_proxy_clients", "Clients that have sent settings and are not silent, by their type.", "client_type"
)
CALLS = counter("pymq_proxy_calls_total", "Calls that ended, by method and code.", "method", "code")
WAITING = gauge("pymq_proxy_waiting_receives", "Receives and pulls that wait for their first message.")
HELD = gauge("pymq_proxy_renewed_messages", "Messages with clients whose receipts the proxy renews.")
TRANSACTIONS = gauge("pymq_proxy_open_transactions", "Half messages whose end the proxy waits for.")
PROXY_METRICS = (INFO, CONNECTIONS, CLIENTS, CALLS, WAITING, HELD, TRANSACTIONS)


class ProxyMetrics:
    """All figures of a proxy."""

    metrics = PROXY_METRICS

    def __init__(self, server: ProxyServer) -> None:
        self._server = server
        self.budget: MemoryBudget | None = server.service.budget

    def labels(self) -> dict[str, str]:
        return {"node_id": self._server.address, "node_type": NODE_TYPE}

    def collectors(self) -> list[Collector]:
        return [self]

    def collect(self) -> Iterator[Family]:
        server, service = self._server, self._server.service
        types = Counter(_CLIENT_TYPES.get(each.settings.client_type, OTHER) for each in service.sessions.all())
        calls: Counter[tuple[str, str]] = Counter()
        for (method, code), count in server.calls.items():
            calls[method, _CODES.get(code, OTHER)] += count
        yield Family(INFO, (Reading((pymq.__version__,), 1),))
        yield single(CONNECTIONS, len(server.rpc.connections))
        yield Family(CLIENTS, tuple(Reading((kind,), count) for kind, count in types.items()))
        yield Family(CALLS, tuple(Reading(key, count) for key, count in calls.items()))
        yield single(WAITING, service.waits.count)
        yield single(HELD, len(service.held))
        yield single(TRANSACTIONS, len(service.transactions))
