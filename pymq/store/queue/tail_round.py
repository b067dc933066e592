"""TailRound: writes the tails that many queues have at one moment, some at a time.

Meanwhile messages come, and new units. At the round's end the files hold all units of its begin, and that is what a
checkpoint may say: a write of all tails at once would keep clients waiting.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable

from pymq.store.queue.batch_queue import BatchQueue
from pymq.store.queue.consume_queue import ConsumeQueue

IsThere = Callable[[ConsumeQueue], bool]


class TailRound:
    """One round, with every queue's end at its begin; a round of a single call needs none."""

    __slots__ = ("_ends", "_message_ends", "_queues", "_tails", "_tails_a_call")

    def __init__(
        self, units: Iterable[ConsumeQueue], batch_queues: Iterable[BatchQueue], share: Callable[[int], int]
    ) -> None:
        """``share`` says how many of that many tails each call writes. Raises OSError."""
        queues = list(units)
        self._tails = [queue for queue in queues if queue.tail]
        self._tails_a_call = max(share(len(self._tails)), 1)
        is_single = len(self._tails) <= self._tails_a_call
        self._queues = [] if is_single else queues
        self._ends = array("q", (queue.max_offset for queue in self._queues))  # no objects that Python has to collect
        self._message_ends = [] if is_single else [(queue, queue.max_offset) for queue in batch_queues]

    def write_some(self, is_there: IsThere) -> bool:
        """Write some tails, not those of queues that were deleted meanwhile. Return True when none is left.

        Raises OSError; what was not written is written with its queue's next tail.
        """
        batch = self._tails[-self._tails_a_call :]
        del self._tails[-self._tails_a_call :]
        for queue in batch:
            if is_there(queue):
                queue.write_tail()
        return not self._tails

    def note(self, is_there: IsThere) -> int:
        """Note the ends of the round's begin, once no tail is left. Return the sum of those of queues that exist."""
        total = 0
        for queue, end in zip(self._queues, self._ends, strict=True):
            queue.noted_end = end
            if is_there(queue):
                total += end
        for batch_queue, end in self._message_ends:
            batch_queue.units.noted_message_end = end
        return total
