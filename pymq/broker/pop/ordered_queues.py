"""OrderedQueues: the rules of orderly pops. While messages of a queue are handed out, the queue hands out no others.

The group's committed offset is that of its first message without an acknowledgement. There are no check points: after
the invisible time the queue is read again from the committed offset. Java: PopMessageProcessor, AckMessageProcessor and
ChangeInvisibleTimeProcessor for orderly pops.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pymq.clock import Clock
from pymq.errors import Refusal
from pymq.model.lite_topics import is_light_queue
from pymq.model.order_info import OrderInfo
from pymq.wire.codes import ResponseCode

if TYPE_CHECKING:
    from pymq.broker.metadata.cursors import CursorManager
    from pymq.broker.metadata.order_infos import OrderInfos

# Times at which queues become free stay in the heap after a change; it is rebuilt beyond this many.
COMPACT_SLACK_COUNT = 10_000
# A wall clock that goes back by more was set back; invisible times are of it.
CLOCK_STEP_MS = 1000

# Gets topic and group of a queue that may be popped again.
OnFree = Callable[[str, str], None]


class OrderedQueue(NamedTuple):
    """One queue of one group."""

    topic: str
    group: str
    queue_id: int


class OrderedQueues:
    """Hands out, acknowledges and hides messages of ordered queues, and tells when a queue is free again."""

    def __init__(self, *, clock: Clock, infos: OrderInfos, cursors: CursorManager) -> None:
        self.on_free: OnFree = lambda topic, group: None
        self._clock = clock
        self._infos = infos
        self._cursors = cursors
        self._last_ms: int | None = None  # of the wall clock
        self._free: list[tuple[int, OrderedQueue]] = []  # (Unix ms, queue), a heap; entries may be outdated
        self._compact_at = COMPACT_SLACK_COUNT

    def load(self) -> None:
        """Take note of when queues become free."""
        for topic, group, queue_id, info in self._infos.all():
            self._note_free(OrderedQueue(topic, group, queue_id), info)

    def is_blocked(self, queue: OrderedQueue, attempt_id: str | None = None) -> bool:
        """Return True while a message of the last hand-out is invisible. The same attempt gets it again."""
        info = self._current(queue)
        if info is None or info.is_again(attempt_id):
            return False
        return self._clock.now_ms() < info.free_ms(self._committed(queue))

    def hand_out(
        self, queue: OrderedQueue, attempt_id: str | None, pop_time_ms: int, invisible_ms: int, offsets: Sequence[int]
    ) -> OrderInfo:
        """Note what is handed out; return it with the counts of earlier hand-outs of these messages."""
        info = OrderInfo(attempt_id, pop_time_ms, invisible_ms, tuple(offsets), self._clock.now_ms())
        info = info.after(self._current(queue))
        self._cursors.hand_out(queue.group, queue.topic, queue.queue_id, offsets[0])
        self._put(queue, info)
        return info

    def tries(self, queue: OrderedQueue, offset: int) -> int:
        """Return how often a message was handed out, as far as is known."""
        info = self._current(queue)
        return info.counts.get(offset, 0) + 1 if info is not None and offset in info.offsets else 0

    def is_acked(self, queue: OrderedQueue, offset: int) -> bool:
        """Return True for a message of the last hand-out that was acknowledged, though one before it was not."""
        info = self._current(queue)
        return info is not None and offset in info.offsets and offset not in info.left(self._committed(queue))

    def move(self, queue: OrderedQueue, offset: int) -> None:
        """Have the group go on at ``offset``, and forget the last hand-out."""
        self._infos.forget(*queue)
        self._cursors.hand_out(queue.group, queue.topic, queue.queue_id, offset)

    def handed_out(self, queue: OrderedQueue, pop_time_ms: int) -> tuple[int, ...]:
        """Return the offsets of the last hand-out, if it was at this time."""
        info = self._current(queue)
        return info.offsets if info is not None and info.pop_time_ms == pop_time_ms else ()

    def forget(self, queue: OrderedQueue) -> None:
        """Forget the last hand-out: an operator moved the group."""
        self._infos.forget(*queue)

    def ack(self, queue: OrderedQueue, offset: int, pop_time_ms: int) -> bool:
        """Acknowledge a message. Return False when that changes nothing: it is of another hand-out, or comes twice.

        Raises Refusal(MESSAGE_ILLEGAL) for a message that was not handed out then.
        """
        info, committed = self._current(queue), self._committed(queue)
        if info is None or info.pop_time_ms != pop_time_ms or offset < committed:
            return False
        if offset not in info.offsets:
            raise Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"offset is illegal, key:{queue.topic}@{queue.group}@{queue.queue_id}, old:{committed}, "
                f"commit:{offset}: the pop at {pop_time_ms} handed out {list(info.offsets)}",
            )
        left = info.left(committed)
        if offset not in left:
            return False
        if len(left) == 1 and is_light_queue(queue.topic):  # a million lite topics have no room for what is done
            self._cursors.hand_out(queue.group, queue.topic, queue.queue_id, info.offsets[-1] + 1)
            self._infos.forget(*queue)
            self.on_free(queue.topic, queue.group)
            return True
        info = info.acked(offset, self._clock.now_ms())
        self._cursors.hand_out(queue.group, queue.topic, queue.queue_id, max(info.next_offset, committed))
        self._put(queue, info)
        if not self.is_blocked(queue):
            self.on_free(queue.topic, queue.group)
        return True

    def hide(self, queue: OrderedQueue, offset: int, pop_time_ms: int, invisible_ms: int) -> int | None:
        """Give a message a new invisible time from now on; return its end.

        None when it is not handed out under this receipt.
        """
        info = self._current(queue)
        if info is None or info.pop_time_ms != pop_time_ms or offset not in info.left(self._committed(queue)):
            return None
        now_ms = self._clock.now_ms()
        self._put(queue, info.hidden(offset, now_ms + invisible_ms, now_ms))
        return now_ms + invisible_ms

    def tick(self) -> None:
        """Tell of queues that became free because time has passed."""
        now_ms = self._clock.now_ms()
        if self._last_ms is None or now_ms < self._last_ms - CLOCK_STEP_MS:  # it may have been while no broker ran
            self._clock_went_back(now_ms)
        self._last_ms = now_ms
        while self._free and self._free[0][0] <= now_ms:
            queue = heapq.heappop(self._free)[1]
            info = self._current(queue)
            if info is not None and 0 < info.free_ms(self._committed(queue)) <= now_ms:
                self.on_free(queue.topic, queue.group)

    def _current(self, queue: OrderedQueue) -> OrderInfo | None:
        """Return the last hand-out; None after the group was moved to before it."""
        info = self._infos.get(*queue)
        if info is None or self._cursors.is_reset(queue.group, queue.topic, queue.queue_id):
            return None
        return info if self._committed(queue) >= info.offsets[0] else None

    def _clock_went_back(self, now_ms: int) -> None:
        """Make no message wait longer than its invisible time from now on."""
        for topic, group, queue_id, info in list(self._infos.all()):
            queue, end_ms = OrderedQueue(topic, group, queue_id), now_ms + info.invisible_ms
            if info.free_ms(self._committed(queue)) > end_ms:
                self._put(queue, info._replace(visible_ms=dict.fromkeys(info.offsets, end_ms)))

    def _committed(self, queue: OrderedQueue) -> int:
        return self._cursors.query(queue.group, queue.topic, queue.queue_id)

    def _put(self, queue: OrderedQueue, info: OrderInfo) -> None:
        self._infos.put(*queue, info)
        self._note_free(queue, info)

    def _note_free(self, queue: OrderedQueue, info: OrderInfo) -> None:
        free_ms = info.free_ms(self._committed(queue))
        if free_ms:
            heapq.heappush(self._free, (free_ms, queue))
        if len(self._free) > self._compact_at:
            self._free = []
            for topic, group, queue_id, each in self._infos.all():
                place = OrderedQueue(topic, group, queue_id)
                self._free.append((each.free_ms(self._committed(place)), place))
            heapq.heapify(self._free)
            self._compact_at = COMPACT_SLACK_COUNT + 2 * len(self._free)
