"""The last N messages that match, over all queues: looks back in growing steps, up to a limit, and says how far."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pymq.cli.tail.options import Cursor
from pymq.client import StoredMessage
from pymq.client.pull_consumer import PULL_COUNT_MAX

STEP_GROWTH = 4
# One message more is needed to know a time; a look back of a few messages would cost a request for each.
STEP_MIN = PULL_COUNT_MAX

# (cursor, from offset, to offset) -> messages that match, in order.
ReadRange = Callable[[Cursor, int, int], Awaitable[list[StoredMessage]]]
# (cursor, offset) -> store time of the first message there or behind it, in Unix ms; None if there is none.
TimeAt = Callable[[Cursor, int], Awaitable[int | None]]


def by_time(message: StoredMessage) -> tuple[int, int]:
    """Return the sort key: the store time, and within a millisecond the offset in the log."""
    return message.store_timestamp_ms, message.physical_offset


@dataclass
class _Search:
    """The search in one queue: everything from ``reached`` on is read."""

    cursor: Cursor
    first: int
    reached: int
    step: int
    is_done: bool = False
    found: list[StoredMessage] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """The last messages that match, oldest first, and how many of the stored ones were looked at."""

    messages: list[StoredMessage]
    looked_at_count: int
    stored_count: int

    def note(self, wanted: int) -> str:
        """Return what to say when none matches, or fewer than ``wanted`` in a part; else an empty text."""
        if len(self.messages) >= wanted:
            return ""
        if self.looked_at_count >= self.stored_count:
            return "" if self.messages else f"none of all {self.stored_count} stored messages matches"
        return (
            f"{len(self.messages)} of the last {self.looked_at_count} messages match, {self.stored_count} are stored: "
            "--look-back N looks at more of them, --from start at all"
        )


class LastMessages:
    """One search for the last ``wanted`` messages in some queues, each from a first offset to its cursor's end."""

    def __init__(self, wanted: int, look_back_max: int, read: ReadRange, time_at: TimeAt) -> None:
        self._wanted = wanted
        self._left = look_back_max
        self._read = read
        self._time_at = time_at

    async def find(self, queues: list[tuple[Cursor, int]]) -> Found:
        """Return the messages. A queue is done when it is read whole, or can't have a later match than those found."""
        searches = [
            _Search(cursor, first, cursor.end, max(self._wanted, STEP_MIN) if self._wanted else 0, cursor.end <= first)
            for cursor, first in queues
        ]
        while self._wanted and self._left > 0:
            open_ones = [one for one in searches if not one.is_done]
            if not open_ones:
                break
            share = max(self._left // len(open_ones), 1)
            await asyncio.gather(*(self._look_back(one, min(one.step, share)) for one in open_ones[: self._left]))
            await self._close_finished(searches)
        messages = sorted((one for search in searches for one in search.found), key=by_time)
        return Found(
            messages[-self._wanted :] if self._wanted else [],
            sum(one.cursor.end - one.reached for one in searches),
            sum(max(one.cursor.end - one.first, 0) for one in searches),
        )

    async def _look_back(self, search: _Search, step: int) -> None:
        begin = max(search.reached - step, search.first)
        self._left -= search.reached - begin
        search.found = [*await self._read(search.cursor, begin, search.reached), *search.found][-self._wanted :]
        search.reached = begin
        search.step *= STEP_GROWTH
        search.is_done = begin <= search.first or len(search.found) >= self._wanted

    async def _close_finished(self, searches: list[_Search]) -> None:
        """Close the queues whose unread messages are older than the last ones found."""
        found = sorted((one for search in searches for one in search.found), key=by_time)
        if len(found) < self._wanted:
            return
        oldest_ms = found[-self._wanted].store_timestamp_ms
        open_ones = [one for one in searches if not one.is_done and one.reached < one.cursor.end]
        times = await asyncio.gather(*(self._time_at(one.cursor, one.reached) for one in open_ones))
        for search, time_ms in zip(open_ones, times, strict=True):
            search.is_done = time_ms is not None and time_ms < oldest_ms
