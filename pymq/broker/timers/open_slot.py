"""OpenSlot: the messages of the one slot of the wheel that is being delivered, by the time when each is due.

A slot of up to :data:`EXACT_UNITS_MAX` units is held in memory, and each message leaves at its own millisecond. Of a
larger one only places in the timer log are held, and it leaves at its end, as RocketMQ's slots do.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from pymq.store.timer.timer_store import MAGIC_DELETE, MAGIC_ROLL, NO_POSITION, TimerStore, TimerUnit

EXACT_UNITS_MAX = 16_384
CHUNK_UNITS = 8192


class DueMessage(NamedTuple):
    """A record of the wheel's topic and when it is due (Unix ms)."""

    due_ms: int
    physical_offset: int
    size_bytes: int
    magic: int
    write_ms: int
    topic_hash: int

    @property
    def is_roll(self) -> bool:
        return bool(self.magic & MAGIC_ROLL)


class OpenSlot:
    """Call :meth:`load` until it returns True; then :meth:`take` what is due."""

    def __init__(self, timers: TimerStore, slot_ms: int) -> None:
        self.slot_ms = slot_ms
        self.end_ms = slot_ms + timers.precision_ms
        self.deletions: list[DueMessage] = []  # records that name messages not to deliver; still to be read
        self.deleted: set[str] = set()  # the names of messages that records read so far name
        self._read_deletions: list[DueMessage] = []  # those records
        self.taken_count = 0
        self._timers = timers
        self._heap: list[DueMessage] = []
        self._marks: list[int] = []  # the newest position of each chunk, newest chunk first
        self._walk_count = 0
        self._newest_offset = -1  # of what left a large slot; a crash lets units stand in it twice
        slot = timers.wheel.slot(slot_ms)
        self._walk: Iterator[tuple[int, TimerUnit]] | None = timers.chain(slot.last if slot else NO_POSITION)
        self._seen: dict[int, DueMessage] = {}

    @property
    def is_loaded(self) -> bool:
        return self._walk is None

    @property
    def is_large(self) -> bool:
        return self._walk_count > EXACT_UNITS_MAX

    @property
    def is_empty(self) -> bool:
        """True when it is loaded and nothing is left in it."""
        return self._walk is None and not self._heap and not self._marks and not self.deletions

    @property
    def next_due_ms(self) -> int | None:
        """When the next message is due; None when none is left. Only of a loaded slot."""
        if self._heap:
            return self._heap[0].due_ms
        return self.end_ms if self._marks else None

    def load(self, unit_count: int) -> bool:
        """Read some more units; True when all are read. Raises OSError."""
        walk = self._walk
        for _ in range(unit_count if walk is not None else 0):
            found = next(walk, None)  # type: ignore[arg-type]
            if found is None:
                self._walk = None
                self._seen.update((message.physical_offset, message) for message in self._heap)
                self._heap = list(self._seen.values())
                self._seen = {}
                heapq.heapify(self._heap)
                break
            position, unit = found
            if self._walk_count % CHUNK_UNITS == 0:
                self._marks.append(position)
            self._walk_count += 1
            self._see(unit)
        if self.is_loaded and not self.is_large:
            self._marks = []
        return self.is_loaded

    def add(self, unit: TimerUnit) -> None:
        """Take a unit that was added to this slot after it was opened."""
        message = self._message(unit)
        if _cancels(unit):
            self.deletions.append(message)
        else:
            heapq.heappush(self._heap, message)

    def take(self, now_ms: int, count_max: int) -> list[DueMessage]:
        """Return messages that are due; they leave the slot. Raises OSError."""
        due: list[DueMessage] = []
        while len(due) < count_max:
            if self._heap and self._heap[0].due_ms <= now_ms:
                due.append(heapq.heappop(self._heap))
            elif self._marks and self.end_ms <= now_ms:
                self._load_chunk()
            else:
                break
        self.taken_count += len(due)
        return due

    def deletion_read(self) -> None:
        """Move the last of :attr:`deletions` to those that were read."""
        self._read_deletions.append(self.deletions.pop())

    def put_back(self, messages: list[DueMessage]) -> None:
        """Take back what could not be delivered."""
        self.taken_count -= len(messages)
        for message in messages:
            heapq.heappush(self._heap, message)

    def units_left(self) -> list[TimerUnit]:
        """Return units for what is left, in the order of the log; only of a slot that is not large."""
        deletions = [self._unit(message, MAGIC_DELETE) for message in (*self._read_deletions, *self.deletions)]
        messages = [self._unit(message, message.magic) for message in self._heap]
        return sorted(deletions + messages, key=lambda unit: unit.physical_offset)

    def _see(self, unit: TimerUnit) -> None:
        if _cancels(unit):
            self.deletions.append(self._message(unit))
        elif not self.is_large:
            self._seen[unit.physical_offset] = self._message(unit)
        elif self._seen:
            self._seen = {}

    def _load_chunk(self) -> None:
        """Let the oldest chunk's messages wait. The heap is by due time, then by offset: all are due now."""
        mark = self._marks.pop()
        chunk = []
        for number, (_, unit) in enumerate(self._timers.chain(mark)):
            if number == CHUNK_UNITS:
                break
            if not _cancels(unit) and unit.physical_offset > self._newest_offset:
                chunk.append(self._message(unit)._replace(due_ms=self.end_ms))
        for message in {message.physical_offset: message for message in chunk}.values():
            heapq.heappush(self._heap, message)
        self._newest_offset = max((message.physical_offset for message in chunk), default=self._newest_offset)

    def _message(self, unit: TimerUnit) -> DueMessage:
        after_ms = unit.due_after_ms
        due_ms = self.slot_ms + after_ms if 0 < after_ms < self._timers.precision_ms else self.end_ms
        return DueMessage(due_ms, unit.physical_offset, unit.size_bytes, unit.magic, unit.write_ms, unit.topic_hash)

    def _unit(self, message: DueMessage, magic: int) -> TimerUnit:
        return TimerUnit(
            previous=NO_POSITION,
            magic=magic,
            write_ms=message.write_ms,
            delay_ms=self.slot_ms - message.write_ms,
            physical_offset=message.physical_offset,
            size_bytes=message.size_bytes,
            topic_hash=message.topic_hash,
            due_after_ms=message.due_ms - self.slot_ms,
        )


def _cancels(unit: TimerUnit) -> bool:
    return bool(unit.magic & MAGIC_DELETE) and not unit.magic & MAGIC_ROLL
