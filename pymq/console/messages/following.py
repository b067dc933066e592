"""Follows the ends of a topic's queues in rounds, each of which reads a bounded part and counts the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pymq.client import MessageQueue, StoredMessage
from pymq.client.subscription_options import SubscriptionOptions
from pymq.errors import PymqError
from pymq.model.message import PullResult
from pymq.operations.message.reading import Batch, Pull, batch_of
from pymq.operations.message.search import Range
from pymq.operations.message.selection import MessageSelection

READ_COUNT_MAX: Final = 500  # messages a round
SHOWN_COUNT_MAX: Final = 200
READ_BYTES_MAX: Final = 4 * 1024 * 1024
PULL_COUNT_MAX: Final = 32

Row = dict[str, Any]
Ends = Callable[[], Awaitable[Mapping[MessageQueue, Range]]]


@dataclass(slots=True)
class Round:
    """What one round gave. Counts are of messages.

    ``arrived``: stored since the round before. ``unread``: passed over, so that no filter saw them. ``unshown``: they
    match, but there are too many. ``failed``: why queues could not be read, by broker.
    """

    rows: list[Row] = field(default_factory=list)
    arrived: int = 0
    unread: int = 0
    unshown: int = 0
    failed: dict[str, str] = field(default_factory=dict)


class Follower:
    """Follows one topic from now on. It commits nothing."""

    def __init__(
        self, pull: Pull, ends: Ends, selection: MessageSelection, to_row: Callable[[StoredMessage], Row]
    ) -> None:
        """``ends`` returns first and next offset of each queue now."""
        self._pull = pull
        self._ends = ends
        self._selection = selection
        self._options = SubscriptionOptions(**selection.pull_arguments())
        self._to_row = to_row
        self._next: dict[MessageQueue, int] = {}
        self._seen_end: dict[MessageQueue, int] = {}
        self._turn = 0

    async def begin(self) -> None:
        """Begin at the ends of now. Raises PymqError."""
        self._seen_end = {queue: each.end for queue, each in (await self._ends()).items()}
        self._next = dict(self._seen_end)

    async def round(self) -> Round:
        """Read what came since the last round, as far as one round may. Raises PymqError when no end is known."""
        ends = await self._ends()
        result = Round()
        for queue, each in ends.items():
            result.arrived += max(0, each.end - self._seen_end.get(queue, each.first))
            self._seen_end[queue] = max(each.end, self._seen_end.get(queue, 0))
        waiting = [queue for queue, each in ends.items() if each.end > self._next.get(queue, each.first)]
        self._skip(waiting, ends, result)
        await self._read(waiting, ends, result)
        result.rows.sort(key=lambda row: row["store_timestamp_ms"])
        result.unshown = max(0, len(result.rows) - SHOWN_COUNT_MAX)
        del result.rows[: result.unshown]
        return result

    def _skip(self, waiting: list[MessageQueue], ends: Mapping[MessageQueue, Range], result: Round) -> None:
        """Pass over what is more than a round reads: the newest messages stay."""
        share = max(1, READ_COUNT_MAX // max(1, len(waiting)))
        for queue in waiting:
            begin = self._next.get(queue, ends[queue].first)
            self._next[queue] = max(begin, ends[queue].end - share)
            result.unread += self._next[queue] - begin

    async def _read(self, waiting: list[MessageQueue], ends: Mapping[MessageQueue, Range], result: Round) -> None:
        left_count, left_bytes = READ_COUNT_MAX, READ_BYTES_MAX
        self._turn += 1
        for at in range(len(waiting)):
            queue = waiting[(at + self._turn) % len(waiting)]  # so that a busy queue does not hide the others
            end = ends[queue].end
            while self._next[queue] < end and left_count > 0 and left_bytes > 0:
                try:
                    batch_bytes, batch_count = await self._read_once(queue, end, result)
                except PymqError as error:
                    result.failed[queue.broker_name] = str(error)
                    break
                left_bytes -= batch_bytes
                left_count -= batch_count
                if not batch_count:  # a slave that is behind has it later
                    break

    async def _read_once(self, queue: MessageQueue, end: int, result: Round) -> tuple[int, int]:
        begin = self._next[queue]

        def take(answer: PullResult) -> tuple[Batch, list[Row], int]:
            batch = batch_of(answer, begin)
            kept = [one for one in self._selection.keep(batch.messages) if self._selection.matches(one)]
            rows = [self._to_row(one) for one in kept if one.queue_offset < end]
            return Batch([], batch.next_offset, batch.gone), rows, sum(one.size_bytes for one in batch.messages)

        batch, rows, size_bytes = await self._pull(queue, begin, min(PULL_COUNT_MAX, end - begin), self._options, take)
        result.unread += batch.gone
        result.rows += rows
        self._next[queue] = batch.next_offset
        return size_bytes, batch.next_offset - begin
