"""Search: the newest messages of some queues that match, newest first, a bounded part of the queues at a time.

Queues are read backwards in blocks. A queue whose unread messages are older than a match waits, so that matches of all
queues come in order of their time. Where a search stopped, the next one goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from pymq.client import MessageQueue, StoredMessage
from pymq.client.admin import Admin
from pymq.client.subscription_options import SubscriptionOptions
from pymq.clock import Clock
from pymq.errors import PymqError, UnreachableError, UsageError
from pymq.model.message import PullResult
from pymq.operations.message.reading import Pull, batch_of
from pymq.operations.message.selection import MessageSelection

BLOCK_COUNT: Final = 32
BLOCK_COUNT_MAX: Final = 1024
BLOCK_GROWTH: Final = 2
QUICK_BLOCK_MS: Final = 250  # after a quicker one, the next block is larger
SLOW_BLOCK_MS: Final = 1_000  # a block that takes longer is given up, and read again as smaller ones
QUEUES_AT_ONCE: Final = 8
QUEUES_MAX: Final = 256

T = TypeVar("T")


class Range(NamedTuple):
    """Offsets of a queue from ``first`` on, before ``end``."""

    first: int
    end: int


class Hit(NamedTuple, Generic[T]):
    """A message that matches, as ``row``. ``time_ms``: when it was stored."""

    offset: int
    time_ms: int
    row: T


class Part(NamedTuple, Generic[T]):
    """What one read gave. ``first_ms``: the store time of the message at its begin, None if that is unknown."""

    hits: list[Hit[T]]
    next_offset: int
    first_ms: int | None


class Parts(Protocol[T]):
    """Reads queues for a search. Both methods raise PymqError."""

    async def read(self, queue: MessageQueue, offset: int, count_max: int) -> Part[T]:
        """Return what matches of about ``count_max`` messages from an offset on."""
        ...

    async def time_at(self, queue: MessageQueue, offset: int) -> int | None:
        """Return the store time of the message at an offset, None if there is none."""
        ...


class Stop(StrEnum):
    """Why a search ended before all was read."""

    found = "found"  # as many as wanted
    scanned = "scanned"  # as many messages as one search may look at
    time = "time"


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one search may find and look at, and how long it may take."""

    found_max: int
    scanned_max: int
    time_max_ms: int


@dataclass(slots=True)
class Found(Generic[T]):
    """What a search found, newest first, and where it is. ``scanned`` and ``left`` count messages.

    ``reached``: the end of what is unread of each queue. ``back_to_ms``: a store time; all newer messages were looked
    at, None where that is unknown. ``failed``: why queues were not read to their begin. ``stop`` None: all was read.
    """

    rows: list[T]
    reached: dict[MessageQueue, int]
    scanned: int
    left: int
    back_to_ms: int | None
    failed: dict[MessageQueue, str]
    stop: Stop | None


@dataclass(slots=True)
class _Lane(Generic[T]):
    """One queue: all from ``unread_end`` on is read, and ``hits`` of it are not given out, oldest first.

    ``bound_ms``: no unread message is newer than that, None before the first block.
    """

    queue: MessageQueue
    first: int
    end: int
    unread_end: int
    step: int
    hits: list[Hit[T]] = field(default_factory=list)
    bound_ms: int | None = None
    why_failed: str = ""

    @property
    def reached(self) -> int:
        return self.hits[-1].offset + 1 if self.hits else self.unread_end

    @property
    def can_be_read(self) -> bool:
        return not self.hits and not self.why_failed and self.unread_end > self.first


class BackwardSearch(Generic[T]):
    """One bounded search through some queues, from their ends backwards."""

    def __init__(
        self,
        parts: Parts[T],
        clock: Clock,
        limits: Limits,
        block_count: int = BLOCK_COUNT,
        report: Callable[[Found[T]], None] | None = None,
    ) -> None:
        """``block_count``: the number of messages in the first block of each queue. ``report``: gets what is found so
        far, before each read."""
        self._parts = parts
        self._clock = clock
        self._limits = limits
        self._block_count = block_count
        self._report = report

    async def find(self, ranges: Mapping[MessageQueue, Range]) -> Found[T]:
        """Return the matches. Errors of a queue are in the result, and leave the queue where it is."""
        lanes: list[_Lane[T]] = [
            _Lane(queue, first, end, max(end, first), self._block_count) for queue, (first, end) in ranges.items()
        ]
        begun_ms = self._clock.monotonic_ms()
        rows: list[T] = []
        stop: Stop | None = None
        while stop is None and any(lane.hits or lane.can_be_read for lane in lanes):
            newest = max((lane for lane in lanes if lane.hits), key=lambda lane: lane.hits[-1].time_ms, default=None)
            newest_ms = None if newest is None else newest.hits[-1].time_ms
            unread = [lane for lane in lanes if lane.can_be_read and not _is_behind(lane, newest_ms)]
            if len(rows) >= self._limits.found_max:
                stop = Stop.found
            elif newest is not None and not unread:
                rows.append(newest.hits.pop().row)
            elif (stop := self._spent(lanes, begun_ms)) is None:
                unread.sort(key=lambda lane: (lane.bound_ms is not None, -(lane.bound_ms or 0)))
                if self._report is not None:
                    self._report(self._found(list(rows), lanes, None))
                await asyncio.gather(*map(self._read_block, unread[:QUEUES_AT_ONCE]))
        return self._found(rows, lanes, stop)

    def _spent(self, lanes: list[_Lane[T]], begun_ms: int) -> Stop | None:
        """Return which limit forbids to read more."""
        if sum(lane.end - lane.unread_end for lane in lanes) >= self._limits.scanned_max:
            return Stop.scanned
        return Stop.time if self._clock.monotonic_ms() - begun_ms >= self._limits.time_max_ms else None

    async def _read_block(self, lane: _Lane[T]) -> None:
        try:
            await self._read_block_of(lane)
        except PymqError as error:
            lane.why_failed = str(error)

    async def _read_block_of(self, lane: _Lane[T]) -> None:
        begin = max(lane.first, lane.unread_end - lane.step)
        begun_ms = self._clock.monotonic_ms()
        hits: list[Hit[T]] = []
        offset, first_ms = begin, None
        while offset < lane.unread_end:
            part = await self._parts.read(lane.queue, offset, lane.unread_end - offset)
            if offset == begin:
                first_ms = part.first_ms
            hits += [hit for hit in part.hits if hit.offset < lane.unread_end]
            if part.next_offset <= offset:
                raise UnreachableError(
                    f"{lane.queue.broker_name} has nothing at offset {offset} of queue {lane.queue.queue_id}, where "
                    "messages should be: it may be behind"
                )
            offset = part.next_offset
            is_slow = self._clock.monotonic_ms() - begun_ms > SLOW_BLOCK_MS
            if is_slow and offset < lane.unread_end:
                lane.step = max(1, (offset - begin) // 2)
                return
        if first_ms is None:
            first_ms = await self._parts.time_at(lane.queue, begin)
        lane.hits, lane.unread_end = hits, begin
        lane.bound_ms = lane.bound_ms if first_ms is None else first_ms
        if self._clock.monotonic_ms() - begun_ms < QUICK_BLOCK_MS:
            lane.step = min(BLOCK_COUNT_MAX, lane.step * BLOCK_GROWTH)

    @staticmethod
    def _found(rows: list[T], lanes: list[_Lane[T]], stop: Stop | None) -> Found[T]:
        return Found(
            rows,
            {lane.queue: lane.reached for lane in lanes},
            sum(max(0, lane.end - lane.reached) for lane in lanes),
            sum(max(0, lane.reached - lane.first) for lane in lanes),
            _back_to_ms(lanes),
            {lane.queue: lane.why_failed for lane in lanes if lane.why_failed},
            stop,
        )


def _back_to_ms(lanes: list[_Lane[T]]) -> int | None:
    """Return the time down to which every queue was looked at."""
    unfinished = [lane for lane in lanes if lane.reached > lane.first]
    times_ms = [lane.hits[-1].time_ms if lane.hits else lane.bound_ms for lane in unfinished or lanes]
    known_ms = [time_ms for time_ms in times_ms if time_ms is not None]
    if unfinished:
        return max(known_ms) if len(known_ms) == len(times_ms) else None
    return min(known_ms, default=None)


def _is_behind(lane: _Lane[T], newest_ms: int | None) -> bool:
    """Return whether all that is unread of a queue is older than the newest match."""
    return newest_ms is not None and lane.bound_ms is not None and lane.bound_ms <= newest_ms


class QueueParts(Generic[T]):
    """Parts of queues: the messages that ``selection`` and ``takes`` want, made into rows."""

    def __init__(
        self,
        pull: Pull,
        selection: MessageSelection,
        to_row: Callable[[StoredMessage], T],
        takes: Callable[[StoredMessage], bool] = lambda message: True,
    ) -> None:
        self._pull = pull
        self._selection = selection
        self._options = SubscriptionOptions(**selection.pull_arguments())
        self._to_row = to_row
        self._takes = takes

    async def read(self, queue: MessageQueue, offset: int, count_max: int) -> Part[T]:
        """Return the rows of one pull."""

        def take(result: PullResult) -> Part[T]:
            batch = batch_of(result, offset)
            first = batch.messages[0] if batch.messages else None
            is_at_begin = first is not None and first.queue_offset == offset
            wanted = filter(self._wants, self._selection.keep(batch.messages))
            hits = [Hit(one.queue_offset, one.store_timestamp_ms, self._to_row(one)) for one in wanted]
            first_ms = first.store_timestamp_ms if first is not None and is_at_begin else None
            return Part(hits, batch.next_offset, first_ms)

        part: Part[T] = await self._pull(queue, offset, count_max, self._options, take)
        return part

    async def time_at(self, queue: MessageQueue, offset: int) -> int | None:
        """Return the store time of the message at an offset: a broker that filters doesn't say it."""

        def take(result: PullResult) -> int | None:
            return next((one.store_timestamp_ms for one in batch_of(result, offset).messages), None)

        time_ms: int | None = await self._pull(queue, offset, 1, SubscriptionOptions(), take)
        return time_ms

    def _wants(self, message: StoredMessage) -> bool:
        return self._takes(message) and self._selection.matches(message)


async def ranges_of(admin: Admin, topic: str, begin_ms: int | None, end_ms: int | None) -> dict[MessageQueue, Range]:
    """Return the offsets that a search through a topic covers, between two store times (Unix ms).

    None: from the first message, up to the last one. Raises NotFoundError, and UsageError for too many queues.
    """
    stats = await admin.topics.stats(topic)
    if len(stats) > QUEUES_MAX:
        raise UsageError(f"{topic!r} has {len(stats):,} queues, a search reads {QUEUES_MAX} at most: use pymq tail")
    queues = list(stats)
    firsts = {} if begin_ms is None else await admin.offsets.at_time(queues, begin_ms)
    ends = {} if end_ms is None else await admin.offsets.at_time(queues, end_ms)
    found: dict[MessageQueue, Range] = {}
    for queue, at in stats.items():
        # A broker may answer with the last offset before a time: one more is read, and its own time decides.
        end = min(at.max_offset, ends.get(queue, at.max_offset) + 1)
        found[queue] = Range(min(max(at.min_offset, firsts.get(queue, 0)), end), end)
    return found
