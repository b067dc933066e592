"""One queue while it is compared with the log: its state, and what the report says about it at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pymq.offline.findings import Report
from pymq.offline.queue_files import QueueFilesReader
from pymq.store.log.log_record import Scanned
from pymq.units import format_count


@dataclass(slots=True)
class CheckedQueue:
    """One queue's state. ``next`` is the offset the next record should have; ``expected`` holds units to compare."""

    topic: str
    queue_id: int
    reader: QueueFilesReader | None
    next: int = 0
    start: int = 0
    from_offset: int = 0  # physical: earlier records belong to a deleted queue of the same name
    expected: bytearray = field(default_factory=bytearray)
    ignored: bool = False
    directory: str = ""
    suspect: Scanned | None = None  # a record that does not continue the queue
    is_doubted: bool = False  # its files are not compared: a start makes it again
    vouched_count: int = 0  # missing units, or records of a queue without files, that the checkpoint vouches for
    unit_count: int = 0
    blank_unit_count: int = 0
    record_count: int = 0  # for an ignored queue, or one without a directory
    superseded_count: int = 0
    missing_from: int | None = None
    missing_count: int = 0
    dropped_count: int = 0
    keep_end: int = 0  # lower offsets belong to messages, even if their records are lost

    @property
    def name(self) -> str:
        return f"{self.topic} queue {self.queue_id}"

    def has_unit_of(self, record: Scanned) -> bool:
        """True when the unit at the record's offset leads to it."""
        if self.reader is None or not self.reader.base <= record.queue_offset < self.reader.end:
            return False
        return self.reader.unit(record.queue_offset)[0] == record.offset

    def is_place_of(self, record: Scanned, offset: int) -> bool:
        """True for the record that belongs at ``offset`` of this queue."""
        return (record.topic, record.queue_id, record.queue_offset) == (self.topic, self.queue_id, offset)

    def sum_up(self, report: Report, root: str, *, is_clean: bool) -> None:
        """Report what lacks, and note what a start does. ``root``: the directory of all queues."""
        if self.reader is None:
            self._sum_up_without_directory(report, root, is_clean=is_clean)
            return
        report.saw("queues")
        report.saw("units", self.unit_count)
        if self.ignored:
            report.note(f"{self.name} is a queue over other topics' records: not compared")
        if self.missing_count and (is_clean or self.vouched_count):
            assert self.missing_from is not None
            text = (
                f"{self.name} lacks the units of {format_count(self.missing_count, 'record')}, from offset "
                f"{self.missing_from} on"
            )
            report.add("queue", text, *self.reader.place(self.missing_from))
        elif self.missing_count:
            report.note(f"{self.name}: the next start adds {self.missing_count} units from {self.missing_from} on")
        if self.dropped_count:
            report.note(f"{self.name}: the next start drops {self.dropped_count} units that lead beyond the log's end")
        if self.blank_unit_count:
            report.note(f"{self.name}: {self.blank_unit_count} offsets stand for records that are gone")
        if self.superseded_count:
            report.note(
                f"{self.superseded_count} records of {self.name} are from before its topic was deleted and created "
                "again"
            )

    def _sum_up_without_directory(self, report: Report, root: str, *, is_clean: bool) -> None:
        if self.is_doubted:
            return
        if is_clean or self.vouched_count:
            path = f"{root}/{self.topic}/{self.queue_id}"
            report.add("queue", f"{self.name} has no files, but the log has {self.record_count} of its records", path)
        else:
            report.note(f"{self.name} has no files: the next start rebuilds its {self.record_count} units")


class QueueLimits(NamedTuple):
    """The limits of a rebuilt queue: ``start`` and ``end`` (exclusive) are queue offsets.

    Records before ``from_offset`` (physical) are not its own.
    """

    from_offset: int
    start: int
    end: int
