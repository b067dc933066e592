"""WaitingTable: what waiting pulls and waiting pops have in common: a peer, a deadline, and memory of the budget."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

from pymq.broker.messages.message_filter import MessageFilter
from pymq.net.memory_budget import PARKED_REQUESTS, MemoryBudget
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer

# What one waiting request holds, with its places in the tables and without its filter. Measured with pulls.
WAITING_BYTES = 1200
SLICE_MS = 10  # the time for which due requests are answered before other connections have their turn
TURN_BYTES_MAX = 8 * 1024 * 1024  # of answers to due requests, after which other connections have their turn


class WaitingRequest:
    """A request that waits for messages, at most until ``deadline_ms`` (monotonic). Later ones have larger numbers.

    ``is_due``: it is looked at again soon.
    """

    __slots__ = ("deadline_ms", "done", "is_due", "message_filter", "number", "peer", "request", "size_bytes")

    def __init__(self, peer: Peer, request: Command, message_filter: MessageFilter, deadline_ms: int) -> None:
        """``request``: the :meth:`Command.envelope`, what a late answer needs."""
        self.peer = peer
        self.request = request
        self.message_filter = message_filter
        self.deadline_ms = deadline_ms
        self.size_bytes = WAITING_BYTES + message_filter.size_bytes
        self.number = 0  # given by the table
        self.is_due = False
        self.done = False


WaitingT = TypeVar("WaitingT", bound=WaitingRequest)


class WaitingTable(Generic[WaitingT]):
    """Waiting requests by peer and by deadline. The memory budget counts them.

    A request that is finished is in no table any more, so nothing has to be cleaned up in a turn of its own.
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self.count = 0
        self._budget = budget
        self._number = 0
        self._by_peer: dict[Peer, dict[int, WaitingT]] = {}
        self._by_deadline: dict[int, dict[int, WaitingT]] = {}  # by number
        self._deadlines: list[int] = []  # a heap of those that _by_deadline has, each once
        self._dismissed_to = 0  # the number of the last request that waited when all were dismissed

    def check_room(self, message_filter: MessageFilter, what: str) -> None:
        """Raise Refusal when the memory budget has no room for one more: ``what`` names it."""
        self._budget.check_room(WAITING_BYTES + message_filter.size_bytes, what)

    def add(self, waiting: WaitingT) -> None:
        """Take in a request, and give it its number."""
        self._number += 1
        waiting.number = self._number
        self._budget.hold_for(waiting.peer, PARKED_REQUESTS, waiting.size_bytes)
        of_peer = self._by_peer.get(waiting.peer)
        if of_peer is None:
            of_peer = self._by_peer[waiting.peer] = {}
        of_peer[waiting.number] = waiting
        of_deadline = self._by_deadline.get(waiting.deadline_ms)
        if of_deadline is None:
            of_deadline = self._by_deadline[waiting.deadline_ms] = {}
            heapq.heappush(self._deadlines, waiting.deadline_ms)
        of_deadline[waiting.number] = waiting
        self.count += 1

    def finish(self, waiting: WaitingT) -> None:
        """Take a request off that waits no more."""
        waiting.done = True
        self.count -= 1
        self._budget.hold_for(waiting.peer, PARKED_REQUESTS, -waiting.size_bytes)
        self._by_deadline.get(waiting.deadline_ms, {}).pop(waiting.number, None)
        of_peer = self._by_peer.get(waiting.peer, {})
        of_peer.pop(waiting.number, None)
        if not of_peer and waiting.peer.closed:  # while it is open, its next request needs the table again
            self._by_peer.pop(waiting.peer, None)

    def forget_peer(self, peer: Peer) -> list[WaitingT]:
        """Return the requests of a connection that has ended."""
        return list(self._by_peer.pop(peer, {}).values())

    def dismiss_all(self) -> list[WaitingT]:
        """Let no request that waits now get messages any more. Return them."""
        self._dismissed_to = self._number
        return [waiting for of_peer in self._by_peer.values() for waiting in of_peer.values()]

    def is_dismissed(self, waiting: WaitingT) -> bool:
        """Return True for a request that must get no messages."""
        return waiting.number <= self._dismissed_to

    @property
    def next_deadline_ms(self) -> int | None:
        """When the first deadline comes; None when nothing waits."""
        while self._deadlines and not self._by_deadline[self._deadlines[0]]:
            del self._by_deadline[heapq.heappop(self._deadlines)]
        return self._deadlines[0] if self._deadlines else None

    def take_overdue(self, now_ms: int) -> WaitingT | None:
        """Return the request whose deadline comes first, if it has come; None when it has not.

        It has no deadline any more, and must be finished.
        """
        first_ms = self.next_deadline_ms
        return self._take(first_ms) if first_ms is not None and first_ms <= now_ms else None

    def take_any(self) -> WaitingT | None:
        """Do as :meth:`take_overdue`, whether the deadline has come or not."""
        first_ms = self.next_deadline_ms
        return self._take(first_ms) if first_ms is not None else None

    def _take(self, deadline_ms: int) -> WaitingT:
        of_deadline = self._by_deadline[deadline_ms]
        return of_deadline.pop(next(iter(of_deadline)))
