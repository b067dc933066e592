"""Makes damaged units of a batch queue again from the log, as :mod:`pymq.store.dispatch.unit_mender` does for others.

A unit is proven by a record that has its queue and its first offset. Between two proven units the log holds the records
of the units that lie between them, in their order. All of it is read at once: a batch queue has few units.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice

from pymq.model.layout import BATCH_UNIT, BATCH_UNIT_RANGE, BATCH_UNIT_SIZE_BYTES, BLANK_UNIT_SIZE, NOT_COMPACTED, UNIT
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import Scanned, has_queue_unit, unit_tags_code
from pymq.store.queue.batch_queue import BatchUnits
from pymq.store.queue.unit_sums import BLOCK_UNITS
from pymq.store.scan.scanner import End, find_later_record, record_in, scan
from pymq.store.settings import StoreSettings

_RECORD_SIZE_MIN = 1


class BatchMender:
    """``low_end``: records of the queue below this physical offset are of a deleted topic."""

    def __init__(self, log: CommitLog, settings: StoreSettings, queue: BatchUnits, low_end: int) -> None:
        self._log = log
        self._settings = settings
        self._queue = queue
        self._low_end = max(low_end, log.min_offset)

    def right_units(self, start: int, end: int) -> tuple[bytes, int]:
        """Return the units from number ``start`` to ``end``, a block in the queue's files, as the log says.

        Also returns how many of them no record in the log proves: their messages are lost. Raises OSError.
        """
        raw = self._queue.stored(start, end)
        units = [raw[at : at + BATCH_UNIT_SIZE_BYTES] for at in range(0, len(raw), BATCH_UNIT_SIZE_BYTES)]
        records = [self._record(unit) for unit in units]
        known: list[bytes | None] = [self._packed(record) if record is not None else None for record in records]
        if not any(records) and all(map(self._is_expired, units)):
            return raw, 0
        lost = 0
        for is_bad, group in groupby(range(len(units)), key=lambda number: known[number] is None):
            if is_bad:
                numbers = list(group)
                lost += self._fill(start, units, known, numbers[0], numbers[-1] + 1)
        return b"".join(unit or b"" for unit in known), lost

    def _packed(self, record: Scanned) -> bytes:
        return self._queue.packed_unit(record, unit_tags_code(record, self._settings))

    def _record(self, unit: bytes) -> Scanned | None:
        place, size, _ = UNIT.unpack_from(unit)
        segment = self._log.find(place) if self._log.min_offset <= place < self._log.max_offset else None
        record = record_in(segment, place) if segment is not None and size >= _RECORD_SIZE_MIN else None
        if record is None or not has_queue_unit(record.sys_flag):
            return None
        queue = self._queue
        wanted = queue.topic, queue.queue_id, BATCH_UNIT_RANGE.unpack(unit)[0]
        return record if (record.topic, record.queue_id, record.queue_offset) == wanted else None

    def _is_expired(self, unit: bytes) -> bool:
        place, size, _ = UNIT.unpack_from(unit)
        return bool(size > 0 and 0 <= place < self._log.min_offset)

    def _fill(self, start: int, units: list[bytes], known: list[bytes | None], first: int, end: int) -> int:
        """Set the unknown units ``first`` to ``end``; return the number of those that are lost."""
        before, after = known[first - 1] if first else None, known[end] if end < len(known) else None
        low = _end_of(before) if before is not None else self._end_before(start)
        high = UNIT.unpack_from(after)[0] if after is not None else self._begin_behind(start + len(units))
        found = [self._packed(record) for record in islice(self._records(low, high), end - first)]
        expired = 0
        while not before and first + expired < end - len(found) and self._is_expired(units[first + expired]):
            known[first + expired] = units[first + expired]
            expired += 1
        known[first + expired : first + expired + len(found)] = found
        lost = range(first + expired + len(found), end)
        for number in lost:
            unit = known[number - 1] if number else None
            offset = sum(BATCH_UNIT_RANGE.unpack(unit)) if unit is not None else self._queue.offset_of(0)
            known[number] = BATCH_UNIT.pack(0, BLANK_UNIT_SIZE, 0, 0, offset, 0, NOT_COMPACTED, 0)
        return len(lost)

    def _end_before(self, number: int) -> int:
        """Where the record of the nearest proven unit before a number ends; the log's begin without one."""
        while number > self._queue.base_offset:
            unit = self._queue.stored(number - 1, number)
            if self._record(unit) is not None:
                return max(_end_of(unit), self._low_end)
            number = max(number - BLOCK_UNITS, self._queue.base_offset)
        return self._low_end

    def _begin_behind(self, number: int) -> int:
        """Where the record of the nearest proven unit from a number on begins; the visible log's end without one."""
        queue = self._queue
        while number < queue.max_offset:
            if number >= queue.tail_offset:
                return int(UNIT.unpack_from(queue.tail)[0])
            unit = queue.stored(number, number + 1)
            if self._record(unit) is not None:
                return int(UNIT.unpack_from(unit)[0])
            number = min(number + BLOCK_UNITS, queue.tail_offset)
        return self._log.visible_end[0]

    def _records(self, start: int, stop: int) -> Iterator[Scanned]:
        """The queue's records between two physical offsets."""
        queue, at = self._queue, start
        while at < stop:
            for part in scan(self._log, at, check_crc=False):
                at = part.offset
                if isinstance(part, End) or at >= stop:
                    break
                if (part.topic, part.queue_id) == (queue.topic, queue.queue_id) and has_queue_unit(part.sys_flag):
                    yield part
            if at < stop:
                later = find_later_record(self._log, at, 0)
                at = later.offset if later is not None else stop


def _end_of(unit: bytes) -> int:
    place, size, _ = UNIT.unpack_from(unit)
    return int(place + size)
