"""MemoryBudget: what a process holds for its peers, counted by kind and connection against one limit. Without I/O.

A process has one budget, whatever its roles. Buffers of connections are counted by the connection itself, other things
by the part that keeps them, under the connection that they are kept for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Protocol

from pymq.errors import Refusal
from pymq.net.host_counts import HostCounts
from pymq.wire.codes import ResponseCode

MIB = 1024 * 1024
LIMIT_DEFAULT_BYTES = 256 * MIB

# Kinds, as the metric pymq_memory_held_bytes names them.
UNFINISHED_FRAMES = "unfinished_frames"
WAITING_FRAMES = "waiting_frames"
UNREAD_ANSWERS = "unread_answers"
PARKED_REQUESTS = "parked_requests"
CLIENT_TABLES = "client_tables"
REGISTRATIONS = "registrations"
HELD_ANSWERS = "held_answers"
HA_STREAMS = "ha_streams"
METRICS_PAGES = "metrics_pages"
GRPC_CALLS = "grpc_calls"
GRPC_CLIENTS = "grpc_clients"
KINDS = (
    UNFINISHED_FRAMES,
    WAITING_FRAMES,
    UNREAD_ANSWERS,
    PARKED_REQUESTS,
    CLIENT_TABLES,
    REGISTRATIONS,
    HELD_ANSWERS,
    HA_STREAMS,
    METRICS_PAGES,
    GRPC_CALLS,
    GRPC_CLIENTS,
)

# Connections are closed until an eighth of the limit is free. With less, every few KiB would begin the search again.
FREED_SHARE = 8
# Answers of unknown size wait while more than half of the limit is held, so that they don't close connections.
ROOM_SHARE = 2
# Registrations are of no connection, so that a search for the greediest one never ends a broker's. They get at most
# half of the limit, whatever strangers hold.
REGISTRATIONS_SHARE = 2


class Holder(Protocol):
    """A connection that memory is held for."""

    host: str  # connections of one host count together

    def held_bytes(self) -> int:
        """Measure and return what is held for this connection now."""
        ...

    def abort(self, reason: str) -> None:
        """Close the connection and free its buffers."""
        ...


class MemoryBudget:
    """Counts what is held. Over the limit, :meth:`relieve` closes the connections that hold most."""

    def __init__(self, limit_bytes: int = LIMIT_DEFAULT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.hosts = HostCounts()  # of the process's connections
        self.held = dict.fromkeys(KINDS, 0)
        self.total_bytes = 0
        self.refused_count = 0
        self.closed_count = 0
        # Of closed connections whose last write the event loop still has. Pulls wait until it is 0.
        self.closing_bytes = 0
        self._by_owner: dict[str, dict[object, int]] = {kind: {} for kind in (PARKED_REQUESTS, CLIENT_TABLES)}
        self._closing: dict[object, int] = {}
        self._leaving: dict[object, int] = {}  # closed connections that their parts still count something for
        self._holders: list[Callable[[], Iterable[Holder]]] = []

    def add_holders(self, holders: Callable[[], Iterable[Holder]]) -> None:
        """Make ``holders``, which returns a server's connections, part of the search for the greediest one."""
        self._holders.append(holders)

    def remove_holders(self, holders: Callable[[], Iterable[Holder]]) -> None:
        """Take back :meth:`add_holders`: the server has stopped."""
        if holders in self._holders:
            self._holders.remove(holders)

    # -- counting ------------------------------------------------------------------------------------------------

    def hold(self, kind: str, size_bytes: int) -> None:
        """Count ``size_bytes`` more of a kind, or less when negative."""
        self.held[kind] += size_bytes
        self.total_bytes += size_bytes

    def hold_for(self, owner: object, kind: str, size_bytes: int) -> None:
        """As :meth:`hold`, for things that are kept outside of the buffers of the connection ``owner``."""
        of_kind = self._by_owner[kind]
        before = of_kind.get(owner)
        if before is None:
            if size_bytes < 0:
                return  # its connection has ended
            before = 0
        self.hold(kind, size_bytes)
        if before + size_bytes:
            of_kind[owner] = before + size_bytes
        elif before:
            del of_kind[owner]

    def held_for(self, owner: object) -> int:
        """Return what was counted with :meth:`hold_for`."""
        return sum(of_kind.get(owner, 0) for of_kind in self._by_owner.values())

    def forget(self, owner: object) -> None:
        """Count nothing any more for a connection that has ended."""
        for kind, of_kind in self._by_owner.items():
            self.hold(kind, -of_kind.pop(owner, 0))

    def begin_close(self, owner: object, unread_bytes: int) -> None:
        """Note that a connection is closed: its parts don't know yet, and the event loop still has its last write."""
        self._leaving[owner] = self.held_for(owner)
        self._closing[owner] = unread_bytes
        self.closing_bytes += unread_bytes

    def end_close(self, owner: object) -> Callable[[], None]:
        """Return what to call once the event loop has freed the last write of a connection that has ended."""

        def freed() -> None:
            self.closing_bytes -= unread_bytes

        self._leaving.pop(owner, None)
        unread_bytes = self._closing.pop(owner, 0)
        return freed

    # -- limits --------------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """True when more is held than the limit allows."""
        return self.total_bytes > self.limit_bytes

    def has_room(self) -> bool:
        """Return True when answers of unknown size may be made."""
        room_bytes = (self.limit_bytes + self.held[REGISTRATIONS]) // ROOM_SHARE  # of what they leave
        return self.total_bytes <= room_bytes or self._measure() <= room_bytes

    def check_room(self, size_bytes: int, what: str) -> None:
        """Raise Refusal(SYSTEM_BUSY) when ``what``, which is to be kept, does not fit into the budget."""
        if self.total_bytes + size_bytes <= self.limit_bytes or self._measure() + size_bytes <= self.limit_bytes:
            return
        self.refused_count += 1
        raise Refusal(
            ResponseCode.SYSTEM_BUSY,
            f"{what} needs {size_bytes} bytes, and this server holds {self.total_bytes} bytes for its clients; the "
            f"limit is {self.limit_bytes} (memoryBudgetBytes): try again in a moment, or raise it",
        )

    def check_registration(self, size_bytes: int) -> None:
        """Raise Refusal(SYSTEM_BUSY) when registrations would hold more than their share of the limit."""
        limit_bytes, held_bytes = self.limit_bytes // REGISTRATIONS_SHARE, self.held[REGISTRATIONS]
        if size_bytes > 0 and held_bytes + size_bytes > limit_bytes:
            self.refused_count += 1
            raise Refusal(
                ResponseCode.SYSTEM_BUSY,
                f"the registration needs {size_bytes} bytes beside {held_bytes} of others; the limit is {limit_bytes} "
                "(half of memoryBudgetBytes): delete topics, or raise it",
            )

    def relieve(self) -> None:
        """Close the greediest connections until less than the limit is held.

        The next one to go is the greediest of the host whose connections hold most together: many small connections
        of one host don't outlive one large one of another.
        """
        if self._measure() - self._leaving_bytes() <= self.limit_bytes:
            return
        by_host: dict[str, list[tuple[int, int, Holder]]] = {}
        for number, holder in enumerate(self._all_holders()):
            size_bytes = holder.held_bytes()
            if size_bytes > 0:
                by_host.setdefault(holder.host, []).append((size_bytes, number, holder))
        hosts = []
        for host, held in by_host.items():
            held.sort()
            hosts.append((-sum(size_bytes for size_bytes, _, _ in held), host))
        heapq.heapify(hosts)
        excess = self.total_bytes - self._leaving_bytes() - self.limit_bytes + self.limit_bytes // FREED_SHARE
        while excess > 0 and hosts:
            of_host, host = hosts[0]
            size_bytes, _, holder = by_host[host].pop()
            holder.abort("memory-budget")
            self.closed_count += 1
            excess -= size_bytes
            if by_host[host]:
                heapq.heapreplace(hosts, (of_host + size_bytes, host))
            else:
                heapq.heappop(hosts)

    def _leaving_bytes(self) -> int:
        return sum(self._leaving.values())

    def _measure(self) -> int:
        """Have every connection look how much its peer has not read, and return what is held by all."""
        for holder in self._all_holders():
            holder.held_bytes()
        return self.total_bytes

    def _all_holders(self) -> list[Holder]:
        return [holder for holders in self._holders for holder in holders()]
