"""CommitLog: the one append-only log that all queues share, in segment files of equal size.

Segments are sparse files. They are written with ``pwritev``, so that a full disk is an error code and never a signal.
The newest segment is read through a read-only mapping. Sealed segments are read with ``pread``, so that a bad sector
under old data is an error code too. Staged bytes are invisible until :meth:`CommitLog.commit` has written all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

from pymq.errors import (
    CorruptRecordError,
    DoesNotFitError,
    NotFoundError,
    StoreError,
    StoreUnavailableError,
    UnreadableError,
)
from pymq.model.layout import BLANK_SIZE_BYTES
from pymq.model.record import encode_blank
from pymq.store.disk.disk_errors import failed_sync_text, lacked_handles, lacked_room, no_handles_error
from pymq.store.disk.fs import Buffer, File, Files
from pymq.store.log.cold_file import ColdFile, ColdFiles
from pymq.store.log.opening import open_segments
from pymq.store.log.segment import Guard, Segment
from pymq.store.log.time_steps import TimeSteps
from pymq.store.log.zeroing import nonzero_bytes, zero_from
from pymq.units import format_bytes

__all__ = ["CommitLog", "Segment"]

_JOIN_BYTES_MAX = 1 << 20  # below this, copying the parts together is cheaper than a long vector


class CommitLog:
    """Appends to, reads and truncates the log. Positions are physical offsets: bytes since the beginning of the log.

    One thread stages, commits and reads; :meth:`sync` may run in another thread.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        segment_size_bytes: int,
        resident_bytes_max: int,
        cold: ColdFiles | None = None,
    ) -> None:
        """``cold``: the directory of compressed segments, if there may be any."""
        self._files = files
        self._cold = cold
        self._directory = directory
        self._segment_size = segment_size_bytes
        self.resident_bytes_max = resident_bytes_max
        self.guard: Guard | None = None
        self.on_corrupt: Callable[[CorruptRecordError], None] = lambda error: None  # called for each damaged record
        self.segments: list[Segment] = []
        self.max_offset = 0  # end of the committed bytes
        self.last_store_ms = 0  # store time of the newest committed record
        self.time_steps = TimeSteps()
        self.unconfirmed_from: tuple[int, int] | None = (
            None  # (first record that is not visible yet, store time of the record before it)
        )
        self.whole_end: int | None = None  # on a replica: end of the last complete record
        self.synced_offset = 0
        self.synced_whole_offset = 0  # the same, without a last record that is incomplete
        self.synced_store_ms = 0
        self.doomed_end = 0  # segments below may be deleted: their absence is no loss
        self.broken: str | None = None  # why the log is read-only, after a failed fsync
        self.write_problem: str | None = None  # why the last write failed; the next one tries again
        self.parts: list[Buffer] = []  # staged buffers of the newest run
        self._runs: list[tuple[int, list[Buffer]]] = []  # (position, buffers) of earlier segments in this commit
        self._run_start = 0
        self.staged_end = 0
        self.segment_end = 0
        self._tail_dirty = False
        self._lock = Lock()  # guards what commit and sync share
        self._sync_lock = Lock()  # one sync at a time, and no closing under it
        self._unsynced: dict[int, Segment] = {}
        self._directory_unsynced = False

    # -- opening and truncating ---------------------------------------------------------------------------------

    def load(self, vouched_end: int = 0) -> None:
        """Open every segment. Raises StoreError when sizes or names don't fit together.

        ``vouched_end``: below it the log was on the disk.
        """
        self.segments = open_segments(self._files, self._directory, self._segment_size, self._cold, vouched_end)
        self._set_end(self.end_of_files)

    def replace_file(self, segment: Segment, file: File) -> File:
        """Read a sealed segment from another file with the same content from now on. Returns the former file."""
        with self._lock:
            self._unsynced.pop(segment.start, None)
        before, segment.file = segment.file, file
        return before

    @property
    def segment_size_bytes(self) -> int:
        return self._segment_size

    @property
    def min_offset(self) -> int:
        """The start of the oldest segment that still exists."""
        return self.segments[0].start if self.segments else self.max_offset

    @property
    def visible_end(self) -> tuple[int, int]:
        """The offset up to which queues and index name all records, and the store time of the newest of them."""
        return self.unconfirmed_from or (self.max_offset, self.last_store_ms)

    @property
    def end_of_files(self) -> int:
        return self.segments[-1].end if self.segments else 0

    def truncate(self, end: int, last_store_ms: int, *, may_wait: bool = False) -> int:
        """Make ``end`` the log's end: zero later bytes, delete later files. Returns how many bytes of data are gone.

        Zeroing matters: remains of a truncated record must never line up with a later append. With ``may_wait``, the
        next write does it when the disk is full. Raises OSError.
        """
        dropped = 0
        while self.segments and self.segments[-1].start >= end and len(self.segments) > 1:
            dropped += self._drop_last()
        if self.segments and self.segments[-1].start <= end < self.segments[-1].end:
            try:
                dropped += self._zero_from(end)
            except OSError as error:
                if not (may_wait and lacked_room(error)):
                    raise
                self._tail_dirty = True
        self.last_store_ms = last_store_ms
        self.time_steps.truncate(end)
        self._set_end(end)
        self.whole_end = self.unconfirmed_from = None
        self.synced_offset = min(self.synced_offset, end)
        self.synced_whole_offset = min(self.synced_whole_offset, end)
        return dropped

    def begin_at(self, offset: int) -> None:
        """Let an empty log begin at ``offset``. Raises StoreError when the log holds data, or within a segment."""
        if offset % self._segment_size or offset < 0:
            raise StoreError(f"a log can't begin at {offset}: segments of {self._segment_size} bytes start elsewhere")
        if self.max_offset != self.min_offset:
            raise StoreError(
                f"{self._directory} holds a log from {self.min_offset} to {self.max_offset}, which can't begin at "
                f"{offset}: start with an empty directory"
            )
        while self.segments:
            self._drop_last()
        self._set_end(offset)

    def distrust(self, offset: int) -> None:
        """Let the next sync include everything behind ``offset``: it may never have reached the disk."""
        with self._lock:
            self._unsynced.update({segment.start: segment for segment in self.segments if segment.end > offset})
            self._directory_unsynced = True

    def _drop_last(self) -> int:
        segment = self.segments.pop()
        dropped = nonzero_bytes(segment.file, 0)
        self._close_segment(segment)
        self._files.remove(segment.file.path)
        # Sync at once: if an earlier segment's removal reached the disk without this one, the log would have a hole.
        self._directory_unsynced = True
        self._files.sync_dir(self._directory)
        if self.segments:
            self.segments[-1].sealed = isinstance(self.segments[-1].file, ColdFile)
        return dropped

    def _zero_from(self, end: int) -> int:
        segment = self.segments[-1]
        size = segment.end - segment.start
        if isinstance(segment.file, ColdFile):
            raise StoreError(
                f"the log has to end at {end}, but {segment.file.path} is compressed: run `pymq store thaw` first"
            )
        dropped = nonzero_bytes(segment.file, end - segment.start)
        if zero_from(segment.file, end - segment.start, size):
            segment.drop_view()
            with self._lock:
                self._unsynced[segment.start] = segment
        return dropped

    def _set_end(self, end: int) -> None:
        self.max_offset = end
        self.segment_end = self.end_of_files if self.segments else end
        self._clear_staged()

    # -- writing ------------------------------------------------------------------------------------------------

    def reserve(self, size: int) -> int:
        """Return the physical offset of the next ``size`` bytes; the caller then appends them to :attr:`parts`.

        They never span segments. Raises DoesNotFitError when no segment could hold them.
        """
        at = self.staged_end
        if size + BLANK_SIZE_BYTES > self.segment_end - at:
            at = self._roll(size)
        self.staged_end = at + size
        return at

    def check_fits(self, size: int) -> None:
        """Raise DoesNotFitError when no segment could hold ``size`` bytes."""
        if size + BLANK_SIZE_BYTES > self._segment_size:
            raise DoesNotFitError(
                f"{size} bytes can't be stored: a segment holds {self._segment_size - BLANK_SIZE_BYTES}, send less or "
                "set mappedFileSizeCommitLog for a new data directory"
            )

    def _roll(self, size: int) -> int:
        """End the staged segment with a blank record and start the next one."""
        self.check_fits(size)
        left = self.segment_end - self.staged_end
        if left:
            assert left >= BLANK_SIZE_BYTES
            self.parts.append(encode_blank(left))
        if self.parts:
            self._runs.append((self._run_start, self.parts))
        self.parts = []
        self._run_start = self.staged_end = self.segment_end
        self.segment_end += self._segment_size
        return self.staged_end

    def commit(self, last_store_ms: int) -> None:
        """Write everything staged. Raises StoreUnavailableError; then none of it is kept."""
        if self.broken is not None:
            self._clear_staged()
            raise StoreUnavailableError(self.broken)
        try:
            if self._tail_dirty:
                self._zero_tail()
            for start, parts in self._runs:
                self._write(start, parts, sum(map(len, parts)))
            if self.parts:
                self._write(self._run_start, self.parts, self.staged_end - self._run_start)
        except OSError as error:
            self._undo()
            raise self._unwritten(error) from error
        self.write_problem = None
        if last_store_ms < self.last_store_ms:
            self.time_steps.note(self.max_offset, self.last_store_ms, last_store_ms)
        self.last_store_ms = last_store_ms
        self.max_offset = self._run_start = self.staged_end
        self.parts = []
        if self._runs:
            self._runs = []

    def append_raw(self, data: Buffer) -> None:
        """Append bytes of another broker's log. A record may begin in one call and end in another.

        They become visible (:attr:`visible_end`) with :meth:`set_whole`. Raises StoreUnavailableError; then none of
        them is kept.
        """
        assert not self.anything_staged, "a log that follows another one has no records of its own"
        if self.broken is not None:
            raise StoreUnavailableError(self.broken)
        end = self.max_offset + len(data)
        try:
            if self._tail_dirty:
                self._zero_tail()
            self._write_raw(self.max_offset, memoryview(data))
        except OSError as error:
            self._undo()
            raise self._unwritten(error) from error
        self.write_problem = None
        if self.whole_end is None:
            with self._lock:  # a sync must not see the new end without whole_end: it may lie within a record
                self.whole_end = self.max_offset
        self.unconfirmed_from = self.visible_end
        self._set_end(end)

    def _write_raw(self, start: int, data: memoryview) -> None:
        while data:
            size = min(len(data), self._segment_size - start % self._segment_size)
            self._write(start, [data[:size]], size)
            start += size
            data = data[size:]

    def set_whole(self, end: int, last_store_ms: int) -> None:
        """Make records below ``end`` visible: they are complete, the newest has the store time ``last_store_ms``."""
        self.last_store_ms = last_store_ms
        self.unconfirmed_from = None if end == self.max_offset else (end, last_store_ms)
        self.whole_end = end

    @property
    def anything_staged(self) -> bool:
        return self.staged_end != self.max_offset

    def rollback(self) -> None:
        """Drop everything staged."""
        self._clear_staged()

    def _write(self, start: int, parts: Sequence[Buffer], size: int) -> None:
        segment = self.segments[-1] if self.segments else None
        if segment is None or start >= segment.end:
            segment = self._create_segment(start)
        assert segment.start <= start < segment.end
        if len(parts) == 1:
            segment.file.pwrite(start - segment.start, parts[0])
        elif len(parts) < 16 or size < _JOIN_BYTES_MAX:
            segment.file.pwrite(start - segment.start, b"".join(parts))
        else:
            segment.file.pwritev(start - segment.start, parts)
        with self._lock:
            self._unsynced[segment.start] = segment

    def _create_segment(self, start: int) -> Segment:
        path = f"{self._directory}/{start:020d}"
        file = self._files.open(path, create=True, size=self._segment_size)
        if self.segments:
            self.segments[-1].sealed = True
            self.segments[-1].drop_view()
        segment = Segment(start, self._segment_size, file)
        self.segments.append(segment)
        # Sync at once, not with the next sync of the log: a later segment must never outlive an earlier one.
        self._files.sync_dir(self._directory)
        return segment

    def _undo(self) -> None:
        """Restore the log as it was before a commit whose write failed."""
        self._tail_dirty = True
        try:
            self._zero_tail()
        except OSError:
            pass  # the next write tries again; recovery would truncate it too
        self._set_end(self.max_offset)

    def _zero_tail(self) -> None:
        while self.segments and self.segments[-1].start >= self.max_offset:
            self._drop_last()
        if self.segments and self.max_offset < self.segments[-1].end:
            self._zero_from(self.max_offset)
        self._tail_dirty = False

    def _clear_staged(self) -> None:
        self.parts = []
        self._runs = []
        self._run_start = self.staged_end = self.max_offset
        self.segment_end = self.end_of_files if self.segments else self.max_offset

    def _unwritten(self, error: OSError) -> StoreUnavailableError:
        """Note that a write failed, and return the error that says why."""
        text = self._describe(error)
        if self.write_problem is None:
            self.write_problem = text  # keep the first text: the free bytes in it would change with each failure
        return StoreUnavailableError(text)

    def _describe(self, error: OSError) -> str:
        try:
            free = format_bytes(self._files.free_bytes(self._directory))
        except OSError:
            free = "an unknown number of bytes"
        return (
            f"the store can't write {error.filename or self._directory}: {error.strerror} (errno {error.errno}), "
            f"{free} free there; make room or mend the disk, the next send tries again"
        )

    # -- durability ---------------------------------------------------------------------------------------------

    def sync(self) -> int:
        """Bring everything committed before the call to the disk. Returns the offset up to which that is done.

        Safe from another thread. Raises StoreUnavailableError; then the log is read-only until a restart, because the
        system may have dropped the pages it failed to write. Only when the process had no file descriptor left, the
        next sync tries again.
        """
        with self._sync_lock:
            if self.broken is not None:
                raise StoreUnavailableError(self.broken)
            with self._lock:
                # The order matters: neither value may cover more than the files hold.
                store_ms, whole = self.last_store_ms, self.whole_end
                target = self.max_offset
                segments, self._unsynced = self._unsynced, {}
                directory, self._directory_unsynced = self._directory_unsynced, False
            try:
                for segment in segments.values():
                    segment.file.sync()
                if directory:
                    self._files.sync_dir(self._directory)
            except OSError as error:
                if lacked_handles(error):
                    with self._lock:
                        self._unsynced = {**segments, **self._unsynced}
                        self._directory_unsynced |= directory
                    raise no_handles_error(self._directory, error) from error
                self.broken = failed_sync_text(self._directory, error)
                raise StoreUnavailableError(self.broken) from error
            self.synced_offset, self.synced_store_ms = target, store_ms
            self.synced_whole_offset = target if whole is None else whole
            return target

    # -- reading ------------------------------------------------------------------------------------------------

    def read(self, offset: int, size_max: int) -> memoryview:
        """Return bytes from ``offset`` on, at most to the end of its segment or of the log; none at the log's end.

        Raises NotFoundError outside the log, UnreadableError when the disk fails.
        """
        if not self.min_offset <= offset <= self.max_offset:
            raise NotFoundError(f"the log holds {self.min_offset} to {self.max_offset}, not offset {offset}")
        segment = self.find(offset)
        if segment is None or offset == self.max_offset:
            return memoryview(b"")
        at, size = offset - segment.start, min(size_max, segment.end - offset, self.max_offset - offset)
        try:
            data = segment.read(at, size)
        except OSError as error:
            raise UnreadableError(
                f"{segment.file.path} can't be read at {at}: {error.strerror} (errno {error.errno}); mend the disk"
            ) from error
        if not segment.sealed:
            segment.note_read(size, self.resident_bytes_max)
        return data

    def find(self, offset: int) -> Segment | None:
        """Return the segment that holds ``offset``, None outside the log."""
        segments = self.segments
        if not segments or not segments[0].start <= offset < segments[-1].end:
            return None
        return segments[(offset - segments[0].start) // self._segment_size]

    # -- deleting -----------------------------------------------------------------------------------------------

    @property
    def can_drop_oldest(self) -> bool:
        """True when a later segment holds records; the segment that ends the log is never deleted."""
        return len(self.segments) > 1 and self.segments[1].start < self.max_offset

    def size_on_disk(self, segment: Segment) -> int:
        """Return the bytes that deleting the segment frees."""
        if isinstance(segment.file, ColdFile):
            return segment.file.stored_bytes
        return min(segment.end, self.max_offset) - segment.start

    def modified_ms(self, segment: Segment) -> int:
        """Return when the segment was last written, in Unix ms. Raises OSError."""
        return self._files.modified_ms(segment.file.path)

    def drop_oldest(self) -> int:
        """Delete the oldest segment, never the last one. Returns the new minimum offset. Raises OSError."""
        if self.can_drop_oldest:
            self.unlink_oldest()
            self.forget_oldest().close()
        return self.min_offset

    def unlink_oldest(self) -> None:
        """Remove the oldest file: the slow half of :meth:`drop_oldest`. Safe from another thread.

        The removal is on the disk on return; the segment stays readable until :meth:`forget_oldest`. Each removal is
        synced by itself: if only the second of two reached the disk, the log would have a hole. Raises OSError, and
        StoreUnavailableError when the directory can't be synced; then the log is read-only, as after any failed fsync.
        """
        path = self.segments[0].file.path
        try:
            self._files.remove(path)
        except FileNotFoundError:
            pass  # an earlier try removed it, or another process did
        try:
            self._files.sync_dir(path.rpartition("/")[0])
        except OSError as error:
            self.broken = failed_sync_text(f"{path.rpartition('/')[0]}, where {path} was deleted,", error)
            raise StoreUnavailableError(self.broken) from error

    def forget_oldest(self) -> Segment:
        """Let the log begin with the next segment: the quick half of :meth:`drop_oldest`.

        Returns the dropped segment, which the caller closes.
        """
        segment = self.segments.pop(0)
        with self._lock:
            self._unsynced.pop(segment.start, None)
        return segment

    def close(self) -> None:
        for segment in self.segments:
            self._close_segment(segment)
        self.segments = []

    def _close_segment(self, segment: Segment) -> None:
        with self._sync_lock:
            with self._lock:
                self._unsynced.pop(segment.start, None)
            segment.close()
