"""Reads messages of a batch queue: whole records, each with one message or an inner batch of many.

As in RocketMQ, a read from an offset inside a batch returns the batch's whole record, and a read that may return fewer
messages than the first record holds returns that record alone. A unit's tags code is that of the batch, so a reader
with tags gets an inner batch only when all of it has that tag.
"""

from __future__ import annotations

import struct

from pymq.errors import CorruptRecordError, UnreadableError
from pymq.model.layout import BATCH_UNIT, BLANK_UNIT_SIZE, RECORD_PLACE
from pymq.model.record import MalformedRecordError
from pymq.store.queue.batch_queue import BatchQueue
from pymq.store.read.reading import (
    MAGICS,
    Accept,
    GetResult,
    GetStatus,
    Limits,
    Pace,
    corrupt_error,
    is_damaged,
    may_match,
    refusal,
    segment_of,
)
from pymq.store.read.windows import CHUNK_SHIFT, NO_WINDOW, WindowReader
from pymq.store.settings import StoreSettings

_STEP_UNITS = 128  # read together
_unpack_place = RECORD_PLACE.unpack_from


# Physical offset, size, tags code, store time, first queue offset, number of messages, and two that are not used.
_BatchUnit = tuple[int, int, int, int, int, int, int, int]


def get_batches(
    queue: BatchQueue,
    windows: WindowReader,
    settings: StoreSettings,
    offset: int,
    count_max: int,
    bytes_max: int,
    tag_codes: frozenset[int] | None,
    accept: Accept | None,
    pace: Pace | None = None,
) -> GetResult:
    """Read from ``offset`` on. ``count`` of the result, and ``count_max``, are messages, not records.

    Raises as :func:`pymq.store.read.reading.get_messages`.
    """
    low, high = queue.min_offset, queue.max_offset
    if high == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high)
    if offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high)
    if offset >= high:
        status = GetStatus.OFFSET_OVERFLOW_ONE if offset == high else GetStatus.OFFSET_OVERFLOW_BADLY
        return GetResult(status, high, low, high)
    result = GetResult(GetStatus.NO_MATCHED_MESSAGE, offset, low, high)
    limits = Limits(settings, windows.log, queue, offset, count_max, bytes_max)
    reader = _BatchReader(queue, windows, limits, result, tag_codes, accept)
    scan_max = max(settings.filter_scan_bytes // queue.units.unit_size_bytes, 1)
    units, number = queue.units, queue.units.number_of(offset)
    first = number
    # Records that are asked for next have about as many messages as the one before them.
    step_units = min(_STEP_UNITS, limits.count // max(queue.offset_of(number + 1) - queue.offset_of(number), 1) + 1)
    while number < units.max_offset and number - first < scan_max:
        step = _step(queue, number, step_units)
        if not step:  # a file that was deleted by hand
            number = min(units.max_offset, (number // units.units_per_file + 1) * units.units_per_file)
            result.next_offset = queue.offset_of(number)
            result.status = GetStatus.FOUND if result.count else GetStatus.OFFSET_FOUND_NULL
            break
        taken = reader.take(step)
        number += taken
        step_units = _STEP_UNITS
        if taken < len(step) or (pace is not None and pace.is_over()):
            break
    else:
        if number >= units.max_offset:
            result.next_offset = high
    if result.count:
        result.status = GetStatus.FOUND
    units.note_read(result.next_offset, number)
    result.suggest_slave = limits.far_behind and result.count > 0
    return result


def _step(queue: BatchQueue, number: int, count: int) -> list[_BatchUnit]:
    raw = bytes(queue.units.read(number, count))
    return list(BATCH_UNIT.iter_unpack(raw[: len(raw) - len(raw) % BATCH_UNIT.size]))


class _BatchReader:
    """One read. It collects the records that are accepted, until the result is full."""

    def __init__(
        self,
        queue: BatchQueue,
        windows: WindowReader,
        limits: Limits,
        result: GetResult,
        tag_codes: frozenset[int] | None,
        accept: Accept | None,
    ) -> None:
        self._queue = queue
        self._windows = windows
        self._limits = limits
        self._result = result
        self._tag_codes = tag_codes
        self._accept = accept
        self._window = NO_WINDOW

    def take(self, step: list[_BatchUnit]) -> int:
        """Take units until the result is full. Return how many were taken.

        The hot loop of every pull: local names, and as few calls as possible.
        """
        result, accept, tag_codes = self._result, self._accept, self._tag_codes
        count_max, bytes_max = self._limits.count, self._limits.size_bytes
        queue_id, magic, kept = self._queue.queue_id, self._queue.magic, self._windows.chunks.get
        data, start, stop, doubts = self._window
        for number, (place, size, code, _, base, count, _, _) in enumerate(step):
            if result.count and (result.size_bytes + size > bytes_max or result.count + count > count_max):
                return number
            if tag_codes is None or may_match(code, tag_codes):
                if place < start or place + size > stop:
                    self._window = data, start, stop, doubts = kept(place >> CHUNK_SHIFT) or NO_WINDOW
                try:
                    at = place - start
                    if (
                        doubts is None
                        and at >= 0
                        and place + size <= stop
                        and _unpack_place(data, at) == (size, magic, queue_id, base, place)
                    ):
                        record: memoryview | None = data[at : at + size]  # what :meth:`_record` returns for most
                    else:
                        record = self._record(step, number)
                        data, start, stop, doubts = self._window
                    if record is not None and (accept is None or accept(record)):
                        result.chunks.append(record)
                        result.count += count
                        result.size_bytes += size
                except (CorruptRecordError, UnreadableError, MalformedRecordError, struct.error) as error:
                    if not result.count:
                        raise refusal(self._windows.log, self._queue, base + count - 1, error) from None
                    return number
            result.next_offset = base + count
        return len(step)

    def _record(self, step: list[_BatchUnit], number: int) -> memoryview | None:
        """The record of a unit; None when it was deleted with its segment."""
        physical_offset, size, _, _, base, count, _, _ = step[number]
        data, start, end, doubts = self._window
        if physical_offset < start or physical_offset + size > end:
            segment = segment_of(self._windows.log, physical_offset, size) if size != BLANK_UNIT_SIZE else None
            if segment is None:
                if not self._result.count:
                    self._result.status = GetStatus.MESSAGE_WAS_REMOVING
                return None
            left = self._limits.size_bytes - self._result.size_bytes
            units = [each[:3] for each in step[number:]]
            self._window = data, start, end, doubts = self._windows.window(segment, units, 0, left)
        at = physical_offset - start
        real_size, magic, queue_id, queue_offset, real_physical = RECORD_PLACE.unpack_from(data, at)
        place = queue_offset, real_size, real_physical, queue_id
        last = base + count - 1
        if place != (base, size, physical_offset, self._queue.queue_id) or magic not in MAGICS:
            raise corrupt_error(self._queue, last, physical_offset)
        record = data[at : at + size]
        if doubts is not None and is_damaged(record, doubts, self._queue, step[number][:3]):
            raise corrupt_error(self._queue, last, physical_offset)
        return record
