"""Expiry: deletes the oldest segments, and then the queue and index files that point into them.

The order is safe at any crash point:

1. A checkpoint vouches for the segment's records and for their queue units, so every queue's end is known without them.
2. The segment's file is removed, and the removal synced (:meth:`CommitLog.unlink_oldest`). A start now finds a log that
   begins later.
3. In memory the log's minimum offset moves, then that of each queue. From then on no reader gets the records.
4. A queue file is removed when the next file, too, begins below the minimum; an index file when it is older than the
   one in the checkpoint. The first sweep, soon after a start, finds what a crash left behind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate, islice
from threading import Lock

from pymq.clock import CLOCK_JUMP_MAX_MS
from pymq.errors import StoreError, StoreUnavailableError
from pymq.store.disk.checkpoint import Durable
from pymq.store.disk.fs import Files
from pymq.store.lifecycle.pauses import Pauses
from pymq.store.lifecycle.retention import Decision, DiskFacts, RetentionSettings, SegmentFacts, decide
from pymq.store.lifecycle.store_data import StoreData
from pymq.store.log.commit_log import Segment
from pymq.store.queue.batch_queue import AnyQueue

QUEUES_PER_SWEEP = 100
FILES_PER_SWEEP = 16


class Expiry:
    """Deletes old data. One thread calls everything; another may call :meth:`work`, one call at a time."""

    def __init__(
        self,
        data: StoreData,
        *,
        files: Files,
        directories: tuple[str, ...],
        durable: Callable[[], Durable | None],
        save_checkpoint: Callable[[], None],
        pauses: Pauses,
    ) -> None:
        """``directories``: the log's, then others. ``save_checkpoint`` syncs everything; any thread may call it."""
        self._pauses = pauses
        self._log = data.log
        self._queues = data.queues
        self._lights = data.lights
        self._index = data.index
        self._files = files
        self._directories = directories
        self._durable = durable
        self._save_checkpoint = save_checkpoint
        self._clock = data.clock
        self._swept_for: int | None = None  # the log's minimum offset of the running or last sweep
        self._unswept: list[AnyQueue] = []
        self._waste: list[Callable[[], None]] = []  # slow closing and removing of files that are out of use
        self._work_lock = Lock()  # held during work: the store waits for it before it closes
        self._is_open = False
        self.problem: str | None = None  # why old data is still there

    # -- deciding -----------------------------------------------------------------------------------------------

    def decide(self, settings: RetentionSettings, *, is_manual: bool = False) -> Decision:
        """What the policy says now; begins a pass, so a sweep that met a problem is tried again. Raises OSError.

        ``is_manual``: an operator asked, who trusts the clock, so pauses count as well.
        """
        if self._pauses.note_now():
            self._waste.append(self._pauses.save)
        segments = self.segments(settings.batch_count + 1)
        if not is_manual:
            segments = [
                segment._replace(modified_ms=segment.modified_ms + self._pauses.uncounted_ms(segment.modified_ms))
                for segment in segments
            ]
        decision = decide(
            segments,
            self.log_bytes() if settings.log_bytes_max else 0,
            self.disks(),
            self._clock.now_ms(),
            self._clock.local_time().hour,
            settings,
            is_manual=is_manual,
        )
        self.sweep_again()
        return decision

    def segments(self, count_max: int) -> list[SegmentFacts]:
        """The oldest segments, at most ``count_max``; the last of the log is the one that ends it. Raises OSError."""
        log = self._log
        written = [segment for segment in islice(log.segments, count_max) if segment.start < log.max_offset]
        times_ms = [log.modified_ms(segment) for segment in written]
        if times_ms and max(times_ms) > self._clock.now_ms() + CLOCK_JUMP_MAX_MS:
            # Written while the clock was wrong: a segment is not younger than those behind it.
            times_ms = list(accumulate(reversed([*times_ms, log.modified_ms(log.segments[-1])]), min))[:0:-1]
        return [
            SegmentFacts(segment.start, log.size_on_disk(segment), modified_ms)
            for segment, modified_ms in zip(written, times_ms, strict=True)
        ]

    def log_bytes(self) -> int:
        """The size of all segments; the newest counts up to the log's end."""
        return sum(self._log.size_on_disk(segment) for segment in self._log.segments)

    def disks(self) -> list[DiskFacts]:
        """The disks that writes need. Raises OSError."""
        files = self._files
        return [DiskFacts(path, files.total_bytes(path), files.free_bytes(path)) for path in self._directories]

    # -- deleting -----------------------------------------------------------------------------------------------

    @property
    def has_waste(self) -> bool:
        """True while :meth:`work` would have something to do."""
        return bool(self._waste) or self._queues.removed.has_work

    def work(self, start: int | None) -> None:
        """The slow part: remove the oldest segment's file if it starts at ``start``, and the waste of earlier steps.

        Without a segment, also some queues that were deleted.

        Raises OSError or StoreUnavailableError; then the segment stays.
        """
        with self._work_lock:
            while self._waste:
                self._waste.pop()()
            if start is None and self._is_open:
                self._queues.removed.work()
            elif start is not None and self._is_open and self._is_oldest(start):
                self._unlink(self._log.segments[0])

    def open(self) -> None:
        """The store has recovered."""
        self._is_open = True

    def close(self) -> None:
        """Wait for running work; later calls do nothing. The store is about to be closed."""
        with self._work_lock:
            self._is_open = False

    def _is_oldest(self, start: int) -> bool:
        return self._log.can_drop_oldest and self._log.segments[0].start == start

    def _unlink(self, segment: Segment) -> None:
        self._log.doomed_end = segment.end
        if not self._is_covered(segment.end) or not self._is_known_to_go(segment.end):
            self._save_checkpoint()
        if not self._is_covered(segment.end):
            raise StoreUnavailableError(
                f"{segment.file.path} can't be deleted before the queue units of its records are in their files"
            )
        self._log.unlink_oldest()

    def _is_covered(self, end: int) -> bool:
        durable = self._durable()
        return durable is not None and min(durable.log_offset, durable.queue_offset) >= end

    def _is_known_to_go(self, end: int) -> bool:
        """True when a start that does not find the segment will not take it for lost."""
        durable = self._durable()
        return durable is not None and durable.log_begin >= end

    def forget_oldest(self, start: int) -> bool:
        """After :meth:`work`: let the log begin behind the segment at ``start``. False when that was done before."""
        if not self._is_open or not self._is_oldest(start):
            return False
        self._waste.append(self._log.forget_oldest().close)
        self.sweep()
        return True

    def sweep(self) -> bool:
        """Bring some queues, and at last the index, level with the log's minimum; True when nothing is left to do.

        A queue that still waits answers reads of deleted records with MESSAGE_WAS_REMOVING.
        """
        if self._swept_for != self._log.min_offset:
            self._swept_for = self._log.min_offset
            self._unswept = list(self._queues)
        elif not self._unswept:
            return self._sweep_lights(self._swept_for)
        try:
            self._sweep_some(self._swept_for)
        except OSError as error:
            self._unswept.clear()
            self.problem = f"{error.filename or 'a queue file'} stays: {error.strerror}; the next pass tries again"
        if not self._unswept:
            self._drop_index_files(self._swept_for)
            return self._sweep_lights(self._swept_for)
        return False

    def _sweep_lights(self, log_min_offset: int) -> bool:
        try:
            return self._lights.sweep(log_min_offset)
        except (StoreError, OSError) as error:
            self.problem = f"light queues of deleted messages stay: {error}; the next pass tries again"
            return True

    def sweep_again(self) -> None:
        """Let the next sweep start over if the last one met a problem, and deleted queues go that could not."""
        self._queues.removed.try_again()
        if self.problem is not None:
            self.problem = None
            self._swept_for = None

    def _sweep_some(self, log_min_offset: int) -> None:
        files_left = FILES_PER_SWEEP
        for _ in range(min(QUEUES_PER_SWEEP, len(self._unswept))):
            queue = self._unswept[-1]
            if self._queues.get(queue.topic, queue.queue_id) is queue:  # its topic may have been deleted meanwhile
                files_left -= self._queues.follow_log(queue, log_min_offset, files_left)
                if not files_left:
                    return  # the same queue may have more of them
            self._unswept.pop()

    def _drop_index_files(self, log_min_offset: int) -> None:
        durable = self._durable()
        if self._index is None or durable is None:
            return
        for file in self._index.disk.take_old(log_min_offset, durable.index_name):
            self._waste.append(partial(self._index.disk.delete_file, file))
