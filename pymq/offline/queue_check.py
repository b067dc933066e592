"""Compares consume queues with the log: every unit leads to its record, every record has its unit.

Records come in log order, and a queue's units stand in the same order. So both are walked side by side, and little is
compared at a time, however large the log is. Whole runs of units are compared as bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pymq.model.layout import (
    EXT_ADDRESS_MAX,
    I64,
    QUEUE_OFFSET_AT,
    RECORD_OVERHEAD_BYTES,
    UNIT,
    UNIT_SIZE_BYTES,
    UNIT_TAGS_CODE_AT,
)
from pymq.model.names import topic_problem
from pymq.offline.batch_check import BatchLimits, BatchQueueCheck
from pymq.offline.checked_queue import CheckedQueue, QueueLimits
from pymq.offline.damage import DamagedRanges
from pymq.offline.directory import Directory
from pymq.offline.findings import LostMessage, Report
from pymq.offline.log_walk import record_at
from pymq.offline.queue_files import QueueFilesReader, is_blank
from pymq.store.log.log_record import Scanned, has_queue_unit, unit_tags_code
from pymq.store.settings import is_schedule_topic

if TYPE_CHECKING:
    from pymq.store.scan.columns import Records

PENDING_COUNT_MAX = 1 << 17  # units that wait to be compared, over all queues
_UNITS_AT_ONCE = 4096
_LMQ_PREFIX = "%LMQ%"  # queues over other topics' records


class QueueCheck:
    """Call :meth:`add` with every block's records, then :meth:`finish`.

    ``bad_records`` holds the offsets of records that contradict their queue.
    """

    def __init__(self, directory: Directory, report: Report, damaged: DamagedRanges) -> None:
        self._log = directory.log
        self._settings = directory.settings
        self._clean = directory.clean and not _must_rebuild_queues(directory)
        self._vouched_offset = 0 if directory.checkpoint.durable is None else directory.checkpoint.durable.queue_offset
        self._root = f"{directory.root}/consumequeue"
        self._topics = directory.topics()
        self._deleted_ends = directory.deleted_ends()
        self._has_extensions = directory.files.is_dir(f"{directory.root}/consumequeue_ext")
        self._report = report
        self._damaged = damaged
        self._log_end: int | None = None
        self._pending_count = 0
        self._deleted: Counter[str] = Counter()
        self.bad_records: set[int] = set()
        self._queues: dict[tuple[str, int], CheckedQueue] = {}
        self._batches = BatchQueueCheck(directory, report)
        self.known_ends = directory.known_ends()
        for reader in directory.queues():
            self._queues[reader.topic, reader.queue_id] = self._open(reader)
            for path, problem in reader.odd:
                report.add("queue", problem, path)
            reader.close()

    @property
    def queue_count(self) -> int:
        return len(self._queues)

    def limits(self) -> dict[tuple[str, int], QueueLimits]:
        """Return, after :meth:`finish`, every queue that has files and was compared."""
        return {
            key: self._limits(queue)
            for key, queue in self._queues.items()
            if queue.reader is not None and not queue.ignored
        }

    def batch_limits(self) -> dict[tuple[str, int], BatchLimits]:
        """Return, after :meth:`finish`, every batch queue that has files or a saved end."""
        return self._batches.limits()

    def _limits(self, queue: CheckedQueue) -> QueueLimits:
        if queue.missing_from is not None and queue.missing_from < queue.start:
            return QueueLimits(self._deleted_ends.get(queue.topic, 0), queue.missing_from, queue.keep_end)
        return QueueLimits(queue.from_offset, queue.start, queue.keep_end)

    def is_deleted(self, topic: str, physical_offset: int) -> bool:
        """True for a record whose topic is in no table, if there is one, or from before the topic's deletion."""
        if self._topics is not None and topic not in self._topics:
            return True
        return physical_offset < self._deleted_ends.get(topic, 0)

    def offsets_without_record(self, topic: str, queue_id: int, start: int, end: int) -> set[int]:
        """Return the offsets of a range whose units in the files already stand for no record."""
        queue = self._queues.get((topic, queue_id))
        if queue is None or queue.reader is None:
            return set()
        units = queue.reader.read(start, end - start)
        queue.reader.close()
        return {start + at for at, (_, size, code) in enumerate(UNIT.iter_unpack(units)) if is_blank(size, code)}

    def _open(self, reader: QueueFilesReader) -> CheckedQueue:
        queue = CheckedQueue(reader.topic, reader.queue_id, reader, ignored=reader.topic.startswith(_LMQ_PREFIX))
        if not queue.ignored and (doubt := self._doubt(reader)) is not None:
            self._report.add("queue", f"{queue.name} {doubt}: a start makes it again from the log", reader.directory)
            queue.reader, queue.next, queue.is_doubted = None, -1, True
            return queue
        queue.directory = reader.directory
        queue.from_offset = self._deleted_ends.get(reader.topic, 0)
        queue.next = queue.start = -1
        if not queue.ignored:
            self._find_start(queue, reader)
        return queue

    def _find_start(self, queue: CheckedQueue, reader: QueueFilesReader) -> None:
        """Find the queue's first record in the log. A damaged unit may lead there from among deleted units."""
        queue.next = reader.first_in_log(self._log.start)
        while queue.next < reader.end:
            physical_offset, _, _ = reader.unit(queue.next)
            first = record_at(self._log, physical_offset)
            if first is not None and queue.is_place_of(first, queue.next):
                queue.from_offset = physical_offset
                break
            if not reader.is_before_log(queue.next + 1, self._log.start):
                break
            queue.next = reader.first_in_log(self._log.start, queue.next)
        queue.start = queue.next

    def _doubt(self, reader: QueueFilesReader) -> str | None:
        """Return why a queue's files can't be what they were; None when they can. A start asks the same."""
        reader.end_gap(self._log.start)
        if reader.has_gap:
            return "lacks a file, or has one of a wrong size or name"
        if reader.end < self.known_ends.get((reader.topic, reader.queue_id), 0):
            return "lacks the units at its end"
        for offsets in reader.samples():
            if 2 * sum(self._fits(reader, offset, is_alone=len(offsets) == 1) for offset in offsets) < len(offsets):
                return f"does not have its own units in {reader.place(offsets[0])[0]}"
        return None

    def _fits(self, reader: QueueFilesReader, offset: int, *, is_alone: bool) -> bool:
        """False when a unit is empty, or leads to a record of another place.

        ``is_alone``: no other unit can tell whether it or its record is damaged, so one field may differ by a bit.
        """
        physical_offset, size, code = reader.unit(offset)
        if is_blank(size, code):
            return True
        if physical_offset < self._log.start or physical_offset >= self._log.end_of_files:
            return size > 0 and physical_offset >= 0
        record = record_at(self._log, physical_offset)
        if record is None:
            return size > 0
        same = (record.topic == reader.topic, record.queue_id == reader.queue_id, record.queue_offset == offset)
        differing_bits = record.queue_id ^ reader.queue_id | record.queue_offset ^ offset
        return all(same) or (is_alone and sum(same) == 2 and differing_bits.bit_count() <= 1)

    def add(self, records: Iterable[Scanned]) -> None:
        """Take good records, in log order."""
        queues, settings, pack = self._queues, self._settings, UNIT.pack
        for record in records:
            if record.sys_flag and not has_queue_unit(record.sys_flag):
                continue
            found = queues.get((record.topic, record.queue_id))
            if (found is None or record.sys_flag) and self._batches.takes(record):
                continue
            queue = found or self._make(record)
            if record.queue_offset == queue.next and record.offset >= queue.from_offset:
                queue.expected += pack(record.offset, record.size, unit_tags_code(record, settings))
                queue.next += 1
                self._pending_count += 1
            else:
                self._out_of_step(queue, record)
        if self._pending_count >= PENDING_COUNT_MAX:
            self._compare_all()

    def add_columns(self, records: Records) -> None:
        """As :meth:`add`. A queue without surprises takes its units in one piece, others record by record."""
        import numpy as np  # noqa: PLC0415

        from pymq.store.dispatch.bulk_dispatch import packed_units  # noqa: PLC0415 - loads numpy

        special = [number for number, name in enumerate(records.names) if is_schedule_topic(name)]
        if records.sys_flags.any() or special:
            self.add(map(records.at, range(len(records))))
            return
        units = packed_units(records)
        order = np.lexsort((records.queue_ids, records.topics))
        topics, queue_ids = records.topics[order], records.queue_ids[order]
        edges = np.flatnonzero((topics[1:] != topics[:-1]) | (queue_ids[1:] != queue_ids[:-1])) + 1
        for places in np.split(order, edges):
            first = int(places[0])
            queue = self._queues.get((records.names[records.topics[first]], int(records.queue_ids[first])))
            expected = np.arange(len(places)) + (queue.next if queue is not None else 0)
            goes_on = queue is not None and records.offsets[first] >= queue.from_offset
            if queue is not None and goes_on and (records.queue_offsets[places] == expected).all():
                queue.expected += units[places].tobytes()
                queue.next += len(places)
                self._pending_count += len(places)
            else:
                self.add(map(records.at, places.tolist()))
        if self._pending_count >= PENDING_COUNT_MAX:
            self._compare_all()

    def _make(self, record: Scanned) -> CheckedQueue:
        """Return the state of a queue without a directory: its topic was deleted, or its files are lost."""
        queue = CheckedQueue(record.topic, record.queue_id, None, next=-1)
        problem = topic_problem(record.topic)
        if problem is not None or record.queue_id < 0:
            self._disown(record, problem or f"queue id {record.queue_id} is below 0")
        elif self.is_deleted(record.topic, record.offset):
            self._deleted[record.topic] += 1
        else:
            self._queues[record.topic, record.queue_id] = queue
        return queue

    def _out_of_step(self, queue: CheckedQueue, record: Scanned) -> None:
        if queue.reader is None or queue.ignored:
            queue.record_count += 1
            queue.vouched_count += record.offset < self._vouched_offset
            return
        if record.offset < queue.from_offset:
            if record.queue_offset >= queue.next - len(queue.expected) // UNIT_SIZE_BYTES:
                queue.superseded_count += 1
            else:
                self._miss(queue, record.queue_offset, record.offset)
            return
        self._compare(queue)
        physical_offset, size, _ = queue.reader.unit(record.queue_offset) if record.queue_offset >= 0 else (-1, 0, 0)
        if record.queue_offset > queue.next and self._gap_is_true(queue, record, physical_offset, size):
            self._unmatched(queue, queue.next, min(record.queue_offset, queue.reader.end))
            queue.next = record.queue_offset
            self.add((record,))
            return
        leads_here = queue.next < queue.reader.end and queue.reader.unit(queue.next)[0] == record.offset
        if leads_here:
            self._disown(
                record, f"has queue offset {record.queue_offset}, but unit {queue.next} of {queue.name} leads to it"
            )
            self._report.lose(LostMessage(queue.topic, queue.queue_id, queue.next, record.offset))
            queue.next += 1
        else:
            self._suspect(queue, record)

    def _suspect(self, queue: CheckedQueue, record: Scanned) -> None:
        """Take a record that does not continue its queue. Two that follow each other prove that the queue is wrong."""
        before, queue.suspect = queue.suspect, record
        if before is not None and before.queue_offset + 1 == record.queue_offset:
            text = f"{queue.name} ends at {queue.next}, but the log goes on at {before.queue_offset}"
            self._report.add("queue", f"{text}: a start makes it again from the log", queue.directory)
            queue.reader, queue.suspect, queue.next, queue.is_doubted = None, None, -1, True
        elif before is not None:
            self._disown_suspect(queue, before)

    def _disown_suspect(self, queue: CheckedQueue, record: Scanned) -> None:
        self._disown(record, f"has offset {record.queue_offset} of {queue.name}, where {queue.next} comes next")

    def _gap_is_true(self, queue: CheckedQueue, record: Scanned, physical_offset: int, size: int) -> bool:
        """Return whether the queue itself skipped offsets, or their records may be among the damaged records."""
        assert queue.reader is not None
        if (physical_offset, size) == (record.offset, record.size):
            return True
        room = self._damaged.size_bytes // RECORD_OVERHEAD_BYTES
        return record.queue_offset >= queue.reader.end and record.queue_offset - queue.next <= room

    def _disown(self, record: Scanned, text: str) -> None:
        path, position = self._log.place(record.offset)
        at = position + QUEUE_OFFSET_AT if position is not None else None
        self._report.add("record", f"the record {text}", path, at, record.offset)
        self.bad_records.add(record.offset)

    # -- units whose records were seen --------------------------------------------------------------------------

    def _compare_all(self) -> None:
        for queue in self._queues.values():
            if queue.expected:
                self._compare(queue)
        self._pending_count = 0

    def _compare(self, queue: CheckedQueue) -> None:
        count = len(queue.expected) // UNIT_SIZE_BYTES
        if not count or queue.reader is None:
            return
        first = queue.next - count
        found = queue.reader.read(first, count)
        queue.unit_count += count
        if found != queue.expected:
            for at in range(0, len(queue.expected), UNIT_SIZE_BYTES):
                expected = bytes(queue.expected[at : at + UNIT_SIZE_BYTES])
                if found[at : at + UNIT_SIZE_BYTES] != expected:
                    self._differs(queue, first + at // UNIT_SIZE_BYTES, found[at : at + UNIT_SIZE_BYTES], expected)
        queue.expected.clear()
        queue.reader.close()

    def _differs(self, queue: CheckedQueue, offset: int, found: bytes, expected: bytes) -> None:
        assert queue.reader is not None
        if offset >= queue.reader.end or len(found) < UNIT_SIZE_BYTES:
            self._miss(queue, offset, I64.unpack_from(expected)[0])
            return
        physical_offset, size, code = UNIT.unpack(found)
        real_offset, real_size, real_code = UNIT.unpack(expected)
        if (physical_offset, size) == (real_offset, real_size):
            if code > EXT_ADDRESS_MAX or not self._has_extensions:
                what = f"has tags code {code}, but the tags of its record at {real_offset} give {real_code}"
                self._report_unit(queue, offset, what, UNIT_TAGS_CODE_AT, real_offset)
        elif not any(found):
            self._report_unit(queue, offset, f"is empty, but its record is at {real_offset}", 0, real_offset)
        elif is_blank(size, code):
            self._report_unit(
                queue, offset, f"says that its record is gone, but that is at {real_offset}", 8, real_offset
            )
        elif physical_offset != real_offset:
            what = f"leads to {physical_offset}, but its record is at {real_offset}"
            self._report_unit(queue, offset, what, 0, real_offset)
        else:
            what = f"says {size} bytes, but its record at {real_offset} has {real_size}"
            self._report_unit(queue, offset, what, 8, real_offset)

    def _report_unit(self, queue: CheckedQueue, offset: int, what: str, byte: int, physical_offset: int | None) -> None:
        assert queue.reader is not None
        path, position = queue.reader.place(offset)
        at = position + byte if position is not None else None
        self._report.add("queue", f"unit {offset} of {queue.name} {what}", path, at, physical_offset)

    def _miss(self, queue: CheckedQueue, offset: int, physical_offset: int) -> None:
        queue.missing_count += 1
        queue.vouched_count += physical_offset < self._vouched_offset
        if queue.missing_from is None or offset < queue.missing_from:
            queue.missing_from = offset

    # -- units whose records were not seen ----------------------------------------------------------------------

    def _unmatched(self, queue: CheckedQueue, start: int, end: int) -> None:
        assert queue.reader is not None
        for first in range(start, end, _UNITS_AT_ONCE):
            units = queue.reader.read(first, min(_UNITS_AT_ONCE, end - first))
            for at, (physical_offset, size, code) in enumerate(UNIT.iter_unpack(units)):
                dropped = queue.dropped_count
                if is_blank(size, code):
                    queue.unit_count += 1
                    queue.blank_unit_count += 1
                else:
                    self._explain_unmatched(queue, first + at, physical_offset, size)
                if queue.keep_end == first + at and size > 0 and queue.dropped_count == dropped:
                    queue.keep_end += 1

    def _explain_unmatched(self, queue: CheckedQueue, offset: int, physical_offset: int, size: int) -> None:
        queue.unit_count += 1
        if physical_offset in self._damaged or physical_offset in self.bad_records:
            self._report.lose(LostMessage(queue.topic, queue.queue_id, offset, physical_offset))
        elif self._log_end is not None and physical_offset >= self._log_end:
            if self._clean:
                self._report_unit(
                    queue, offset, f"leads to {physical_offset}, but the log ends at {self._log_end}", 0, None
                )
                if offset == queue.start and 0 < self._log.vouched_end <= self._log_end:
                    queue.start += 1  # the whole log is there, so the unit is wrong: its record was deleted before
                else:
                    self._report.lose(LostMessage(queue.topic, queue.queue_id, offset, physical_offset))
            else:
                queue.dropped_count += 1
        else:
            self._blame(queue, offset, physical_offset)

    def _blame(self, queue: CheckedQueue, offset: int, physical_offset: int) -> None:
        """Report a unit that leads to no record of its queue: either it is wrong, or the record's head is."""
        record = record_at(self._log, physical_offset) if physical_offset >= self._log.start else None
        if record is None:
            self._report_unit(queue, offset, f"leads to {physical_offset}, where no record starts", 0, None)
            return
        other = self._queues.get((record.topic, record.queue_id))
        if other is not None and other.has_unit_of(record):
            what = f"leads to {physical_offset}, which is {other.name} offset {record.queue_offset}"
            self._report_unit(queue, offset, what, 0, None)
            return
        self._disown(
            record,
            f"has {record.topic} queue {record.queue_id} offset {record.queue_offset}, but unit {offset} of "
            f"{queue.name} leads to it",
        )
        self._report.lose(LostMessage(queue.topic, queue.queue_id, offset, physical_offset))

    # -- the end ------------------------------------------------------------------------------------------------

    def finish(self, log_end: int) -> None:
        """Compare the waiting units, examines units after the last record, and sums up."""
        self._log_end = log_end
        self._batches.finish(log_end)
        self._compare_all()
        for queue in self._queues.values():
            if queue.suspect is not None:
                self._disown_suspect(queue, queue.suspect)
            if queue.reader is not None and not queue.ignored:
                queue.keep_end = queue.next
                self._unmatched(queue, queue.next, queue.reader.end)
            queue.sum_up(self._report, self._root, is_clean=self._clean)
            if queue.reader is not None:
                queue.reader.close()
        for topic, count in sorted(self._deleted.items()):
            self._report.note(f"{count} records of topic {topic} are from before its deletion: no queue has them")


def _must_rebuild_queues(directory: Directory) -> bool:
    """True after a recovery that removed the queues: by the checkpoint none is on the disk, and the next start rebuilds
    all of them."""
    durable = directory.checkpoint.durable
    return durable is not None and durable.unit_count == 0 and durable.queue_offset == directory.log.start
