"""TailRound: writes the tails that many queues have at one moment, some at a time.

Meanwhile messages come, and new units. At the round's end the files hold all units of its begin, and that is what a
checkpoint may say: a write of all tails at once would keep clients waiting. So would a look at all queues.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection

from pymq.store.queue.batch_queue import BatchUnits
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.noted_ends import NotedEnds

LOOKS_A_CALL = 10_000  # queues whose end one call finds: some 5 ms


class TailRound:
    """One round. It first finds every queue's end at its begin, then writes the tails."""

    __slots__ = ("_begin", "_early", "_ends", "_gone", "_message_ends", "_queues", "_share", "_tails", "_tails_a_call")

    def __init__(self, queues: list[ConsumeQueue], begin: int, share: Callable[[int], int]) -> None:
        """``begin``: units that are visible now lead below this physical offset, later ones do not.

        ``share`` says how many of that many tails each call writes.
        """
        self._queues = queues
        self._begin = begin
        self._share = share
        self._ends = array("q")  # of the first queues; no objects that Python has to collect
        self._early: dict[ConsumeQueue, int] = {}  # ends of queues whose tail was written before the look at them
        self._message_ends: dict[ConsumeQueue, int] = {}
        self._gone: set[ConsumeQueue] = set()  # deleted since
        self._tails: list[ConsumeQueue] = []
        self._tails_a_call = 0

    def note_write(self, queue: ConsumeQueue) -> None:
        """The queue's tail is about to be written. It alone tells newer units from those of the round's begin."""
        if len(self._ends) < len(self._queues):
            self._early.setdefault(queue, queue.end_below(self._begin))

    def forget(self, queues: Collection[ConsumeQueue]) -> None:
        """These were deleted."""
        self._gone.update(queues)

    def work(self) -> bool:
        """Find some ends, or write some tails. Return True when none is left.

        Raises OSError; what was not written is written with its queue's next tail.
        """
        if len(self._ends) < len(self._queues):
            self._find_ends()
            if len(self._ends) < len(self._queues):
                return False
        self._tails_a_call = self._tails_a_call or max(self._share(len(self._tails)), 1)
        batch = self._tails[-self._tails_a_call :]
        del self._tails[-self._tails_a_call :]
        for queue in batch:
            if queue not in self._gone:
                queue.write_tail()
        return not self._tails

    def _find_ends(self) -> None:
        done = len(self._ends)
        for queue in self._queues[done : done + LOOKS_A_CALL]:
            end = self._early.get(queue)
            if end is None:
                end = queue.end_below(self._begin)
            if isinstance(queue, BatchUnits):
                self._message_ends[queue] = queue.offset_of(end)
            if queue.tail:
                self._tails.append(queue)
            self._ends.append(end)

    def noted(self) -> NotedEnds:
        """Return the ends of the round's begin, once no tail is left."""
        return NotedEnds(self._queues, self._ends, self._message_ends, self._gone)
