"""Forward: the oldest messages of some queues that match, queue by queue, a bounded part at a time.

Where one part ended, the next one goes on, so that work on many messages is done in steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pymq.client import MessageQueue
from pymq.clock import Clock
from pymq.errors import PymqError
from pymq.operations.message.search import Limits, Parts, Range, Stop

READ_COUNT_MAX: Final = 64

T = TypeVar("T")


@dataclass(slots=True)
class Step(Generic[T]):
    """What one step found, oldest first, and where it is. ``scanned`` counts messages.

    ``reached``: where the next step begins in each queue; ``ends``: where the search ends. ``failed``: why queues were
    not read to their end. ``stop`` None: all others were.
    """

    rows: list[T]
    reached: dict[MessageQueue, int]
    ends: dict[MessageQueue, int]
    scanned: int
    failed: dict[MessageQueue, str]
    stop: Stop | None

    @property
    def left(self) -> int:
        """The number of messages that were not looked at."""
        return sum(max(0, end - self.reached[queue]) for queue, end in self.ends.items())


async def step_forward(parts: Parts[T], clock: Clock, limits: Limits, ranges: Mapping[MessageQueue, Range]) -> Step[T]:
    """Return the next matches. An error of a queue is in the result, and leaves the queue where it is."""
    begun_ms = clock.monotonic_ms()
    ends = {queue: each.end for queue, each in ranges.items()}
    found: Step[T] = Step([], {queue: each.first for queue, each in ranges.items()}, ends, 0, {}, None)
    for queue, end in sorted(ends.items()):
        while found.reached[queue] < end and queue not in found.failed:
            found.stop = _spent(found, limits, clock.monotonic_ms() - begun_ms)
            if found.stop is not None:
                return found
            await _read(parts, queue, end, limits, found)
    return found


def _spent(found: Step[T], limits: Limits, took_ms: int) -> Stop | None:
    """Return which limit forbids to read more."""
    if len(found.rows) >= limits.found_max:
        return Stop.found
    if found.scanned >= limits.scanned_max:
        return Stop.scanned
    return Stop.time if took_ms >= limits.time_max_ms else None


async def _read(parts: Parts[T], queue: MessageQueue, end: int, limits: Limits, found: Step[T]) -> None:
    """Read once from where a queue is."""
    at, room = found.reached[queue], limits.found_max - len(found.rows)
    try:
        part = await parts.read(queue, at, min(READ_COUNT_MAX, end - at))
    except PymqError as error:
        found.failed[queue] = str(error)
        return
    if part.next_offset <= at:
        found.failed[queue] = f"nothing is at offset {at}, where messages should be: the broker may be behind"
        return
    hits = [hit for hit in part.hits if hit.offset < end]
    found.rows += [hit.row for hit in hits[:room]]
    following = hits[room - 1].offset + 1 if len(hits) > room else min(part.next_offset, end)
    found.scanned += following - at
    found.reached[queue] = following
