"""PopPolls: pops that found nothing, and requests for a notification, which wait for messages of a topic or their time.

An arrival wakes one waiter of a group for all queues and one for its own queue, because one of them takes the message.
Java: PopLongPollingService.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from pymq.broker.messages.message_filter import MessageFilter
from pymq.broker.messages.waiting_table import SLICE_MS, TURN_BYTES_MAX, WaitingRequest, WaitingTable
from pymq.clock import Clock
from pymq.net.memory_budget import MemoryBudget
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer

ANY_QUEUE = -1
WAIT_MAX_MS = 30_000

UNREAD = "the waiting time is over, and earlier answers are unread: read them, then pop again"
DISMISSED = "users or permissions have changed: pop again"

_Waiters = dict[int, "ParkedPop"]  # by number, the longest waiting ones first


class ParkedPop(WaitingRequest):
    """One waiting request. ``ask`` is what its retry needs, which sets ``looks_again`` when it has not seen all."""

    __slots__ = ("ask", "group", "looks_again", "queue_id", "topic")

    def __init__(
        self,
        peer: Peer,
        request: Command,
        ask: Any,
        place: tuple[str, str, int],
        message_filter: MessageFilter,
        deadline_ms: int,
    ) -> None:
        super().__init__(peer, request.envelope(), message_filter, deadline_ms)
        self.ask = ask
        self.looks_again = False
        self.group, self.topic, self.queue_id = place


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
        self._table: WaitingTable[ParkedPop] = WaitingTable(budget)
        self._due: deque[ParkedPop] = deque()
        self._is_released = False  # the broker stops

    @property
    def count(self) -> int:
        """How many requests wait."""
        return self._table.count

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
        is_full = self._is_released or self._table.count >= self._count_max()
        if is_full or self.waiting_count(group, topic, queue_id) >= self._queue_count_max():
            return False
        self._table.check_room(message_filter, "a waiting pop")
        wait_ms = min(wait_ms, WAIT_MAX_MS)
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        earliest_ms = self._table.next_deadline_ms
        if earliest_ms is None or deadline_ms < earliest_ms:
            self._wake_in(wait_ms)
        parked = ParkedPop(peer, request, ask, place, message_filter, deadline_ms)
        self._table.add(parked)
        self._list(parked)
        if is_due:
            self._make_due(parked)
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
        for parked in self._table.dismiss_all():
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
        while (parked := self._table.take_overdue(now_ms)) is not None:
            self._finish(parked)
            if self._clock.monotonic_ms() >= end_ms:
                break
        if (next_ms := self._table.next_deadline_ms) is not None:
            self._wake_in(max(0, next_ms - now_ms))
        self.wake()

    def disconnect(self, peer: Peer) -> None:
        """Drop the requests of a connection that has ended."""
        for parked in self._table.forget_peer(peer):
            self._drop(parked)

    def release_some(self) -> bool:
        """Answer waiting requests for SLICE_MS, because the broker stops; return True when more wait.

        From now on no request may wait.
        """
        self._is_released = True
        end_ms = self._clock.monotonic_ms() + SLICE_MS
        while (parked := self._table.take_any()) is not None:
            self._finish(parked)
            if self._clock.monotonic_ms() >= end_ms:
                break
        return self._table.next_deadline_ms is not None

    def _look(self, parked: ParkedPop) -> None:
        if parked.done:
            return
        parked.is_due = False
        if self._table.is_dismissed(parked):
            self._finish(parked)
        elif parked.peer.closed or (not parked.peer.is_behind and self._retry(parked, False)):
            self._drop(parked)
        else:
            self._list(parked)
            if parked.looks_again:
                parked.looks_again = False
                self._make_due(parked)

    def _finish(self, parked: ParkedPop) -> None:
        if parked.done:
            return
        self._drop(parked)
        if parked.peer.closed:
            return
        if self._table.is_dismissed(parked):
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
        self._table.finish(parked)
        self._unlist(parked)
