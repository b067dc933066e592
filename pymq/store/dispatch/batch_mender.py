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
_NO_LIMIT = 1 << 62


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
        known = [self._known(unit) for unit in units]
        if not any(known) and all(map(self._is_expired, units)):
            return raw, 0
        lost = 0
        for is_bad, group in groupby(range(len(units)), key=lambda number: known[number] is None):
            if is_bad:
                numbers = list(group)
                lost += self._fill(start, units, known, numbers[0], numbers[-1] + 1)
        return b"".join(unit or b"" for unit in known), lost

    def _known(self, unit: bytes) -> bytes | None:
        """The unit as its record wants it, or itself if it stands for lost messages; None for one without a record."""
        if _is_blank(unit):
            return unit
        record = self._record(unit)
        return None if record is None else self._packed(record)

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
        low, low_offset, unknown_count = self._before(start, known, first)
        high, high_offset = self._behind(start, known, end)
        between = (
            self._packed(record)
            for record in self._records(low, high)
            if low_offset <= record.queue_offset < high_offset
        )
        # The first ones are those of unknown units before these, in other blocks.
        found = list(islice(between, unknown_count, unknown_count + end - first))
        expired = 0
        while not first and expired < end - len(found) and self._is_expired(units[expired]):
            known[expired] = units[expired]
            expired += 1
        known[first + expired : first + expired + len(found)] = found
        lost = range(first + expired + len(found), end)
        for number in lost:
            unit = known[number - 1] if number else None
            offset = sum(BATCH_UNIT_RANGE.unpack(unit)) if unit is not None else self._queue.offset_of(0)
            known[number] = BATCH_UNIT.pack(0, BLANK_UNIT_SIZE, 0, 0, offset, 0, NOT_COMPACTED, 0)
        return len(lost)

    def _before(self, start: int, known: list[bytes | None], first: int) -> tuple[int, int, int]:
        """Return where the records of the unit ``first`` and later ones begin: a physical and a queue offset.

        Also returns how many unknown units lie between, in the blocks before ``start``.
        """
        number, offset, unknown_count = start + first, 0, 0
        while number > self._queue.base_offset:
            number -= 1
            raw = self._queue.stored(number, number + 1) if number < start else b""
            unit = self._known(raw) if raw else known[number - start]
            if unit is None:
                if self._is_expired(raw):
                    break
                unknown_count += not offset
                continue
            offset = offset or sum(BATCH_UNIT_RANGE.unpack(unit))
            if not _is_blank(unit):
                return max(_end_of(unit), self._low_end), offset, unknown_count
            number = max(number - BLOCK_UNITS, self._queue.base_offset)
        return self._low_end, offset, unknown_count

    def _behind(self, start: int, known: list[bytes | None], end: int) -> tuple[int, int]:
        """Return where the nearest known units from ``end`` on begin: a physical and a queue offset."""
        queue, number, offset = self._queue, start + end, 0
        while number < queue.max_offset:
            if number >= queue.tail_offset:
                raw = queue.tail[:BATCH_UNIT_SIZE_BYTES]
                return int(UNIT.unpack_from(raw)[0]), offset or BATCH_UNIT_RANGE.unpack(raw)[0]
            in_block = number - start < len(known)
            unit = known[number - start] if in_block else self._known(queue.stored(number, number + 1))
            if unit is not None:
                offset = offset or BATCH_UNIT_RANGE.unpack(unit)[0]
                if not _is_blank(unit):
                    return int(UNIT.unpack_from(unit)[0]), offset
            number += 1 if in_block else BLOCK_UNITS
        return self._log.visible_end[0], offset or _NO_LIMIT

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


def _is_blank(unit: bytes) -> bool:
    """True for a unit of messages that were lost. It keeps their range of offsets."""
    place, size, _ = UNIT.unpack_from(unit)
    return bool(place == 0 and size == BLANK_UNIT_SIZE)


def _end_of(unit: bytes) -> int:
    place, size, _ = UNIT.unpack_from(unit)
    return int(place + size)
