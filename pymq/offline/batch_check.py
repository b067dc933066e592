"""Compares batch queues (``batchconsumequeue``) with the log: every unit leads to its record, and the reverse.

Records come in log order, and a queue's units stand in the same order, so both are walked side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pymq.model import sysflag
from pymq.model.layout import BATCH_UNIT_RANGE, BLANK_UNIT_SIZE, UNIT
from pymq.offline.directory import Directory
from pymq.offline.findings import Report
from pymq.offline.queue_files import QueueFilesReader
from pymq.store.log.log_record import Scanned, unit_tags_code
from pymq.store.queue.batch_queue import BatchUnits
from pymq.store.queue.queue_table import BATCH_QUEUES
from pymq.units import format_count


@dataclass(slots=True)
class _Queue:
    """One queue's state: ``number`` is that of the next unit."""

    reader: QueueFilesReader
    number: int
    unit_count: int = 0
    missing_count: int = 0
    start: int = -1  # the first offset of the units that were compared, -1 before the first one
    end: int = 0  # the offset behind them
    doubted_end: int = -1  # what a unit that does not continue the others says
    blanks: list[range] = field(default_factory=list)  # offsets whose units stand for no record

    def pass_unit(self, unit: bytes, *, is_right: bool) -> None:
        """Note the offsets of the next unit. One that may be damaged counts if it continues the one before it."""
        first, count = BATCH_UNIT_RANGE.unpack_from(unit)
        self.number += 1
        self.unit_count += 1
        if is_right or self.start < 0 or first in (self.end, self.doubted_end):
            self.start = first if self.start < 0 else self.start
            self.end, self.doubted_end = first + count, -1
            if UNIT.unpack_from(unit)[1] == BLANK_UNIT_SIZE:
                self.blanks.append(range(first, first + count))
        else:
            self.doubted_end = first + count

    @property
    def name(self) -> str:
        return f"{self.reader.topic} batch queue {self.reader.queue_id}"


class BatchLimits(NamedTuple):
    """The offsets that a queue's messages have, ``end`` exclusive, and those that had no record before."""

    start: int
    end: int
    blanks: list[range]


class BatchQueueCheck:
    """Call :meth:`takes` with every record that has a unit, then :meth:`finish`."""

    def __init__(self, directory: Directory, report: Report) -> None:
        self._root = f"{directory.root}/{BATCH_QUEUES}"
        self._settings = directory.settings
        self._report = report
        self._clean = directory.clean
        self._deleted_ends = directory.deleted_ends()
        self._known_ends = directory.known_batch_ends()
        self._topics = directory.topics()
        self._without_files: dict[tuple[str, int], int] = {}
        self._queues: dict[tuple[str, int], _Queue] = {}
        for reader in directory.batch_queues():
            self._queues[reader.topic, reader.queue_id] = _Queue(reader, reader.first_in_log(directory.log.start))
            for path, problem in reader.odd:
                report.add("queue", problem, path)
            reader.close()

    def limits(self) -> dict[tuple[str, int], BatchLimits]:
        """Return, after :meth:`finish`, the limits of every queue that has files or a saved end."""
        limits = {
            key: BatchLimits(max(queue.start, 0), max(queue.end, self._known_ends.get(key, 0)), queue.blanks)
            for key, queue in self._queues.items()
        }
        return {key: BatchLimits(end, end, []) for key, end in self._known_ends.items()} | limits

    def takes(self, record: Scanned) -> bool:
        """Compare a record with its unit; False for a record of another queue."""
        key = record.topic, record.queue_id
        queue = self._queues.get(key)
        if queue is None:
            if not record.sys_flag & sysflag.INNER_BATCH:
                return False
            if self._topics is None or record.topic in self._topics:
                self._without_files[key] = self._without_files.get(key, 0) + 1
            return True
        if record.offset < self._deleted_ends.get(record.topic, 0):
            return True
        self._compare(queue, record)
        return True

    def _compare(self, queue: _Queue, record: Scanned) -> None:
        wanted = BatchUnits.packed_unit(record, unit_tags_code(record, self._settings))
        while queue.number < queue.reader.end:
            unit = queue.reader.read(queue.number, 1)
            place, size, _ = UNIT.unpack_from(unit)
            if size != BLANK_UNIT_SIZE and place > record.offset:
                break
            queue.pass_unit(unit, is_right=unit == wanted)
            if unit == wanted:
                return
            if place == record.offset:
                self._add(queue, "differs from its record", record.offset)
                return
            if size != BLANK_UNIT_SIZE:
                self._add(queue, f"leads to {place}, where no record of the queue starts", None)
        queue.missing_count += 1

    def _add(self, queue: _Queue, what: str, physical_offset: int | None) -> None:
        number = queue.number - 1
        self._report.add("queue", f"unit {number} of {queue.name} {what}", *queue.reader.place(number), physical_offset)

    def finish(self, log_end: int) -> None:
        """Look at the units behind the last record, and sum up."""
        for queue in self._queues.values():
            while queue.number < queue.reader.end:
                unit = queue.reader.read(queue.number, 1)
                place, size, _ = UNIT.unpack_from(unit)
                queue.pass_unit(unit, is_right=False)
                if self._clean and size != BLANK_UNIT_SIZE:
                    self._add(queue, f"leads to {place}, but the log ends at {log_end}", None)
            self._sum_up(queue)
            queue.reader.close()
        for (topic, queue_id), count in self._without_files.items():
            text = f"{topic} batch queue {queue_id} has no files, but the log has {count} of its records"
            if self._clean:
                self._report.add("queue", text, f"{self._root}/{topic}/{queue_id}")
            else:
                self._report.note(f"{text}: the next start makes it again")

    def _sum_up(self, queue: _Queue) -> None:
        self._report.saw("queues")
        self._report.saw("units", queue.unit_count)
        if not queue.missing_count:
            return
        text = f"{queue.name} lacks the units of {format_count(queue.missing_count, 'record')}"
        if self._clean:
            self._report.add("queue", text, queue.reader.directory)
        else:
            self._report.note(f"{text}: the next start adds them")
