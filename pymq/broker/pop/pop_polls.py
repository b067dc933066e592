"""PopPolls: pops that found nothing, and requests for a notification, which wait for messages of a topic or their time.

An arrival wakes one waiter of a group for all queues and one for its own queue, because one of them takes the message.
Java: PopLongPollingService.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pymq.broker.messages.message_filter import MessageFilter
from pymq.clock import Clock
from pymq.net.memory_budget import PARKED_REQUESTS, MemoryBudget
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer

ANY_QUEUE = -1
WAIT_MAX_MS = 30_000
# What one waiting request holds, with its places in the tables and without its filter.
PARKED_BYTES = 1200
TURN_BYTES_MAX = 8 * 1024 * 1024  # of answers to pops in one turn
SLICE_MS = 10  # the time for which due pops are answered before other connections have their turn
COMPACT_SLACK_COUNT = 10_000  # answered ones stay in the heap of deadlines, which is rebuilt beyond this many

UNREAD = "the waiting time is over, and earlier answers are unread: read them, then pop again"
DISMISSED = "users or permissions have changed: pop again"

_Waiters = dict[int, "ParkedPop"]  # by number, the longest waiting ones first


@dataclass(slots=True, eq=False)
class ParkedPop:
    """One waiting request. ``ask`` is what its retry needs; ``deadline_ms`` is of the monotonic clock."""

    peer: Peer
    request: Command
    ask: Any
    group: str
    topic: str
    queue_id: int
    message_filter: MessageFilter
    deadline_ms: int
    number: int
    done: bool = False
    is_due: bool = False

    @property
    def size_bytes(self) -> int:
        return PARKED_BYTES + self.message_filter.size_bytes


# Looks again and answers. False: nothing was found, and the request waits on. With ``is_last`` it answers in any case.
Retry = Callable[[ParkedPop, bool], bool]


class PopPolls:
    """The table of waiting pops and notifications."""

    def __init__(
        self,
        clock: Clock,
        retry: Retry,
        give_up: Callable[[ParkedPop, str], None],
        *,
        budget: MemoryBudget,
        count_max: Callable[[], int],
        queue_count_max: Callable[[], int],
        wake_in: Callable[[int], None],
    ) -> None:
        """``give_up`` answers a request without messages and says why. ``count_max``: waiters of this broker;
        ``queue_count_max``: of one queue id of a group's topic. ``wake_in`` has :meth:`tick` called in so many ms."""
        self.count = 0
        self.turn_bytes = 0
        self._clock = clock
        self._retry = retry
        self._give_up = give_up
        self._budget = budget
        self._count_max = count_max
        self._queue_count_max = queue_count_max
        self._wake_in = wake_in
        # topic -> group -> queue id -> waiters
        self._topics: dict[str, dict[str, dict[int, _Waiters]]] = {}
        self._by_peer: dict[Peer, _Waiters] = {}
        self._deadlines: list[tuple[int, int, ParkedPop]] = []
        self._due: deque[ParkedPop] = deque()
        self._number = 0
        self._dismissed_to = 0  # the number of the last request that waited when all were dismissed
        self._is_released = False  # the broker stops

    @property
    def is_turn_full(self) -> bool:
        """True when further pops must wait for another turn, because this one has made many answers."""
        return self.turn_bytes > TURN_BYTES_MAX or self._budget.closing_bytes > 0

    def is_waited_for(self, topic: str) -> bool:
        """Return True when a request waits for messages of the topic."""
        return topic in self._topics

    def waiting_count(self, group: str, topic: str, queue_id: int) -> int:
        """Return the number of requests that wait with exactly this queue id."""
        of_group = self._topics.get(topic, {}).get(group, {})
        return len(of_group.get(queue_id, ()))

    def park(
        self,
        peer: Peer,
        request: Command,
        ask: Any,
        place: tuple[str, str, int],
        message_filter: MessageFilter,
        wait_ms: int,
        *,
        is_due: bool = False,
    ) -> bool:
        """Let a request wait for (group, topic, queue id) ``place``, at most 30 s. Return False when it is too many.

        ``is_due``: look again in the next turn. Raises Refusal when the memory budget has no room.
        """
        group, topic, queue_id = place
        is_full = self._is_released or self.count >= self._count_max()
        if is_full or self.waiting_count(group, topic, queue_id) >= self._queue_count_max():
            return False
        self._budget.check_room(PARKED_BYTES + message_filter.size_bytes, "a waiting pop")
        wait_ms = min(wait_ms, WAIT_MAX_MS)
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        self._number += 1
        parked = ParkedPop(
            peer, request.envelope(), ask, group, topic, queue_id, message_filter, deadline_ms, self._number
        )
        self._budget.hold_for(peer, PARKED_REQUESTS, parked.size_bytes)
        self._by_peer.setdefault(peer, {})[parked.number] = parked
        heapq.heappush(self._deadlines, (deadline_ms, parked.number, parked))
        if self._deadlines[0][2] is parked:
            self._wake_in(wait_ms)
        self.count += 1
        self._list(parked)
        if is_due:
            self._make_due(parked)
        self._compact()
        return True

    def on_arrival(self, topic: str, queue_id: int, tags_codes: frozenset[int]) -> None:
        """Wake the waiters that may take new messages of a queue. The store's commit calls this."""
        for of_group in list(self._topics.get(topic, {}).values()):
            self._wake_one(of_group.get(ANY_QUEUE), tags_codes)
            self._wake_one(of_group.get(queue_id), tags_codes)

    def wake_queue(self, topic: str, queue_id: int) -> None:
        """Wake one waiter of each group that may look at a queue: an operator reset an offset."""
        for of_group in list(self._topics.get(topic, {}).values()):
            self._wake_one(of_group.get(ANY_QUEUE), None)
            self._wake_one(of_group.get(queue_id), None)

    def wake_group(self, topic: str, group: str) -> None:
        """Wake one waiter of each queue id of a group: there are messages for it, in a retry topic perhaps."""
        for waiters in list(self._topics.get(topic, {}).get(group, {}).values()):
            self._wake_one(waiters, None)

    def dismiss_all(self) -> None:
        """End every waiting request without messages, because its sender may not be allowed to read any more.

        They are due: :meth:`wake` answers them, in slices as always.
        """
        self._dismissed_to = self._number
        for of_peer in list(self._by_peer.values()):
            for parked in of_peer.values():
                if not parked.is_due:
                    self._make_due(parked)

    def wake(self) -> bool:
        """Look again for waiters that are due. Return True when more are. Called once a turn, after the commit."""
        self.turn_bytes = 0
        if not self._due:
            return False
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        for _ in range(len(self._due)):
            if self.is_turn_full or self._clock.monotonic_ms() >= end_ms:
                break
            self._look(self._due.popleft())
        self.turn_bytes = 0
        return bool(self._due)

    def tick(self) -> None:
        """Answer requests whose time is over, and look again for those that are due."""
        now_ms = self._clock.monotonic_ms()
        end_ms = now_ms + SLICE_MS
        while self._deadlines and (self._deadlines[0][2].done or self._deadlines[0][0] <= now_ms):
            self._finish(heapq.heappop(self._deadlines)[2])
            if self._clock.monotonic_ms() >= end_ms:
                break
        if self._deadlines:
            self._wake_in(max(0, self._deadlines[0][0] - now_ms))
        self.wake()

    def disconnect(self, peer: Peer) -> None:
        """Drop the requests of a connection that has ended."""
        for parked in list(self._by_peer.get(peer, {}).values()):
            self._drop(parked)

    def release_some(self) -> bool:
        """Answer waiting requests for SLICE_MS, because the broker stops; return True when more wait.

        From now on no request may wait.
        """
        self._is_released = True
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        while self._deadlines:
            self._finish(self._deadlines.pop()[2])
            if self._clock.monotonic_ms() >= end_ms:
                break
        return bool(self._deadlines)

    def _look(self, parked: ParkedPop) -> None:
        if parked.done:
            return
        parked.is_due = False
        if parked.number <= self._dismissed_to:
            self._finish(parked)
        elif parked.peer.closed or (not parked.peer.is_behind and self._retry(parked, False)):
            self._drop(parked)
        else:
            self._list(parked)

    def _finish(self, parked: ParkedPop) -> None:
        if parked.done:
            return
        self._drop(parked)
        if parked.peer.closed:
            return
        if parked.number <= self._dismissed_to:
            self._give_up(parked, DISMISSED)
        elif parked.peer.is_behind:
            self._give_up(parked, UNREAD)
        else:
            self._retry(parked, True)

    def _wake_one(self, waiters: _Waiters | None, tags_codes: frozenset[int] | None) -> None:
        """Make the longest waiting request that may take one of the messages due."""
        for parked in (waiters or {}).values():
            codes = parked.message_filter.codes
            is_matched = tags_codes is None or codes is None or not codes.isdisjoint(tags_codes)
            if is_matched and not parked.peer.is_behind:
                self._make_due(parked)
                return

    def _make_due(self, parked: ParkedPop) -> None:
        self._unlist(parked)
        parked.is_due = True
        self._due.append(parked)

    def _list(self, parked: ParkedPop) -> None:
        of_group = self._topics.setdefault(parked.topic, {}).setdefault(parked.group, {})
        of_group.setdefault(parked.queue_id, {})[parked.number] = parked

    def _unlist(self, parked: ParkedPop) -> None:
        of_topic = self._topics.get(parked.topic)
        of_group = None if of_topic is None else of_topic.get(parked.group)
        waiters = None if of_group is None else of_group.get(parked.queue_id)
        if of_topic is None or of_group is None or waiters is None or waiters.pop(parked.number, None) is None:
            return
        if not waiters:
            del of_group[parked.queue_id]
        if not of_group:
            del of_topic[parked.group]
        if not of_topic:
            del self._topics[parked.topic]

    def _drop(self, parked: ParkedPop) -> None:
        parked.done = True
        self.count -= 1
        self._unlist(parked)
        self._budget.hold_for(parked.peer, PARKED_REQUESTS, -parked.size_bytes)
        of_peer = self._by_peer.get(parked.peer, {})
        of_peer.pop(parked.number, None)
        if not of_peer:
            self._by_peer.pop(parked.peer, None)

    def _compact(self) -> None:
        if len(self._deadlines) > 2 * self.count + COMPACT_SLACK_COUNT:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].done]
            heapq.heapify(self._deadlines)
