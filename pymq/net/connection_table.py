"""ConnectionTable: a server's open connections under its caps, and how many it closed for what."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from pymq.clock import Clock
from pymq.errors import ProtocolViolation
from pymq.model.hosts import host_of
from pymq.net.descriptors import descriptor_limit, takes_reserved
from pymq.net.limits import ServerLimits, within_descriptors
from pymq.net.memory_budget import Holder, MemoryBudget
from pymq.rate_limited_log import RateLimitedLog

log = logging.getLogger(__name__)


class Accepted(Holder, Protocol):
    """An accepted connection."""

    address: str  # "host:port"

    def close(self) -> None:
        """Close after the queued frames are written."""
        ...


ConnectionT = TypeVar("ConnectionT", bound=Accepted)


class ConnectionTable(Generic[ConnectionT]):
    """The base of a server: its connections and their counters."""

    def __init__(
        self,
        limits: ServerLimits | None,
        clock: Clock,
        on_disconnect: Callable[[ConnectionT], None] | None,
        budget: MemoryBudget | None,
    ) -> None:
        self.take_limits(limits or ServerLimits())
        self.budget = budget or MemoryBudget()
        # Oldest first: a set's order is that of addresses in memory, and differs from run to run.
        self.connections: dict[ConnectionT, None] = {}
        self.bad_frames: Counter[str] = Counter()
        self.closed_for: Counter[str] = Counter()
        self.accepted_count = 0
        self.budget.add_holders(lambda: self.connections)
        self._on_disconnect = on_disconnect
        self._per_host: Counter[str] = Counter()
        self._violation_log = RateLimitedLog(log, clock, "connections that broke the protocol")

    def take_limits(self, limits: ServerLimits) -> None:
        """Apply other limits from now on, as far as the descriptors allow. Connections that are there stay."""
        self.limits = within_descriptors(limits, descriptor_limit())

    def admit(self, connection: ConnectionT, transport: asyncio.BaseTransport) -> str | None:
        """Register a new connection. Return None, or the reason to close it at once."""
        self.accepted_count += 1
        if takes_reserved(transport):
            return "descriptors"
        host = connection.host
        if len(self.connections) >= self.limits.connection_count_max and not self.make_room(None):
            return "connection-count"
        is_full = self._per_host[host] >= self.limits.connection_count_per_host_max
        if (is_full or not self.budget.hosts.has_room(host)) and not self.make_room(host):
            return "connection-count-per-host"
        self.connections[connection] = None
        self._per_host[host] += 1
        self.budget.hosts.opened(host)
        return None

    def make_room(self, host: str | None) -> bool:
        """Close a connection of ``host``, None: of the host with most, for a new one. Return False when none may go.

        A server whose connections are of use from their first byte on closes none.
        """
        return False

    def forget(self, connection: ConnectionT) -> None:
        """Remove a closed connection and call ``on_disconnect``."""
        if connection not in self.connections:
            return
        del self.connections[connection]
        self._per_host[connection.host] -= 1
        if not self._per_host[connection.host]:
            del self._per_host[connection.host]
        self.budget.hosts.closed(connection.host)
        if self._on_disconnect is not None:
            self._on_disconnect(connection)
        self.budget.forget(connection)

    def report_violation(self, connection: ConnectionT, violation: ProtocolViolation) -> None:
        """Count a broken frame and log it, within the limits of a rate-limited log."""
        self.bad_frames[violation.reason] += 1
        address = connection.address
        self._violation_log.write(host_of(address), f"closing {address}: {violation}")

    def report_refused(self, reason: str, address: str, text: str) -> None:
        """Count a connection that ended before it was admitted, and log it as a broken frame."""
        self.closed_for[reason] += 1
        self._violation_log.write(host_of(address), f"closing {address}: {text}")

    def close_connections(self) -> None:
        """Close every connection after its queued frames are written. New connections are still accepted."""
        for connection in list(self.connections):
            connection.close()

    def abort_connections(self, reason: str) -> None:
        """Close every connection at once, without the frames that wait."""
        for connection in list(self.connections):
            connection.abort(reason)
