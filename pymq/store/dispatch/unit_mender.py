"""UnitMender: makes damaged queue units again from the log, when a reader is about to use them.

A block of units whose checksum is unknown or differs is compared with the records that its units lead to. Units that a
record proves are kept. For the others the log is scanned between the two nearest proven units around them, so the log
decides what the queue holds. A short scan runs at once. A long one runs in pieces, and until its end readers of the
queue get an error that says so.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from pymq.errors import UnreadableError
from pymq.model.layout import BLANK_UNIT_SIZE, PLACEHOLDER_CODE, RECORD_OVERHEAD_BYTES, UNIT, UNIT_SIZE_BYTES
from pymq.store.dispatch.batch_mender import BatchMender
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import Scanned, has_queue_unit, unit_tags_code
from pymq.store.queue.batch_queue import BatchUnits
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.placeholder_units import lost_unit
from pymq.store.queue.queue_table import QueueTable
from pymq.store.queue.settling import leads_to_damage
from pymq.store.queue.unit_sums import BLOCK_UNITS
from pymq.store.scan.scanner import End, find_later_record, record_in, scan
from pymq.store.settings import StoreSettings

log = logging.getLogger(__name__)

SCAN_NOW_BYTES_MAX = 4 << 20  # scanned at once for a reader; more is done in pieces
SLICE_BYTES = 1 << 20  # of the log, scanned in one piece
LMQ_PREFIX = "%LMQ%"  # RocketMQ's light queues lead to records of other topics


@dataclass(slots=True)
class _Mending:
    """Queue offsets ``first`` to ``end`` that are made again from the log between ``start`` and ``stop``."""

    queue: ConsumeQueue
    first: int
    end: int
    start: int
    at: int
    stop: int
    units: bytearray
    known: bytearray  # 1 for each unit that the log proved
    newest: int = -1  # the queue offset found last
    has_gaps: bool = False  # the scan met damage in the log

    def take(self, record: Scanned, settings: StoreSettings) -> None:
        number = record.queue_offset - self.first
        # A flipped bit in a record's head may name another offset: a unit that is proven gives way to a follower only.
        if not 0 <= number < len(self.known) or (self.known[number] and self.newest != record.queue_offset - 1):
            return
        unit = UNIT.pack(record.offset, record.size, unit_tags_code(record, settings))
        self.units[number * UNIT_SIZE_BYTES : (number + 1) * UNIT_SIZE_BYTES] = unit
        self.known[number] = 1
        self.newest = record.queue_offset


class UnitMender:
    """The mender of one open store, whose thread calls everything. ``mended_count`` counts units that were wrong."""

    def __init__(self, commit_log: CommitLog, queues: QueueTable, settings: StoreSettings) -> None:
        self._log = commit_log
        self._queues = queues
        self._settings = settings
        self._running: dict[tuple[str, int], _Mending] = {}
        self.scan_now_bytes_max: int = SCAN_NOW_BYTES_MAX
        self.mended_count = 0
        self.lost_count = 0

    # -- what a queue calls -------------------------------------------------------------------------------------

    def mend(self, queue: ConsumeQueue, start: int, end: int) -> None:
        """Make the units from queue offset ``start`` to ``end``, a block in the queue's files, those of the log.

        Raises UnreadableError while a long scan runs for them, and when the disk fails.
        """
        if queue.topic.startswith(LMQ_PREFIX):
            return
        try:
            if isinstance(queue, BatchUnits):
                self._mend_batches(queue, start, end)
            else:
                self._mend(queue, start, end)
        except OSError as error:
            raise UnreadableError(
                f"units {start} to {end - 1} of {queue.topic} queue {queue.queue_id} differ from the log and can't be "
                f"made again: {error.filename}: {error.strerror}; mend the disk and try again"
            ) from error

    def _mend(self, queue: ConsumeQueue, start: int, end: int) -> None:
        running = self._running.get((queue.topic, queue.queue_id))
        if running is not None and running.queue is queue:
            raise self._busy(running)
        units, bad = self._compare(queue, start, end)
        self._write(queue, start, units)
        if not bad:
            return
        mending = self._plan(queue, start, end, units, bad)
        if mending.stop - mending.at > self.scan_now_bytes_max:
            self._running[queue.topic, queue.queue_id] = mending
            log.warning(
                "%s queue %d: units from %d to %d are damaged; they are made again from %d bytes of the log",
                queue.topic, queue.queue_id, mending.first, mending.end - 1, mending.stop - mending.at,
            )  # fmt: skip
            raise self._busy(mending)
        while mending.at < mending.stop:
            self._scan(mending, mending.stop)
        self._finish(mending)

    def _mend_batches(self, queue: BatchUnits, start: int, end: int) -> None:
        mender = BatchMender(self._log, self._settings, queue, self._queues.deleted_end(queue.topic))
        units, lost = mender.right_units(start, end)
        self._write(queue, start, bytearray(units))
        self._note_lost(queue, lost, start, end)

    def begin(self) -> None:
        """Compare units with the log from now on. First finds every queue's begin with compared units. Raises OSError.

        What that needs is made again at once, however long it takes.
        """
        self.scan_now_bytes_max = self._log.max_offset + 1
        self._queues.guard_with(self)
        self._queues.find_begins(self._log.min_offset)
        self.scan_now_bytes_max = SCAN_NOW_BYTES_MAX

    # -- what the store calls -----------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return bool(self._running)

    def work(self) -> None:
        """Scan one piece of the log for each queue with a long scan. A reader begins again what a failing disk ends."""
        for key, mending in list(self._running.items()):
            if self._queues.get(*key) is not mending.queue or mending.at < self._log.min_offset:
                del self._running[key]  # the queue was deleted, or the log begins later now: a reader asks again
                continue
            try:
                self._scan(mending, min(mending.at + SLICE_BYTES, mending.stop))
                if mending.at >= mending.stop:
                    del self._running[key]
                    self._finish(mending)
            except OSError as error:
                self._running.pop(key, None)
                log.error("%s queue %d: units can't be made again: %s", *key, error)

    @property
    def problem(self) -> str | None:
        """What an operator should know now; None when nothing is being made again."""
        mending = next(iter(self._running.values()), None)
        return None if mending is None else str(self._busy(mending))

    # -- comparing ----------------------------------------------------------------------------------------------

    def _compare(self, queue: ConsumeQueue, start: int, end: int) -> tuple[bytearray, list[int]]:
        """The units of a block, with right tags codes, and the offsets of those that no record proves."""
        units, bad = bytearray(queue.stored(start, end)), []
        proven = expired_end = 0
        for number, unit in enumerate(UNIT.iter_unpack(bytes(units))):
            try:
                record = self._record(queue, start + number, unit)
            except OSError:
                proven += 1
                continue  # the disk can't read the record: that says nothing about its unit
            if record is not None:
                fixed = UNIT.pack(unit[0], unit[1], unit_tags_code(record, self._settings))
                units[number * UNIT_SIZE_BYTES : (number + 1) * UNIT_SIZE_BYTES] = fixed
                proven += 1
                continue
            bad.append(start + number)
            if not proven and self._is_expired(unit):
                expired_end = start + number + 1
        if not proven and expired_end == end:
            return units, []  # all of it is older than the log: nothing in it can be compared, and none of it is read
        return units, bad

    def _record(self, queue: ConsumeQueue, offset: int, unit: tuple[int, int, int]) -> Scanned | None:
        """The record that proves a unit's place and size; None when it leads to no record of its own."""
        physical_offset, size, code = unit
        if size < RECORD_OVERHEAD_BYTES or size == BLANK_UNIT_SIZE or code == PLACEHOLDER_CODE:
            return None
        segment = self._log.find(physical_offset) if physical_offset >= self._log.min_offset else None
        if segment is None or physical_offset >= self._log.max_offset:
            return None
        record = record_in(segment, physical_offset)
        if record is None or not has_queue_unit(record.sys_flag):
            return None
        place = record.topic, record.queue_id, record.queue_offset, record.size
        return record if place == (queue.topic, queue.queue_id, offset, size) else None

    def _is_expired(self, unit: tuple[int, int, int]) -> bool:
        physical_offset, size, _ = unit
        return size >= RECORD_OVERHEAD_BYTES and 0 <= physical_offset < self._log.min_offset

    # -- planning -----------------------------------------------------------------------------------------------

    def _plan(self, queue: ConsumeQueue, start: int, end: int, units: bytearray, bad: list[int]) -> _Mending:
        """Find the nearest proven units before and behind the bad ones: the lost records lie between them."""
        first, low = bad[0], max(self._log.min_offset, self._queues.deleted_end(queue.topic))
        if first > start:
            physical_offset, size, _ = UNIT.unpack_from(units, (first - 1 - start) * UNIT_SIZE_BYTES)
            low = max(low, physical_offset + size)
        else:
            while first > queue.base_offset:
                unit = UNIT.unpack(queue.stored(first - 1, first))
                if self._record(queue, first - 1, unit) is not None:
                    low = max(low, unit[0] + unit[1])
                    break
                if self._is_expired(unit):
                    break
                first = max(first - BLOCK_UNITS, queue.base_offset)
        last, high = bad[-1] + 1, self._log.visible_end[0]
        if last < end:
            high = UNIT.unpack_from(units, (last - start) * UNIT_SIZE_BYTES)[0]
        else:
            while last < queue.max_offset:
                if last >= queue.tail_offset:
                    high = UNIT.unpack_from(queue.tail)[0]
                    break
                unit = UNIT.unpack(queue.stored(last, last + 1))
                if self._record(queue, last, unit) is not None:
                    high = unit[0]
                    break
                last = min(last + BLOCK_UNITS, queue.tail_offset)
        whole = bytearray()
        for offset in range(first, last, BLOCK_UNITS):
            whole += self._stored(queue, offset, min(offset + BLOCK_UNITS, last))
        known = bytearray(last - first)
        for number in range(max(start, first), min(end, last)):
            at = (number - start) * UNIT_SIZE_BYTES
            whole[(number - first) * UNIT_SIZE_BYTES : (number - first + 1) * UNIT_SIZE_BYTES] = units[
                at : at + UNIT_SIZE_BYTES
            ]
        for number in set(range(max(start, first), min(end, last))) - set(bad):
            known[number - first] = 1
        return _Mending(queue, first, last, low, low, max(low, high), whole, known)

    def _stored(self, queue: ConsumeQueue, start: int, end: int) -> bytes:
        """Units from files, from more than one if need be."""
        per_file = queue.units_per_file
        parts = []
        while start < end:
            stop = min(end, (start // per_file + 1) * per_file)
            parts.append(queue.stored(start, stop))
            start = stop
        return b"".join(parts)

    # -- scanning -----------------------------------------------------------------------------------------------

    def _scan(self, mending: _Mending, stop: int) -> None:
        """Take the queue's records between the mending's place and ``stop``."""
        queue = mending.queue
        for part in scan(self._log, mending.at, check_crc=False):
            if isinstance(part, End):
                mending.has_gaps |= part.offset < mending.stop
                mending.at = self._behind_damage(part.offset, mending.stop)
                return
            if part.offset >= stop:
                mending.at = part.offset
                return
            mending.at = part.offset + part.size
            if part.topic == queue.topic and part.queue_id == queue.queue_id and has_queue_unit(part.sys_flag):
                mending.take(part, self._settings)

    def _behind_damage(self, offset: int, stop: int) -> int:
        later = find_later_record(self._log, offset, 0) if offset < stop else None
        return later.offset if later is not None else stop

    def _finish(self, mending: _Mending) -> None:
        """Write the units. One that no record proves stays when its record may be damaged or deleted."""
        queue, lost = mending.queue, 0
        deleted_end, deleted_unit = self._deleted(mending)
        for number in range(len(mending.known)):
            at = number * UNIT_SIZE_BYTES
            unit = UNIT.unpack_from(mending.units, at)
            if not mending.known[number] and not self._may_stay(mending, number, unit):
                if number < deleted_end and deleted_unit:
                    mending.units[at : at + UNIT_SIZE_BYTES] = deleted_unit
                    continue
                mending.units[at : at + UNIT_SIZE_BYTES] = lost_unit(
                    queue, *self._neighbor(mending, number), self._settings.segment_size_bytes
                )
                lost += number >= deleted_end
        self._write(queue, mending.first, mending.units)
        self._note_lost(queue, lost, mending.first, mending.end)

    def _deleted(self, mending: _Mending) -> tuple[int, bytes]:
        """How many of the first units lead to deleted messages, and a unit that does, b"" when there is none.

        They are those before one that does, for a queue has the log's order; and those before the first that is proven,
        if the log has no gap from its begin to there.
        """
        proven = mending.known.find(1)
        count = proven if proven >= 0 else len(mending.known)
        units = [mending.units[i * UNIT_SIZE_BYTES : (i + 1) * UNIT_SIZE_BYTES] for i in range(count)]
        expired = [number for number, unit in enumerate(units) if self._is_expired(UNIT.unpack(unit))]
        is_followed = proven >= 0 or mending.end < mending.queue.max_offset
        if not is_followed or mending.has_gaps or not 0 < mending.start == self._log.min_offset:
            count = expired[-1] + 1 if expired else 0
        return count, bytes(units[expired[-1]]) if expired else b""

    def _note_lost(self, queue: ConsumeQueue, lost: int, first: int, end: int) -> None:
        if lost:
            self.lost_count += lost
            log.error(
                "%s queue %d: %d units from %d to %d have no record in the log: their messages are lost",
                queue.topic, queue.queue_id, lost, first, end - 1,
            )  # fmt: skip

    def _may_stay(self, mending: _Mending, number: int, unit: tuple[int, int, int]) -> bool:
        if self._is_expired(unit) and not any(mending.known[:number]):
            return True
        if unit[1] == BLANK_UNIT_SIZE and unit[0] == 0:
            return True
        if unit[2] == PLACEHOLDER_CODE and self._log.find(unit[0]) is not None:
            return True
        queue = mending.queue
        offset = mending.first + number
        return mending.start <= unit[0] < mending.stop and leads_to_damage(queue, offset, *unit[:2], self._log)

    def _neighbor(self, mending: _Mending, number: int) -> tuple[int, int]:
        """Place and size of the record behind a lost one, or of the one before."""
        after = mending.known.find(1, number)
        near = after if after >= 0 else mending.known.rfind(1, 0, number)
        if near >= 0:
            physical_offset, size, _ = UNIT.unpack_from(mending.units, near * UNIT_SIZE_BYTES)
            return physical_offset, size
        queue = mending.queue
        if mending.end < queue.max_offset:
            physical_offset, size, _ = UNIT.unpack(
                queue.tail[:UNIT_SIZE_BYTES]
                if mending.end >= queue.tail_offset
                else queue.stored(mending.end, mending.end + 1)
            )
            return physical_offset, size
        return self._log.max_offset, BLANK_UNIT_SIZE

    def _write(self, queue: ConsumeQueue, first: int, units: bytearray) -> None:
        """Replace the units from queue offset ``first`` on where they differ."""
        unit_size = queue.unit_size_bytes
        end = first + len(units) // unit_size
        before = self._stored(queue, first, end)
        wrong = sum(
            before[at : at + unit_size] != units[at : at + unit_size] for at in range(0, len(before), unit_size)
        )
        if not wrong:
            return
        queue.overwrite(first, units)
        self.mended_count += wrong
        log.warning(
            "%s queue %d: %d damaged units between %d and %d were made again from the log",
            queue.topic, queue.queue_id, wrong, first, end - 1,
        )  # fmt: skip

    def _busy(self, mending: _Mending) -> UnreadableError:
        queue = mending.queue
        return UnreadableError(
            f"units {mending.first} to {mending.end - 1} of {queue.topic} queue {queue.queue_id} are damaged and are "
            f"made again from the log, {mending.at - mending.start} of {mending.stop - mending.start} bytes are read: "
            f"try again"
        )
