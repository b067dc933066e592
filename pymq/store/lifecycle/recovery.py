"""Recovery at start: finds the log's end, truncates what is torn, and brings queues and index level with the log.

The checkpoint holds the offsets below which log, queues and index were on the disk, so only what lies behind is read. A
damaged record with good records behind it is not the log's end. When it lies below the durable offset of the log, it is
reported and stepped over, and no record behind it is lost. Above that offset a power loss may have left a hole: then
the log ends there. A record whose bytes are all there is stepped over as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pymq.errors import StoreError
from pymq.model.layout import UNIT_SIZE_BYTES
from pymq.store.disk.checkpoint import Checkpoint
from pymq.store.disk.disk_errors import lacked_room
from pymq.store.dispatch.queue_dispatcher import QueueDispatcher
from pymq.store.index.keyed_records import KeyColumns
from pymq.store.lifecycle.light_recovery import load_lights
from pymq.store.lifecycle.lost_end import damaged_end
from pymq.store.lifecycle.queue_recovery import QueueRecovery
from pymq.store.lifecycle.store_data import StoreData
from pymq.store.lifecycle.store_times import StoreTimes
from pymq.store.lifecycle.unreadable import are_whole
from pymq.store.log.commit_log import CommitLog
from pymq.store.log.log_record import Scanned, has_index_entries
from pymq.store.queue.batch_queue import AnyQueue
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.queue_table import QueueTable
from pymq.store.scan.fast_scanner import scan_fast
from pymq.store.scan.scanner import End, find_later_record, record_in

if TYPE_CHECKING:
    from pymq.store.scan.columns import Records

Progress = Callable[[int, int], None]  # bytes read, bytes to read
_PROGRESS_BYTES = 16 << 20
_TAIL_BYTES_MAX = 8 << 20  # units of all queues that wait in memory for their files
INDEX_BYTES_AT_START_MAX = 64 << 20  # of the log, read at a start for lost keys; more are inserted later
HELD_BYTES_MAX = 256 << 20  # the same when the disk is full: 13 million messages
_CLOCK_SLACK_MS = 3000  # Java: StoreCheckpoint.getMinTimestamp


@dataclass(slots=True)
class RecoveryReport:
    """What a start found and did. Offsets are physical; ``damaged`` holds the ranges (start, end) stepped over."""

    clean: bool = True
    scan_start: int = 0
    log_end: int = 0
    records_scanned: int = 0
    bytes_scanned: int = 0
    units_added: int = 0
    truncated_bytes: int = 0
    damaged: list[tuple[int, int]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # parts of the log that were on the disk and are gone
    notes: list[str] = field(default_factory=list)


class Distrust(Protocol):
    """Makes the checkpoint on the disk stop vouching for the queues, or for the index. Raises OSError."""

    def __call__(self, *, queues: bool = False, index: bool = False) -> None: ...


class KeyIndex(Protocol):
    """The part of the index that recovery uses."""

    def load(self, checkpoint: Checkpoint, log_min_offset: int, *, clean: bool) -> int:
        """Open the files; return the physical offset from which on keys have to be inserted again."""
        ...

    @property
    def notes(self) -> list[str]:
        """What :meth:`load` found wrong."""
        ...

    def rebuild_from(self, offset: int) -> None:
        """Insert the keys of records from a physical offset on later, while the store serves."""
        ...

    def add(self, topic: str, properties: bytes, physical_offset: int, store_ms: int) -> None: ...

    def add_columns(self, columns: KeyColumns) -> None: ...

    def truncate(self, log_end: int) -> None:
        """Drop the entries of records from ``log_end`` on."""
        ...


class _QueueGap(Exception):
    """A queue lacks units below the scan's start: it was deleted by hand, so the whole log has to be read."""


def recover(
    data: StoreData,
    checkpoint: Checkpoint,
    *,
    clean: bool,
    is_replica: bool,
    distrust: Distrust,
    progress: Progress | None = None,
) -> RecoveryReport:
    """Bring a store whose files are loaded to a state where it can serve. Raises OSError.

    The wall clock's time tells a damaged store time. ``distrust`` is called before units or keys are written again that
    the checkpoint says are on the disk, because a power loss could take some of them. The log of a replica
    (``is_replica``) ends at unsynced damage, also at a whole record that can't be read: others have the rest.
    """
    log, queues, index, settings = data.log, data.queues, data.index, data.settings
    report = RecoveryReport(clean=clean)
    if settings.on_lost_end is not None and not clean:
        checkpoint = _end_at_damage(log, queues, checkpoint, report, distrust, settings.on_lost_end)
    vouched_offset = min(_vouched_offset(log, checkpoint), log.end_of_files)
    queue_recovery = QueueRecovery(log, queues, checkpoint, report.notes)
    queue_start = queue_recovery.start(clean=clean)
    if queue_start < vouched_offset:
        distrust(queues=True)
    index_start = index.load(checkpoint, log.min_offset, clean=clean) if index is not None else log.end_of_files
    if index is not None:
        report.notes.extend(index.notes)
        if index_start < _vouched_index_offset(log, checkpoint):
            distrust(index=True)
        if index_start < queue_start - INDEX_BYTES_AT_START_MAX:
            index.rebuild_from(index_start)
            index_start = queue_start
    light_start = load_lights(data.lights, log, checkpoint, report.notes)
    times = StoreTimes(
        max(checkpoint.physic_ms, checkpoint.logics_ms) if checkpoint.durable else 0, data.clock.now_ms()
    )
    run = _Run(data, checkpoint, times, report, progress)
    run.light_start = light_start
    run.ends_at_damage = is_replica or settings.on_lost_end is not None
    try:
        run.scan_from(queue_start, index_start, queue_recovery.kept)
    except _QueueGap as gap:
        report.notes.append(f"{gap}: all queues were made again from the log")
        distrust(queues=True)
        run.scan_from(queue_recovery.rebuild(), run.index_next)
    queue_recovery.finish(settings.segment_size_bytes)
    return report


def _end_at_damage(
    log: CommitLog,
    queues: QueueTable,
    checkpoint: Checkpoint,
    report: RecoveryReport,
    distrust: Distrust,
    on_lost_end: Callable[[str], None],
) -> Checkpoint:
    """Let the log end where the disk has lost a part of it; return what can be trusted of the checkpoint then."""
    end = damaged_end(log, checkpoint)
    if end is None:
        return checkpoint
    assert checkpoint.durable is not None
    text = (
        f"the record at {end} is damaged, although the log was on the disk up to {checkpoint.durable.log_offset}; the "
        "log ends there now, other replicas have the rest"
    )
    on_lost_end(text)
    report.lost.append(text)
    distrust(queues=True, index=True)
    queues.remove_sums()
    queues.forget_known()
    report.truncated_bytes += log.truncate(end, log.last_store_ms, may_wait=True)
    return checkpoint.truncate(end)


def _vouched_offset(log: CommitLog, checkpoint: Checkpoint) -> int:
    """The physical offset below which, by the checkpoint, the units of all records are on the disk."""
    durable = checkpoint.durable
    return min(durable.queue_offset, durable.log_offset) if durable else _start_by_time(log, checkpoint)


def _vouched_index_offset(log: CommitLog, checkpoint: Checkpoint) -> int:
    """The physical offset below which, by the checkpoint, the keys of all records are on the disk."""
    if checkpoint.durable is not None:
        return checkpoint.durable.index_offset
    return log.min_offset + 1 if checkpoint.index_ms else 0  # RocketMQ's checkpoint tells full files by their time


def _start_by_time(log: CommitLog, checkpoint: Checkpoint) -> int:
    """The newest segment whose first record is older than the checkpoint: RocketMQ's rule for an unclean start."""
    limit_ms = min(checkpoint.physic_ms, checkpoint.logics_ms) - _CLOCK_SLACK_MS
    for segment in reversed(log.segments):
        first = record_in(segment, segment.start)
        if first is not None and 0 < first.store_ms <= limit_ms:
            return segment.start
    return log.min_offset


class _Run:
    """One scan of the log, which dispatches records to queues and index."""

    def __init__(
        self,
        data: StoreData,
        checkpoint: Checkpoint,
        times: StoreTimes,
        report: RecoveryReport,
        progress: Progress | None,
    ) -> None:
        self._log = log = data.log
        self._queues = data.queues
        self._lights = data.lights
        self._index = data.index
        self._settings = data.settings
        self._times = times
        self._report = report
        self._progress = progress
        self._durable_offset = checkpoint.durable.log_offset if checkpoint.durable else log.end_of_files
        self._vouched_offset = min(checkpoint.durable.log_offset, log.end_of_files) if checkpoint.durable else 0
        self.index_next = 0
        self.light_start = 0
        self._units_written = 0
        self._is_disk_full = False
        self.ends_at_damage = False
        self._queue_start = 0
        self._dispatcher = QueueDispatcher(
            log, data.queues, data.settings, on_grown=lambda queue, _: self._bound_tail(queue), on_gap=self._check_gap,
            on_damage=self._note_damage, note=report.notes.append,
        )  # fmt: skip

    def scan_from(self, queue_start: int, index_start: int, kept: Set[ConsumeQueue] = frozenset()) -> None:
        """Dispatch to queues from ``queue_start`` and to the index from ``index_start``, then truncate the log.

        ``kept`` are queues that hold their units although others are made again from the log's begin on.
        """
        start = max(min(queue_start, index_start, self.light_start), self._log.min_offset)
        self._report.scan_start = start
        self._times.restart()
        self.index_next = index_start
        self._queue_start = queue_start
        if queue_start <= self._log.min_offset:
            self._dispatcher.begin_again(kept)
        total = self._log.end_of_files - start
        reported = start
        position = start
        while True:
            end = self._walk(position, reported, total)
            resume = self._after_damage(end)
            if resume is None:
                break
            self._report.damaged.append((end.offset, resume))
            self._dispatcher.note_damage(resume)
            position = resume
        self._report.units_added = self._dispatcher.unit_count
        self._report.log_end = end.offset
        self._report.truncated_bytes += self._log.truncate(end.offset, self._times.last_ms, may_wait=True)
        self._lights.truncate(end.offset)
        if self._index is not None:
            self._index.truncate(end.offset)
        if self._progress is not None:
            self._progress(total, total)

    def _walk(self, position: int, reported: int, total: int) -> End:
        for part in self._scan(position):
            if isinstance(part, End):
                return part
            if isinstance(part, Scanned):
                self._take(part)
                offset = part.offset
            else:
                self._take_many(part)
                offset = part.end
            if self._progress is not None and offset - reported >= _PROGRESS_BYTES:
                reported = offset
                self._progress(reported - self._report.scan_start, total)
        raise AssertionError("a scan ends with its end")

    def _scan(self, position: int) -> Iterator[Records | Scanned | End]:
        torn_from = None if self._report.clean else self._vouched_offset
        return scan_fast(self._log, position, check_crc=self._settings.check_crc_on_recover, torn_from=torn_from)

    def _take(self, record: Scanned) -> None:
        self._report.records_scanned += 1
        self._report.bytes_scanned += record.size
        self._log.time_steps.note(record.offset, self._times.newest_ms, record.store_ms)
        self._times.add(record.store_ms)
        if record.offset >= self._queue_start:
            self._dispatcher.take(record)
        self._lights.take(record)
        if record.offset >= self.index_next:
            self.index_next = record.offset + record.size
            if self._index is not None and has_index_entries(record.sys_flag):
                self._index.add(record.topic, record.properties, record.offset, record.store_ms)

    def _note_time_steps(self, records: Records) -> None:
        before_ms = self._times.newest_ms
        times_ms = records.store_ms
        places = (times_ms[1:] < times_ms[:-1]).nonzero()[0] + 1
        for place in (0, *places.tolist()):
            earlier_ms = int(times_ms[place - 1]) if place else before_ms
            self._log.time_steps.note(int(records.offsets[place]), earlier_ms, int(times_ms[place]))

    def _take_many(self, records: Records) -> None:
        """Do as :meth:`_take` for many records."""
        from pymq.store.dispatch.bulk_dispatch import record_keys  # noqa: PLC0415 - it needs numpy

        self._report.records_scanned += len(records)
        self._report.bytes_scanned += records.end - int(records.offsets[0])
        self._note_time_steps(records)
        self._times.add(*records.store_ms[-2:].tolist())
        if records.end > self._queue_start:
            self._dispatcher.take_many(records.starting_at(self._queue_start))
        self._lights.take_many(records)
        if records.end > self.index_next:
            fresh = records.starting_at(self.index_next)
            self.index_next = records.end
            if self._index is not None:
                self._index.add_columns(record_keys(fresh))

    def _check_gap(self, text: str) -> None:
        if self._queue_start > self._log.min_offset and not self._report.damaged:
            raise _QueueGap(text)

    def _note_damage(self, start: int, end: int, text: str) -> None:
        self._report.damaged.append((start, end))
        self._report.notes.append(text)

    def _bound_tail(self, queue: AnyQueue) -> None:
        """Write units to their files when one queue, or all together, hold too many in memory.

        A full disk does not stop the start: units stay in memory up to a limit. Raises StoreError, OSError.
        """
        held_bytes = (self._dispatcher.unit_count - self._units_written) * UNIT_SIZE_BYTES
        if self._is_disk_full:
            if held_bytes > HELD_BYTES_MAX:
                raise StoreError(
                    f"the disk is full, and the queues that have to be made again need more than {HELD_BYTES_MAX} "
                    f"bytes: make room for them and start again"
                )
            return
        try:
            if len(queue.tail) >= self._settings.queue_tail_bytes:
                self._queues.write_tail(queue)
            if held_bytes >= _TAIL_BYTES_MAX:
                self._queues.write_tails()
                self._units_written = self._dispatcher.unit_count
        except OSError as error:
            if not lacked_room(error):
                raise
            self._is_disk_full = True
            self._report.notes.append("the disk is full: consume queues that were read again are held in memory")

    def _after_damage(self, end: End) -> int | None:
        """The offset to go on at behind a damaged place; None when the log ends there."""
        if self._log.find(end.offset) is None:
            return None
        later = self._later_record(end.offset + 1)  # a torn record would be found again
        if later is None:
            # Bytes that were on the disk are not a torn tail: their offsets stay taken.
            return self._vouched_offset if end.offset < self._vouched_offset else None
        is_synced = end.offset < self._durable_offset
        if not is_synced and not self.ends_at_damage and are_whole(self._log, end.offset, later.offset):
            self._report.notes.append(
                f"the record at {end.offset} can't be read although the disk has all of it: it is left out, newer "
                f"records from {later.offset} on are kept"
            )
            return later.offset
        if not is_synced:
            self._report.notes.append(
                f"the record at {end.offset} was not on the disk when the machine stopped: the log ends there, "
                f"newer records from {later.offset} on are dropped with it"
            )
            return None
        return later.offset

    def _later_record(self, start: int) -> Scanned | None:
        """Return the first whole record from ``start`` on that is no remains of a former log; None without one."""
        if start < self._vouched_offset:
            # What the checkpoint vouches for is no remains, however old it looks: a wrong clock may have been set back.
            later = find_later_record(self._log, start, 0)
            if later is not None and later.offset < self._vouched_offset:
                return later
        # Before anything was read, the checkpoint's time holds for what lies behind it: older records are no remains.
        is_timed = self._times.has_record or start >= self._durable_offset
        return find_later_record(self._log, start, self._times.last_ms if is_timed else 0)
