"""GroupMemory: what a name server remembers of one group of brokers beside its present registrations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pymq.clock import Clock
from pymq.model.hosts import host_of

# A slave unregisters before it registers as the master. In between it is a former member.
FORMER_MEMBER_MS = 600_000
FORMER_MEMBER_COUNT_MAX = 64  # a group; beyond: the oldest is forgotten
NAMED_SLAVE_COUNT_MAX = 64  # a group; beyond: the oldest is forgotten
# How long the id of a member that left is kept for the members that a PyMQ master has named, and for that master. It is
# the default of the setting ``brokerIdKeptMs``.
ID_KEPT_MS = 65_000


@dataclass(slots=True, frozen=True)
class _Former:
    host: str
    broker_id: int
    left_ms: int


class GroupMemory:
    """Lives as long as its group has a registered member, so that strangers can't make it grow for good."""

    def __init__(self, clock: Clock, id_kept_ms: Callable[[], int] = lambda: ID_KEPT_MS) -> None:
        """``id_kept_ms`` returns how long an id is kept, which may change at any time."""
        self._clock = clock
        self._id_kept_ms = id_kept_ms
        self._former: dict[str, _Former] = {}
        self._named_slaves: dict[str, None] = {}  # an ordered set, which the group's masters belong to
        self._first_host = ""  # of the first master that named slaves
        self.epoch = 0  # of the newest master; 0 when none of them has one

    def note_left(self, address: str, host: str, broker_id: int) -> None:
        """Remember a member that is not registered any more. ``host`` is where its reports came from."""
        self._former.pop(address, None)
        self._former[address] = _Former(host, broker_id, self._clock.monotonic_ms())
        if len(self._former) > FORMER_MEMBER_COUNT_MAX:
            del self._former[next(iter(self._former))]

    def former_host(self, address: str) -> str | None:
        """Return where the reports of a former member came from; None when ``address`` was no member lately."""
        former = self._former.get(address)
        if former is None or self._clock.monotonic_ms() - former.left_ms > FORMER_MEMBER_MS:
            return None
        return former.host

    def kept_for(self, broker_id: int, address: str) -> str:
        """Return the address of the named member that the free id is kept for; empty when ``address`` may have it.

        Members may take each other's ids, as they do in a fail-over. Without named members no id is kept.
        """
        if address in self._named_slaves:
            return ""
        since_ms = self._clock.monotonic_ms() - self._id_kept_ms()
        for other, former in self._former.items():
            if former.broker_id == broker_id and former.left_ms >= since_ms and other in self._named_slaves:
                return other
        return ""

    def note_slaves(self, addresses: Iterable[str]) -> None:
        """Remember the slaves that the group's master named, and the master itself."""
        for address in addresses:
            self._named_slaves.pop(address, None)
            self._named_slaves[address] = None
            if len(self._named_slaves) > NAMED_SLAVE_COUNT_MAX:
                del self._named_slaves[next(iter(self._named_slaves))]

    def may_name(self, address: str, host: str) -> bool:
        """Return whether the master at ``address``, which reports from ``host``, may name slaves.

        That is the first one, and those that were named. A named one must report from the host of its address, or from
        where the first one did (NAT): else any peer could say that it is one.
        """
        if not self._named_slaves:
            self._first_host = host
            return True
        return address in self._named_slaves and host in (host_of(address), self._first_host)

    def is_named_slave(self, address: str) -> bool:
        """Return whether a master of the group has named the slave at ``address``."""
        return address in self._named_slaves
