"""Checks a whole store directory: log, queues, index, checkpoint and tables, each against the others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from pymq.offline.damage import DamagedRanges
from pymq.offline.digest_check import DigestCheck, report_bad_block
from pymq.offline.directory import Directory
from pymq.offline.findings import Report
from pymq.offline.index_check import IndexCheck
from pymq.offline.log_files import EMPTY_LAST_SEGMENT, SEGMENT_SIZE_BYTES, SegmentFile
from pymq.offline.log_walk import Block, Damaged, LogEnd
from pymq.offline.queue_check import QueueCheck
from pymq.offline.table_check import check_checkpoint, check_tables
from pymq.store.log.opening import lost_segments_text
from pymq.units import format_count

if TYPE_CHECKING:
    from pymq.store.scan.columns import Records

Advance = Callable[[int], None]  # bytes of log done since the last call


def verify(directory: Directory, advance: Advance | None = None) -> Report:
    """Check everything once and change nothing. Raises OSError for a file that can't be opened."""
    return Verification(directory, advance).run()


class Verification:
    """One check. Afterwards, ``damaged`` and ``bad_records`` are what a repair must leave out."""

    def __init__(self, directory: Directory, advance: Advance | None = None) -> None:
        self._directory = directory
        self._log = directory.log
        self._advance = advance
        self.report = Report(directory.root, directory.clean, log_start=directory.log.start)
        self.damaged = DamagedRanges()
        self.queues = QueueCheck(directory, self.report, self.damaged)
        self._index = IndexCheck(directory, self.report, self.damaged)
        self._digests = DigestCheck(directory)
        self._digested: set[int] = set()
        self._last_ms = 0
        self._latest_ms = 0
        self._went_back = 0

    @property
    def bad_records(self) -> set[int]:
        """Physical offsets of whole records whose head contradicts their queue."""
        return self.queues.bad_records

    def run(self) -> Report:
        """Read everything and return the findings."""
        self._directory.files.look_at_all()
        self._check_files()
        from pymq.offline.bulk_walk import walk_bulk  # noqa: PLC0415 - loads numpy

        for step in walk_bulk(self._log):
            if isinstance(step, Block):
                self._take(step)
            elif isinstance(step, Damaged):
                self._damage(step)
            elif isinstance(step, LogEnd):
                self._end(step)
            else:
                self._take_columns(step)
        self.queues.finish(self.report.log_end)
        self._index.finish(self.report.log_end)
        for segment in self._log.segments:
            self._check_digests(segment)
        if self._digests.block_count:
            self.report.saw("digests", self._digests.block_count)
        check_checkpoint(self._directory, self.report, max(self._latest_ms, self._last_ms))
        check_tables(self._directory, self.report)
        for path in sorted(self._directory.ignored):
            self.report.note(f"{path} is no legal topic name: left alone")
        for path, text in sorted(self._directory.files.odd.items()):
            self.report.add("file", f"{text}; it counts as missing", path)
        if self._went_back:
            self.report.note(
                f"the store time goes back at {format_count(self._went_back, 'record')}: the clock was set back"
            )
        return self.report

    def _check_files(self) -> None:
        for path, problem in self._log.odd:
            if problem == EMPTY_LAST_SEGMENT:
                self.report.note(f"{path} {problem}")
            else:
                self.report.add("log", problem, path, 0)
        for segment in self._log.segments:
            self.report.saw("segments")
            if segment.end == self._log.end_of_files and segment.first_nonzero(0) is None:
                self.report.note(f"{segment.path} holds nothing yet")

    def _check_digests(self, segment: SegmentFile) -> None:
        """Check a segment's digests once, right before its records are read, so that its bytes are read from disk
        once."""
        if segment.start not in self._digested:
            self._digested.add(segment.start)
            for bad in self._digests.bad_blocks(segment):
                report_bad_block(self.report, bad)

    def _take(self, block: Block) -> None:
        self._check_digests(block.segment)
        records = block.records
        self.report.saw("records", len(records))
        self.report.saw("log_bytes", records[-1].offset + records[-1].size - records[0].offset)
        last_ms = self._last_ms
        for record in records:
            if record.store_ms < last_ms:
                self._went_back += 1
                self._latest_ms = max(self._latest_ms, last_ms)
            last_ms = record.store_ms
        self._last_ms = last_ms
        self.queues.add(records)
        self._index.add(records)
        if self._advance is not None:
            self._advance(records[-1].offset + records[-1].size - records[0].offset)

    def _take_columns(self, records: Records) -> None:
        segment = self._log.find(int(records.offsets[0]))
        assert segment is not None
        self._check_digests(segment)
        size = records.end - int(records.offsets[0])
        self.report.saw("records", len(records))
        self.report.saw("log_bytes", size)
        times = [self._last_ms, *records.store_ms.tolist()]
        if times != sorted(times):
            self._went_back += sum(after < before for before, after in pairwise(times))
            self._latest_ms = max(self._latest_ms, *times)
        self._last_ms = times[-1]
        self.queues.add_columns(records)
        self._index.add_columns(records)
        if self._advance is not None:
            self._advance(size)

    def _damage(self, one: Damaged) -> None:
        self.damaged.add(one)
        path, position = self._log.place(one.at)
        text = f"{one.reason}; {one.end - one.start} bytes from {one.start} to {one.end} contain no good record"
        self.report.add("log", text, path, position, one.at)

    def _end(self, end: LogEnd) -> None:
        self.report.log_end = end.offset
        path, position = self._log.place(end.offset)
        if self._log.vouched_end > end.offset:
            self._lose_end(end, path, position)
            return
        if end.remains_at is None:
            return
        place = f"{path} at {position} (offset {end.offset})"
        if self._directory.clean:
            self.report.note(f"{place}: the log ends here; remains of a longer one follow ({end.reason})")
        else:
            self.report.note(f"{place}: torn tail; the next start truncates the log here ({end.reason})")

    def _lose_end(self, end: LogEnd, path: str, position: int | None) -> None:
        """Report bytes at the end that were on the disk. Their offsets are taken, up to a segment's end."""
        size, vouched = self._log.segment_size or SEGMENT_SIZE_BYTES, self._log.vouched_end
        text = f"{end.reason}; but the log was on the disk up to {vouched}"
        if vouched > self._log.end_of_files:
            text += f": {lost_segments_text(self._log.end_of_files, vouched, size)}"
        self.report.add("log", text, path, position, end.offset)
        self.report.log_end = -(-vouched // size) * size
        self.damaged.add(Damaged(end.offset, self.report.log_end, end.offset, text))
