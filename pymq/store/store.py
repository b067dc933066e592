"""MessageStore: the only door to a store directory. Stage, commit, read, look up; everything else is behind it.

Code outside this package uses the public members of :class:`MessageStore` and the values that they return.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from pymq.clock import Clock
from pymq.errors import StoreUnavailableError
from pymq.store.disk import fs
from pymq.store.disk.abort_file import AbortFile
from pymq.store.disk.access import open_to_others
from pymq.store.disk.rebuild_mark import refuse_unfinished
from pymq.store.dispatch.unit_mender import UnitMender
from pymq.store.index.index_service import IndexService
from pymq.store.integrity.damage import Refusals
from pymq.store.integrity.digests import Digests
from pymq.store.integrity.log_scan import LogScan
from pymq.store.integrity.scrubber import Scrubber, ScrubPiece
from pymq.store.lifecycle.checkpointer import Checkpointer
from pymq.store.lifecycle.cold_compressor import COLD_DIRECTORY, ColdCompressor, ColdPiece
from pymq.store.lifecycle.expiry import Expiry
from pymq.store.lifecycle.figures import StoreFigures, store_figures
from pymq.store.lifecycle.housekeeping import Housekeeping
from pymq.store.lifecycle.light_recovery import notes_of_ignored
from pymq.store.lifecycle.log_extent import check_extent, vouched_end
from pymq.store.lifecycle.pauses import Pauses
from pymq.store.lifecycle.recovery import Progress, RecoveryReport, recover
from pymq.store.lifecycle.retention import Decision, Doomed, RetentionSettings
from pymq.store.lifecycle.store_data import StoreData
from pymq.store.light.entry_files import LightEntry
from pymq.store.light.light_queues import LightQueues, StagedLight
from pymq.store.light.light_reader import LightEnds, LightReader
from pymq.store.log.cold_file import ColdFiles
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.deleted_topics import DeletedTopics
from pymq.store.queue.queue_ends import drop_queue_ends, reach_queue_ends
from pymq.store.queue.queue_table import QueueTable
from pymq.store.queue.queue_view import QueueView, tags_codes
from pymq.store.read.reading import FILTER_STEP_COUNT, Accept, GetResult, GetStatus, Pace, RecordPrefilter
from pymq.store.read.store_reader import StoreReader
from pymq.store.replica.boundary import Boundary, find_boundary
from pymq.store.replica.epoch_table import last_clean_end
from pymq.store.replica.follower import Follower
from pymq.store.settings import StoreSettings
from pymq.store.write.appender import Appender, ArrivalListener, Placed
from pymq.store.write.plain_stager import PlainStager
from pymq.store.write.refusal import DISK, Refusal, refusal_of

# What other packages import from the store, beside the tools for directories of stopped brokers.
__all__ = [
    "FILTER_STEP_COUNT",
    "Accept",
    "Doomed",
    "Follower",
    "GetResult",
    "GetStatus",
    "LightEnds",
    "LightEntry",
    "LightReader",
    "MessageStore",
    "Pace",
    "Placed",
    "PlainStager",
    "QueueView",
    "RecordPrefilter",
    "RecoveryReport",
    "RetentionSettings",
    "StagedLight",
    "StoreFigures",
    "StoreSettings",
    "tags_codes",
]


class MessageStore(StoreReader):
    """One store directory, opened by one broker.

    One thread calls everything; :meth:`sync`, :meth:`checkpoint` and :meth:`delete_segment` may run in another.
    ``owner`` is written into the abort file (RocketMQ puts its process id there). ``store_host``: 4 or 16 address
    bytes and a 32-bit port.
    """

    def __init__(
        self,
        *,
        root: str,
        files: fs.Files,
        clock: Clock,
        settings: StoreSettings | None = None,
        store_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f",
        log_directory: str | None = None,
        owner: str = "pymq",
    ) -> None:
        s = settings or StoreSettings()
        log_directory = log_directory or f"{root}/commitlog"
        cold = ColdFiles(files, f"{root}/{COLD_DIRECTORY}")
        log = CommitLog(files, log_directory, s.segment_size_bytes, s.resident_bytes_max, cold)
        queues = QueueTable.of_store(files, root, s)
        self._lights = lights = LightQueues(files, root, s, queues.deleted_end)
        self.lights = LightReader(lights, log)
        index = IndexService(files, f"{root}/index", log, clock, s) if s.index_enabled else None
        super().__init__(log, queues, index, s)
        self._root, self._files = root, files
        self._clock = clock
        self._log_directory = log_directory
        self._store_host = store_host
        self._abort_file = AbortFile(files, root, owner)
        self._cold_compressor = ColdCompressor(log, cold, lambda: self._checkpoints.newest.durable)
        self._mender = UnitMender(log, queues, s)
        self._refusals = Refusals()
        log.on_corrupt = self._refusals.note
        self._digests = Digests(files, f"{root}/digests", log) if s.digests_enabled else None
        self._scrubber = scrubber = Scrubber(log, self._digests) if self._digests is not None else None
        self.scan = LogScan(log, scrubber.digests, lambda: scrubber.found) if scrubber is not None else None
        self._data = data = StoreData(log, queues, lights, index, self._digests, clock, s)
        self._checkpoints = Checkpointer(data, files=files, path=f"{root}/checkpoint")
        self._lock: fs.Lock | None = None
        self._serving = False
        self._lost_begin: str | None = None
        self._refused_by: dict[str, str] = {}
        self._follower: Follower | None = None  # set while the log grows by another broker's bytes
        self._appender = Appender(log, queues, lights, index, clock, s, store_host)
        self.stage = self._appender.stage  # the hot ones: bound here, so that a send doesn't pay for a second call
        self.stage_many = self._appender.stage_many
        self.stage_inner = self._appender.stage_inner
        self.set_queue_kind = queues.set_kind
        self.commit, self.drop_staged = self._appender.commit, self._appender.drop_staged
        self.confirm = self._appender.confirm
        self._housekeeping = Housekeeping(
            data, appender=self._appender, checkpoints=self._checkpoints, mender=self._mender
        )
        self._pauses = Pauses(files, root, clock)
        self._expiry = Expiry(
            data, files=files, directories=(log_directory, root), durable=lambda: self._checkpoints.newest.durable,
            save_checkpoint=self.checkpoint, pauses=self._pauses,
        )  # fmt: skip

    # -- life ---------------------------------------------------------------------------------------------------

    def open(self, progress: Progress | None = None) -> RecoveryReport:
        """Lock the directory, recover, and serve. Raises StoreError or OSError."""
        assert self._lock is None
        for directory in (self._root, f"{self._root}/config"):
            fs.make_directory(self._files, directory)
        self._lock = self._files.lock(f"{self._root}/lock")
        try:
            refuse_unfinished(self._files, self._root)
            return self._open(progress)
        except BaseException:
            self._release()
            raise

    def _open(self, progress: Progress | None) -> RecoveryReport:
        clean = not self._abort_file.exists
        checkpoint, ended_at = self._checkpoints.load(), lambda: last_clean_end(self._files, self._root)
        vouched = vouched_end(checkpoint, self._root, ended_at, clean=clean)
        self._log.load(vouched.end)
        self._log.time_steps.load(self._files, self._root, self._log.min_offset)
        ignored = self._queues.load()
        is_replica = self._follower is not None
        lost = check_extent(self._log, self._queues, self._checkpoints, vouched, clean=clean, is_replica=is_replica)
        self._lost_begin = lost.begin
        # From here on every crash is an unclean stop, also one during recovery.
        self._abort_file.write()
        report = recover(
            self._data, self._checkpoints.newest, clean=clean, is_replica=is_replica, progress=progress,
            distrust=self._checkpoints.distrust,
        )  # fmt: skip
        has_ends = reach_queue_ends(self._files, self._root, self._queues)
        if self._index is not None:
            self._index.catch_up()
            self._index.release()
        report.notes.extend(notes_of_ignored(ignored))
        access = open_to_others(self._root, self._files.mode(self._root))
        report.notes.extend(filter(None, (access, self._pauses.load(self._log.last_store_ms))))
        report.lost.extend(filter(None, lost))
        self._open_digests(report)
        self._mender.begin()
        if self._queues.deleted is not None:
            self._queues.deleted.bound(self._log.min_offset, self._log.max_offset)
        self._appender.last_store_ms = self._log.last_store_ms
        self._appender.closed = next(iter(self._refused_by.values()), None)
        self._serving = True
        self._housekeeping.write()
        with suppress(StoreUnavailableError):  # then the log is read-only, and says why: what is there is served
            self.sync()
        if has_ends and self._appender.queue_problem is None and self._log.broken is None:
            drop_queue_ends(self._files, self._root)
        self._expiry.open()
        return report

    def _open_digests(self, report: RecoveryReport) -> None:
        if self._digests is not None:
            durable = self._checkpoints.newest.durable
            self._digests.open(
                durable_offset=durable.log_offset if durable is not None else None,
                checked_from=report.scan_start if self.settings.check_crc_on_recover else self._log.max_offset,
                damaged=report.damaged,
            )

    def close(self, *, as_clean: bool = True) -> None:
        """Write and sync everything, and mark the stop as clean.

        The stop stays unclean when the disk fails, and with ``as_clean`` False: the next start then looks again at
        what this one found.
        """
        if self._lock is None:
            return
        try:
            self._expiry.close()
            self._cold_compressor.stop()
            if self._serving:
                self._serving = False
                self._appender.closed = "the store is closed: the broker stops"
                self._appender.drop_staged()
                is_whole = self._follower is None or self._follower.finish()
                if self._appender.unconfirmed:
                    end = self._log.sync()
                    self.confirm(end, confirm_offset=end)  # the next start sees all of the log
                if self._index is not None:
                    self._index.catch_up()
                if self._digests is not None:
                    self._digests.work(self.settings.segment_size_bytes)
                self._lights.wants_table = True  # the next start reads it instead of entries
                self._housekeeping.write()
                self._log.sync()
                self._checkpoints.save_last()
                if self._digests is not None:
                    self._digests.write()  # now that the log is on the disk, full segments count as settled
                    self._digests.sync()
                if as_clean and is_whole and self._appender.queue_problem is None:
                    self._abort_file.remove()
        finally:
            self._release()

    def _release(self) -> None:
        if self._index is not None:
            self._index.disk.close()
        self._lights.close()
        self._queues.close()
        self._log.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def is_open(self) -> bool:
        """True between :meth:`open` and :meth:`close`."""
        return self._serving

    @property
    def is_writable(self) -> bool:
        """False while the store is closed or read-only after a failed fsync."""
        return self._appender.is_writable

    # -- background ---------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Insert keys into the index and write queue tails to their files. Call it some times a second."""
        if self._serving:
            self._housekeeping.tick()

    @property
    def is_checkpoint_due(self) -> bool:
        """True when the next whole :meth:`sync` moves the checkpoint."""
        return self._checkpoints.is_due

    @property
    def is_checkpoint_wanted(self) -> bool:
        """True when the checkpoint should move although nothing was stored: it counts queues that were deleted."""
        return self._checkpoints.is_wanted

    def sync(self, *, log_only: bool = False) -> int:
        """Bring what was committed before the call to the disk; return the physical offset where that ends.

        Meant for a worker thread. Unless ``log_only``, it also makes queues durable and moves the checkpoint when that
        is due (``checkpoint_interval_ms``, ``checkpoint_bytes``), and whenever the store is opened or closed. Raises
        StoreUnavailableError when the disk fails: the store then takes no more writes.
        """
        synced = self._log.sync()
        if not log_only and (self.is_checkpoint_due or not self._serving):
            self._checkpoints.save_due()
        return synced

    def checkpoint(self) -> None:
        """Bring everything written to the disk and move the checkpoint. Safe from another thread; raises as sync."""
        self._log.sync()
        self._checkpoints.save()

    def insert_waiting_keys(self) -> None:
        """Insert every key that waits for the index now. :meth:`tick` inserts them some at a time."""
        if self._index is not None:
            self._index.drain()

    def next_cold_piece(self, older_than_ms: int) -> ColdPiece | None:
        """The next piece of compressing old segments; None when none was last changed before ``older_than_ms``.

        Any thread may run the piece. Give it to :meth:`finish_cold_piece` before asking for the next one.
        """
        return self._cold_compressor.next_piece(older_than_ms)

    def finish_cold_piece(self, piece: ColdPiece) -> None:
        """Take over what the piece did."""
        self._cold_compressor.finish(piece)

    def next_scrub_piece(self) -> ScrubPiece | None:
        """The next piece of reading old segments again; None at the end of a pass, and while digests are off.

        Any thread may run the piece. Give it to :meth:`finish_scrub_piece` before asking for the next one.
        """
        return self._scrubber.next_piece() if self._scrubber is not None else None

    def finish_scrub_piece(self, piece: ScrubPiece) -> None:
        """Take over what the piece found."""
        assert self._scrubber is not None
        self._scrubber.finish(piece)

    # -- retention ----------------------------------------------------------------------------------------------

    def plan_deletions(self, settings: RetentionSettings, *, is_manual: bool = False) -> Decision:
        """Which of the oldest segments the policy deletes now, and whether it refuses writes. Raises OSError.

        ``is_manual``: an operator asked, so the hour does not matter.
        """
        return self._expiry.decide(settings, is_manual=is_manual)

    @property
    def has_waste(self) -> bool:
        """True while :meth:`delete_segment` has something to do without a segment."""
        return self._expiry.has_waste

    def delete_segment(self, start: int | None) -> None:
        """Delete the file of the oldest segment if it begins at ``start``, and what earlier deletions left to do.

        The slow part, meant for a worker thread; :meth:`forget_segment` follows on the store's own. Raises OSError or
        StoreUnavailableError; then the segment stays.
        """
        self._expiry.work(start)

    def forget_segment(self, start: int) -> bool:
        """Let the log begin behind the segment at ``start``, which was deleted. False when that was done before."""
        return self._expiry.forget_oldest(start)

    def sweep(self) -> bool:
        """Bring some queues, and at last the index, level with the log's begin; True when nothing is left to do."""
        return self._expiry.sweep()

    # -- what an operator sees -----------------------------------------------------------------------------------

    @property
    def problems(self) -> list[str]:
        """What an operator should know now, a text each: refused writes, lagging queue files, a paused index, …"""
        found = (
            self._clock.problem,
            self._lost_begin,
            self._log.broken,
            self._checkpoints.problem,
            self._appender.closed if self._serving else None,
            self._log.write_problem,
            self._appender.queue_problem,
            self._lights.problem,
            (self._index.problem or self._index.rebuild_problem) if self._index is not None else None,
            self._mender.problem,
            self._expiry.problem,
            self._queues.removed.problem,
            self._digests.problem if self._digests is not None else None,
            self._refusals.problem,
            self._cold_compressor.problem,
            self._scrubber.problem if self._scrubber is not None else None,
            self._follower.problem if self._follower is not None else None,
        )
        return list(filter(None, found))

    @property
    def refusal(self) -> Refusal | None:
        """Why messages can't be stored now; None while they can, and while the store is not open."""
        return refusal_of(self._log, self._refused_by) if self._serving else None

    @property
    def figures(self) -> StoreFigures:
        """Count for metrics, as they are now."""
        return store_figures(self._log, self._refusals, self._mender.mended_count, self._scrubber)

    # -- another broker's log -----------------------------------------------------------------------------------

    def follow(self) -> Follower:
        """Let the log grow by another broker's bytes; returns what takes them. Also before :meth:`open`."""
        self._follower = Follower(self._data, appender=self._appender, is_open=lambda: self._serving)
        return self._follower

    def end_following(self) -> None:
        """Truncate what is no whole record, sync the rest, and let the log take records of its own again.

        Raises StoreUnavailableError when that can't be done.
        """
        follower = self._follower
        if follower is None:
            return
        if not follower.finish():
            raise StoreUnavailableError(f"what slaves gave can't be dispatched: {follower.problem}")
        self._follower = None
        self._log.whole_end = self._log.unconfirmed_from = None
        self.sync()

    def find_boundary(self, end: int) -> Boundary:
        """Where the log can be truncated for ``end``. Raises StoreError before the log's begin, OSError."""
        return find_boundary(self._log, end)

    def truncate(self, boundary: Boundary) -> None:
        """Make the log end at ``boundary``, with queues and index. The store can only be closed then. Raises OSError.

        The checkpoint goes first: from then on it vouches for nothing that is about to go.
        """
        end = boundary.offset
        self._checkpoints.distrust_behind(end)
        self._log.truncate(end, boundary.last_store_ms)
        if self._digests is not None:
            self._digests.truncate(end)
        self._log.sync()
        self._queues.settle_all(self._log, end, trusted=True)
        self._lights.truncate(end)
        if self._index is not None:
            self._index.truncate(end)

    # -- the rest -----------------------------------------------------------------------------------------------

    def delete_topics(self, *topics: str) -> int:
        """Remove the topics' queues; returns their number. Files go later, records with their segment of the log."""
        assert not self._appender.anything_staged, "commit before deleting"
        end = self._log.sync()
        gone = self._queues.delete_topics(topics, end)
        for topic in topics:
            self._appender.unconfirmed.forget_topic(topic)
            self._lights.forget_parent(topic, end)
        self.confirm(end)
        self._checkpoints.note_deleted(gone)
        return len(gone)

    @property
    def deletions(self) -> DeletedTopics:
        """Topics whose records were deleted, and below which physical offset."""
        assert self._queues.deleted is not None
        return self._queues.deleted

    def delete_topics_below(self, ends: Mapping[str, int]) -> list[str]:
        """Delete what the master of the same log deleted: records of topics below these physical offsets.

        Some of these records may still be to come. Returns the topics of which more is deleted now. Raises
        StoreUnavailableError or OSError; then call again.
        """
        raised = [topic for topic, end in ends.items() if end > self.deletions.end(topic)]
        gone = self._queues.delete_below(ends)
        for topic in raised:
            self._lights.forget_parent(topic, ends[topic])
        if raised and self._follower is not None:
            self._follower.take_again({topic: ends[topic] for topic in raised})
        self._checkpoints.note_deleted(gone)
        # Last: until then, the next answer of the master repeats all of it.
        self.deletions.raise_to(ends)
        return raised

    def delete_queues(self, doomed: list[tuple[str, int]]) -> None:
        """Remove expired queues; their files go later. The offsets of a queue that is used again begin at 0."""
        assert not self._appender.anything_staged, "commit before deleting"
        self._checkpoints.note_deleted(self._queues.delete_queues(doomed))

    def refuse_writes(self, why: str | None, *, by: str = DISK) -> None:
        """Stop taking writes because of ``why``; None lifts it. Reads go on.

        Each part that may refuse (``by``) has its own reason. The store takes writes when no reason is left.
        """
        if why is None:
            self._refused_by.pop(by, None)
        else:
            self._refused_by[by] = why
        if self._serving:
            self._appender.closed = next(iter(self._refused_by.values()), None)

    def set_bulk_ready(self, ready: bool) -> None:
        """Allow bulk work to use numpy, or forbid it. A server forbids it until a thread has loaded numpy."""
        self.is_bulk_ready = self._appender.bulk_ready = ready
        if self._index is not None:
            self._index.bulk_ready = ready

    def add_arrival_listener(self, listener: ArrivalListener) -> None:
        """Call ``listener(queue, units)`` for each queue that grew, at the end of each commit."""
        self._appender.listeners.append(listener)

    def plain_stager(self) -> PlainStager:
        """The short way to stage plain records, for a server's hot path."""
        return PlainStager(self._appender, self._queues, self._store_host)

    @property
    def dispatched_end(self) -> int:
        """Whole records below this physical offset are in their queues."""
        return self._follower.dispatched_end if self._follower is not None else self._log.max_offset

    @property
    def has_unconfirmed(self) -> bool:
        """True while a commit in the log waits for the disk or for slaves before consumers may see it."""
        return bool(self._appender.unconfirmed)

    def find_unconfirmed(self, topic: str, unique_key: bytes) -> int | None:
        """Physical offset of the topic's oldest unconfirmed record with this unique key; None: there is none."""
        return self._appender.unconfirmed.find(topic, unique_key)

    def used_ratio(self) -> float:
        """Used share of the log's disk, 0 to 1."""
        total = self._files.total_bytes(self._log_directory)
        return 1 - self._files.free_bytes(self._log_directory) / total if total else 0.0
