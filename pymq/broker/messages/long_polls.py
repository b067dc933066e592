"""LongPolls: pulls that found nothing and wait by queue for a matching arrival or their deadline.

The pulls of a queue that have the same filter form a group. An arrival looks at each group once, not at each pull, and
answers are made in slices: between two slices the event loop serves other connections.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from pymq.broker.messages.message_filter import MessageFilter
from pymq.clock import Clock
from pymq.store.store import Accept
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer

PARKED_COUNT_MAX = 100_000
SUSPEND_MAX_MS = 30_000
# Answered pulls stay in the heap until their deadline. It is rebuilt when there are more than this many.
COMPACT_SLACK_COUNT = 10_000
# Different filters of one queue that an arrival looks at. Pulls with further ones are due at every arrival: they read
# again and find out.
QUEUE_FILTERS_MAX = 1_000
SLICE_MS = 10  # the time for which due pulls are answered before other connections have their turn

_EVERYTHING = MessageFilter()

QueueKey = tuple[str, int]
AnyAccepted = Callable[[Accept], bool]


class ParkedPull:
    """One waiting pull: its peer, what its answer needs of its request, and until when it waits (monotonic ms)."""

    __slots__ = ("deadline_ms", "done", "group", "header", "message_filter", "number", "peer", "request")

    def __init__(
        self,
        peer: Peer,
        request: Command,
        header: Any,
        message_filter: MessageFilter,
        deadline_ms: int,
        group: PullGroup,
        number: int,
    ) -> None:
        self.peer = peer
        self.request = request.envelope()
        self.header = header
        self.message_filter = message_filter
        self.deadline_ms = deadline_ms
        self.group: PullGroup | None = group
        self.number = number  # later pulls have larger ones
        self.done = False

    def release(self) -> None:
        """Give up what is not needed any more: the heap of deadlines keeps a pull longer than it waits."""
        self.header = None
        self.message_filter = _EVERYTHING
        self.group = None


class PullGroup:
    """The parked pulls of one queue with one filter.

    ``any_accepted`` is set while it is open whether the filter's record test accepts what arrived.
    """

    __slots__ = ("any_accepted", "key", "message_filter", "pulls")

    def __init__(self, key: QueueKey, message_filter: MessageFilter) -> None:
        self.key = key
        self.message_filter = message_filter
        self.pulls: dict[int, ParkedPull] = {}
        self.any_accepted: AnyAccepted | None = None


class LongPolls:
    """The table of parked pulls. ``retry`` reads again and answers; it must not park."""

    def __init__(self, clock: Clock, retry: Callable[[ParkedPull], None], count_max: int = PARKED_COUNT_MAX) -> None:
        self._clock = clock
        self._retry = retry
        self._count_max = count_max
        self._by_queue: dict[QueueKey, dict[MessageFilter, PullGroup]] = {}
        self._by_peer: dict[Peer, dict[int, ParkedPull]] = {}
        self._deadlines: list[tuple[int, int, ParkedPull]] = []
        self._number = 0
        self._due: deque[ParkedPull] = deque()
        self._open: deque[PullGroup] = deque()  # their record test has not seen yet what arrived
        self._is_time_over = False  # for some pull, perhaps
        self._next_kind = 0  # of work
        self.count = 0
        self.refused_count = 0

    def park(self, peer: Peer, request: Command, header: Any, message_filter: MessageFilter, suspend_ms: int) -> bool:
        """Park a pull for at most ``suspend_ms`` (clamped to 30 s). Return False when the table is full."""
        if self.count >= self._count_max:
            self.refused_count += 1
            return False
        deadline_ms = self._clock.monotonic_ms() + min(suspend_ms, SUSPEND_MAX_MS)
        key = (header.topic, header.queue_id)
        groups = self._by_queue.setdefault(key, {})
        group = groups.get(message_filter)
        if group is None:
            group = _add_group(groups, key, message_filter)
        self._number += 1
        parked = ParkedPull(peer, request, header, message_filter, deadline_ms, group, self._number)
        group.pulls[self._number] = parked
        self._by_peer.setdefault(peer, {})[self._number] = parked
        heapq.heappush(self._deadlines, (deadline_ms, self._number, parked))
        self.count += 1
        self._compact()
        return True

    def is_waited_for(self, topic: str, queue_id: int) -> bool:
        """Return True when a pull of the queue is parked."""
        return (topic, queue_id) in self._by_queue

    def on_arrival(self, topic: str, queue_id: int, tags_codes: Sequence[int], any_accepted: AnyAccepted) -> None:
        """Take note of new messages in a queue: pulls that accept one of them are due. The store's commit calls this.

        ``any_accepted`` reads the messages themselves, and all later ones. :meth:`wake` calls it, at most once for each
        record filter of parked pulls.
        """
        groups = self._by_queue.get((topic, queue_id))
        if not groups:
            return
        arrived = frozenset(tags_codes)
        for group in list(groups.values()):
            codes, accept, _ = group.message_filter
            if codes is not None and codes.isdisjoint(arrived):
                continue
            if accept is None:
                self._make_due(group)
            elif group.any_accepted is None:  # else it will see these messages too
                group.any_accepted = any_accepted
                self._open.append(group)

    def wake_queue(self, topic: str, queue_id: int) -> None:
        """Make every pull of a queue due, whatever its filter: an operator reset an offset."""
        for group in list(self._by_queue.get((topic, queue_id), {}).values()):
            self._make_due(group)

    def wake(self) -> bool:
        """Answer pulls that an arrival or their deadline made due, for SLICE_MS. Return True when more are due.

        Called once a turn, after the commit.
        """
        if not self._due and not self._open and not self._is_time_over:
            return False
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._take_step():
            if self._clock.monotonic_ms() >= end_ms:
                return True
        return False

    def tick(self) -> None:
        """Answer pulls whose time is over, as :meth:`wake` does."""
        self._is_time_over = True
        self.wake()
        self._compact()

    def disconnect(self, peer: Peer) -> None:
        """Drop the pulls of a connection that has ended, as soon as due pulls are looked at."""
        self._due.extend(self._by_peer.get(peer, {}).values())

    def release_all(self) -> None:
        """Answer every pull now: the broker stops."""
        for topic, queue_id in list(self._by_queue):
            self.wake_queue(topic, queue_id)
        while self._due:
            self._finish(self._due.popleft())

    def _take_step(self) -> bool:
        """Answer one pull, or look at one group. Return False when nothing is left to do."""
        # In rotation: much of one kind must not keep the others waiting.
        for _ in range(3):
            self._next_kind = (self._next_kind + 1) % 3
            if self._next_kind == 0 and self._due:
                self._finish(self._due.popleft())
                return True
            if self._next_kind == 1 and self._open:
                self._look(self._open.popleft())
                return True
            if self._next_kind == 2 and self._is_time_over:
                self._is_time_over = self._take_overdue()
                return True
        return False

    def _look(self, group: PullGroup) -> None:
        """Have the group's record test see what arrived."""
        any_accepted, group.any_accepted = group.any_accepted, None
        accept = group.message_filter.accept
        if group.pulls and any_accepted is not None and accept is not None and any_accepted(accept):
            self._make_due(group)

    def _take_overdue(self) -> bool:
        """Answer the pull whose deadline comes first. Return False when it has not come."""
        deadlines = self._deadlines
        if not deadlines or (deadlines[0][0] > self._clock.monotonic_ms() and not deadlines[0][2].done):
            return False
        self._finish(heapq.heappop(deadlines)[2])
        return True

    def _make_due(self, group: PullGroup) -> None:
        self._due.extend(group.pulls.values())
        group.pulls = {}
        self._forget(group)

    def _forget(self, group: PullGroup) -> None:
        groups = self._by_queue.get(group.key, {})
        if groups.get(group.message_filter) is group:
            del groups[group.message_filter]
            if not groups:
                del self._by_queue[group.key]

    def _compact(self) -> None:
        """Forget the deadlines of answered pulls when they are too many."""
        if len(self._deadlines) <= 2 * self.count + COMPACT_SLACK_COUNT:
            return
        self._deadlines = [entry for entry in self._deadlines if not entry[2].done]
        heapq.heapify(self._deadlines)

    def _finish(self, parked: ParkedPull) -> None:
        if parked.done:
            return
        parked.done = True
        self.count -= 1
        self._unlist(parked)
        if not parked.peer.closed:
            self._retry(parked)
        parked.release()

    def _unlist(self, parked: ParkedPull) -> None:
        group, of_peer = parked.group, self._by_peer.get(parked.peer, {})
        if group is not None and group.pulls.pop(parked.number, None) is not None and not group.pulls:
            self._forget(group)
        of_peer.pop(parked.number, None)
        if not of_peer:
            self._by_peer.pop(parked.peer, None)


def _add_group(groups: dict[MessageFilter, PullGroup], key: QueueKey, message_filter: MessageFilter) -> PullGroup:
    """Return a new group, or beyond the limit the one that every arrival makes due."""
    if len(groups) >= QUEUE_FILTERS_MAX:
        message_filter = _EVERYTHING
    group = groups.get(message_filter)
    if group is None:
        group = groups[message_filter] = PullGroup(key, message_filter)
    return group
