"""NotedEnds: where all queues of a store ended at one moment, for the checkpoint."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence

from pymq.store.queue.consume_queue import ConsumeQueue


class NotedEnds:
    """Queues with their ends, all units below which were in files then. Queues that are deleted later do not count.

    One for a store of many queues takes two machine words a queue, and nothing for Python to collect.
    """

    __slots__ = ("_ends", "_gone", "_message_ends", "_queues")

    def __init__(
        self,
        queues: Sequence[ConsumeQueue] = (),
        ends: Sequence[int] = (),
        message_ends: Mapping[ConsumeQueue, int] | None = None,
        gone: Collection[ConsumeQueue] = (),
    ) -> None:
        """``message_ends``: of batch queues, the offsets behind their newest messages; ``gone``: deleted queues."""
        self._queues = queues
        self._ends = array("q", ends)
        self._message_ends = message_ends or {}
        self._gone = set(gone)

    def forget(self, queues: Collection[ConsumeQueue]) -> None:
        """These were deleted."""
        self._gone.update(queues)

    def copy(self) -> NotedEnds:
        """The same as it is now, for another thread."""
        return NotedEnds(self._queues, self._ends, self._message_ends, self._gone) if self._gone else self

    def __iter__(self) -> Iterator[tuple[ConsumeQueue, int]]:
        """Each queue with its end."""
        ends = zip(self._queues, self._ends, strict=True)
        return (each for each in ends if each[0] not in self._gone) if self._gone else ends

    @property
    def unit_count(self) -> int:
        """The sum of the ends."""
        return sum(end for _, end in self) if self._gone else sum(self._ends)

    def message_end(self, queue: ConsumeQueue) -> int:
        """The offset behind the newest message of a batch queue, -1 for any other one."""
        return self._message_ends.get(queue, -1)
