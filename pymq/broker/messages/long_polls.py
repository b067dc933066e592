"""LongPolls: pulls that found nothing and wait by queue for a matching arrival or their deadline."""

from __future__ import annotations

import heapq
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

QueueKey = tuple[str, int]
_NO_FILTER = MessageFilter()


class ParkedPull:
    """One waiting pull: its peer, what its answer needs of its request, and until when it waits (monotonic ms)."""

    __slots__ = ("deadline_ms", "done", "header", "key", "message_filter", "peer", "request")

    def __init__(
        self, peer: Peer, request: Command, header: Any, message_filter: MessageFilter, deadline_ms: int
    ) -> None:
        self.peer = peer
        self.request = request.envelope()
        self.header = header
        self.message_filter = message_filter
        self.deadline_ms = deadline_ms
        self.key: QueueKey = (header.topic, header.queue_id)
        self.done = False

    def release(self) -> None:
        """Give up what is not needed any more: the heap of deadlines keeps a pull longer than it waits."""
        self.header = None
        self.message_filter = _NO_FILTER


class LongPolls:
    """The table of parked pulls. ``retry`` reads again and answers; it must not park."""

    def __init__(self, clock: Clock, retry: Callable[[ParkedPull], None], count_max: int = PARKED_COUNT_MAX) -> None:
        self._clock = clock
        self._retry = retry
        self._count_max = count_max
        # Dicts stand for ordered sets: a pull leaves its queue and its peer without a search.
        self._by_queue: dict[QueueKey, dict[ParkedPull, None]] = {}
        self._by_peer: dict[Peer, dict[ParkedPull, None]] = {}
        self._deadlines: list[tuple[int, int, ParkedPull]] = []
        self._sequence = 0
        self._woken: list[ParkedPull] = []
        self.count = 0
        self.refused_count = 0

    def park(self, peer: Peer, request: Command, header: Any, message_filter: MessageFilter, suspend_ms: int) -> bool:
        """Park a pull for at most ``suspend_ms`` (clamped to 30 s). Return False when the table is full."""
        if self.count >= self._count_max:
            self.refused_count += 1
            return False
        deadline_ms = self._clock.monotonic_ms() + min(suspend_ms, SUSPEND_MAX_MS)
        parked = ParkedPull(peer, request, header, message_filter, deadline_ms)
        self._by_queue.setdefault(parked.key, {})[parked] = None
        self._by_peer.setdefault(peer, {})[parked] = None
        self._sequence += 1
        heapq.heappush(self._deadlines, (deadline_ms, self._sequence, parked))
        self.count += 1
        if len(self._deadlines) > 2 * self.count + COMPACT_SLACK_COUNT:
            self._compact()
        return True

    def is_waited_for(self, topic: str, queue_id: int) -> bool:
        """Return True when a pull of the queue is parked."""
        return (topic, queue_id) in self._by_queue

    def on_arrival(
        self, topic: str, queue_id: int, tags_codes: Sequence[int], any_accepted: Callable[[Accept], bool]
    ) -> None:
        """Take note of new messages in a queue: pulls that accept one of them are due. The store's commit calls this.

        ``any_accepted`` reads the messages themselves. It is called once for each record filter of parked pulls.
        """
        waiting = self._by_queue.get((topic, queue_id))
        if not waiting:
            return
        staying: dict[ParkedPull, None] = {}
        accepted: dict[Accept, bool] = {}
        for parked in waiting:
            codes, accept, _ = parked.message_filter
            due = codes is None or not codes.isdisjoint(tags_codes)
            if due and accept is not None:
                if accept not in accepted:
                    accepted[accept] = any_accepted(accept)
                due = accepted[accept]
            if due:
                self._woken.append(parked)
            else:
                staying[parked] = None
        if staying:
            self._by_queue[topic, queue_id] = staying
        else:
            del self._by_queue[topic, queue_id]

    def wake_queue(self, topic: str, queue_id: int) -> None:
        """Make every pull of a queue due, whatever its filter: an operator reset an offset."""
        self._woken += self._by_queue.pop((topic, queue_id), {})

    def wake(self) -> None:
        """Answer every pull that an arrival made due. Called once a turn, after the commit."""
        while self._woken:
            woken, self._woken = self._woken, []
            for parked in woken:
                self._finish(parked)

    def tick(self) -> None:
        """Answer every pull whose time is over."""
        now_ms = self._clock.monotonic_ms()
        deadlines = self._deadlines
        while deadlines and (deadlines[0][0] <= now_ms or deadlines[0][2].done):
            parked = heapq.heappop(deadlines)[2]
            if not parked.done:
                self._unlist(parked)
                self._finish(parked)

    def disconnect(self, peer: Peer) -> None:
        """Drop the pulls of a connection that has ended."""
        for parked in self._by_peer.pop(peer, {}):
            parked.done = True
            self.count -= 1
            self._unlist(parked)
            parked.release()
        if len(self._deadlines) > 2 * self.count + COMPACT_SLACK_COUNT:
            self._compact()

    def release_all(self) -> None:
        """Answer every pull now: the broker stops."""
        for waiting in list(self._by_queue.values()):
            for parked in waiting:
                self._finish(parked)
        self._by_queue.clear()

    def _compact(self) -> None:
        self._deadlines = [entry for entry in self._deadlines if not entry[2].done]
        heapq.heapify(self._deadlines)

    def _unlist(self, parked: ParkedPull) -> None:
        waiting = self._by_queue.get(parked.key, {})
        waiting.pop(parked, None)
        if not waiting:
            self._by_queue.pop(parked.key, None)

    def _finish(self, parked: ParkedPull) -> None:
        if parked.done:
            return
        parked.done = True
        self.count -= 1
        of_peer = self._by_peer.get(parked.peer, {})
        of_peer.pop(parked, None)
        if not of_peer:
            self._by_peer.pop(parked.peer, None)
        if not parked.peer.closed:
            self._retry(parked)
        parked.release()
