"""MessageStore: the one door to a store directory. Stage, commit, read, look up; everything else is behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pymq.clock import Clock
from pymq.store.disk import fs
from pymq.store.disk.abort_file import AbortFile
from pymq.store.disk.rebuild_mark import refuse_unfinished
from pymq.store.index.index_service import IndexService
from pymq.store.integrity.damage import Refusals
from pymq.store.integrity.digests import Digests
from pymq.store.integrity.log_digests import tail_digest
from pymq.store.integrity.scrubber import Scrubber
from pymq.store.lifecycle.checkpointer import Checkpointer
from pymq.store.lifecycle.cold_compressor import COLD_DIRECTORY, ColdCompressor
from pymq.store.lifecycle.expiry import Expiry
from pymq.store.lifecycle.housekeeping import Housekeeping
from pymq.store.lifecycle.recovery import Progress, RecoveryReport, recover
from pymq.store.log.cold_file import ColdFile, ColdFiles
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.deleted_topics import DELETED_TOPICS_FILE, DeletedTopics
from pymq.store.queue.queue_table import QueueTable
from pymq.store.read.reading import Accept, GetResult, GetStatus, PrefilterFn, get_messages
from pymq.store.read.time_lookup import offset_by_time, record_store_ms
from pymq.store.read.windows import WindowReader, read_record
from pymq.store.replica.divergent_directory import adopt_former_directory
from pymq.store.settings import StoreSettings
from pymq.store.write.appender import Appender, ArrivalListener, BatchEntry, Placed

if TYPE_CHECKING:
    from pymq.store.replica.follower import Follower

__all__ = ["BatchEntry", "GetResult", "GetStatus", "MessageStore", "Placed", "RecoveryReport", "StoreSettings"]


class MessageStore:
    """One store directory, opened by one broker.

    One thread calls everything; only :meth:`sync` may run in another. ``owner`` is written into the abort file
    (RocketMQ puts its process id there); ``store_host``: 4 or 16 address bytes and a 32-bit port.
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
        self.settings = settings or StoreSettings()
        self.root = root
        self._files = files
        self.clock = clock
        self._abort_file = AbortFile(files, root, owner)
        self._log_directory = log_directory or f"{root}/commitlog"
        s = self.settings
        cold = ColdFiles(files, f"{root}/{COLD_DIRECTORY}")
        self.log = CommitLog(files, self._log_directory, s.segment_size_bytes, s.resident_bytes_max, cold)
        self.cold_compressor = ColdCompressor(self.log, cold, lambda: self.checkpoints.newest.durable)
        deleted = DeletedTopics(files, f"{root}/config/{DELETED_TOPICS_FILE}")
        self.queue_table = QueueTable(
            files, f"{root}/consumequeue", s.queue_file_size_bytes, s.open_queue_files_max, deleted
        )
        self._windows = WindowReader(self.log)
        self.refusals = Refusals()
        self.log.on_corrupt = self.refusals.note
        self.digests = Digests(files, f"{root}/digests", self.log) if s.digests_enabled else None
        self.scrubber = Scrubber(self.log, self.digests) if self.digests is not None else None
        self.index = IndexService(files, f"{root}/index", self.log, clock, s) if s.index_enabled else None
        self.checkpoints = Checkpointer(
            log=self.log, queues=self.queue_table, index=self.index, digests=self.digests, files=files,
            path=f"{root}/checkpoint", clock=clock, settings=s,
        )  # fmt: skip
        self._lock: fs.Lock | None = None
        self._serving = False
        self._refused_by: dict[str, str] = {}
        self.follower: Follower | None = None  # grows the log by another's bytes
        self.appender = Appender(self.log, self.queue_table, self.index, clock, s, store_host)
        # The hot three: bound here, so that a send doesn't pay for a second call.
        self.stage = self.appender.stage
        self.stage_many = self.appender.stage_many
        self.commit = self.appender.commit
        self.confirm = self.appender.confirm
        self.housekeeping = Housekeeping(
            log=self.log, queues=self.queue_table, index=self.index, digests=self.digests, appender=self.appender,
            checkpoints=self.checkpoints, clock=clock, settings=s,
        )  # fmt: skip
        self.expiry = Expiry(
            log=self.log,
            queues=self.queue_table,
            index=self.index,
            files=files,
            directories=(self._log_directory, root),
            durable=lambda: self.checkpoints.newest.durable,
            save_checkpoint=self.checkpoint,
        )

    # -- life ---------------------------------------------------------------------------------------------------

    def open(self, progress: Progress | None = None) -> RecoveryReport:
        """Locks the directory, recovers, and serves. Raises StoreError or OSError."""
        assert self._lock is None
        for directory in (self.root, f"{self.root}/config"):
            fs.make_directory(self._files, directory)
        self._lock = self._files.lock(f"{self.root}/lock")
        try:
            refuse_unfinished(self._files, self.root)
            adopt_former_directory(self._files, self.root)
            return self._open(progress)
        except BaseException:
            self._release()
            raise

    def _open(self, progress: Progress | None) -> RecoveryReport:
        clean = not self._abort_file.exists
        checkpoint = self.checkpoints.load()
        # From here on a death is unclean, also one during recovery.
        self._abort_file.write()
        self.log.load()
        ignored = self.queue_table.load()
        report = recover(
            self.log, self.queue_table, self.index, checkpoint, self.settings, clean=clean, progress=progress,
            now_ms=self.clock.now_ms(), distrust=self.checkpoints.distrust,
        )  # fmt: skip
        if self.index is not None:
            self.index.drain()
            self.index.release()
        report.notes.extend(f"consumequeue/{name} is no legal topic name: left alone" for name in ignored)
        self._open_digests(report)
        if self.queue_table.deleted is not None:
            self.queue_table.deleted.bound(self.log.min_offset, self.log.max_offset)
        self.appender.last_store_ms = self.log.last_store_ms
        self.appender.closed = next(iter(self._refused_by.values()), None)
        self._serving = True
        self.housekeeping.write()
        self.sync()
        self.expiry.open()
        return report

    def _open_digests(self, report: RecoveryReport) -> None:
        if self.digests is not None:
            durable = self.checkpoints.newest.durable
            self.digests.open(
                durable_offset=durable.log_offset if durable is not None else None,
                checked_from=report.scan_start if self.settings.check_crc_on_recover else self.log.max_offset,
                damaged=report.damaged,
            )

    def close(self, *, as_clean: bool = True) -> None:
        """Writes and syncs everything and marks the stop as clean. When the disk fails, the stop stays unclean; also
        with ``as_clean`` False, so that the next start looks again at what this one found."""
        if self._lock is None:
            return
        try:
            self.expiry.close()
            self.cold_compressor.stop()
            if self._serving:
                self._serving = False
                self.appender.closed = "the store is closed: the broker stops"
                self.appender.drop_staged()
                is_whole = self.follower is None or self.follower.finish()
                if self.appender.unconfirmed:
                    end = self.log.sync()
                    self.confirm(end, confirm_offset=end)  # the next start sees all of the log
                if self.index is not None:
                    self.index.drain()
                if self.digests is not None:
                    self.digests.work(self.settings.segment_size_bytes)
                self.housekeeping.write()
                self.sync()
                if self.digests is not None:
                    self.digests.write()  # now that the log is on the disk, full segments count as settled
                    self.digests.sync()
                if as_clean and is_whole and self.appender.queue_problem is None:
                    self._abort_file.remove()
        finally:
            self._release()

    def _release(self) -> None:
        if self.index is not None:
            self.index.close()
        self.queue_table.close()
        self.log.close()
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
        return self.appender.is_writable

    # -- background ---------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Housekeeping of the calling thread, some times a second: keys into the index, queue tails to their files."""
        if self._serving:
            self.housekeeping.tick()

    @property
    def is_checkpoint_due(self) -> bool:
        """True when the next whole :meth:`sync` moves the checkpoint."""
        return self.checkpoints.is_due

    def sync(self, *, log_only: bool = False) -> int:
        """What was committed before the call is on the disk when it returns; gives that physical offset.

        Meant for a worker thread. Now and then (``checkpoint_interval_ms``, ``checkpoint_bytes``, whenever the store is
        opened or closed) it also makes queues durable and moves the checkpoint, unless ``log_only``. Raises
        StoreUnavailableError when the disk fails: the store then takes no more writes.
        """
        synced = self.log.sync()
        if not log_only and (self.is_checkpoint_due or not self._serving):
            self.checkpoints.save_due()
        return synced

    def checkpoint(self) -> None:
        """Brings everything written to the disk and moves the checkpoint. Safe from another thread; raises as sync."""
        self.log.sync()
        self.checkpoints.save()

    # -- reading ------------------------------------------------------------------------------------------------

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        bytes_max: int,
        tag_codes: frozenset[int] | None = None,
        accept: Accept | None = None,
        prefilter: PrefilterFn | None = None,
    ) -> GetResult:
        """Messages from ``offset`` on. ``tag_codes``: signed 32-bit hashes, None for all; ``accept`` sees each record,
        or only those that ``prefilter`` leaves.

        Raises CorruptRecordError when the first message to return is damaged.
        """
        queue = self.queue_table.get(topic, queue_id)
        return get_messages(
            queue, self._windows, self.settings, offset, count_max, bytes_max, tag_codes, accept, prefilter
        )

    def record_at(self, physical_offset: int) -> memoryview:
        """One record. Raises NotFoundError outside the log, CorruptRecordError when none starts there or it is damaged,
        UnreadableError when the disk fails.
        """
        return read_record(self.log, physical_offset)

    def read_log(self, offset: int, size_max: int) -> memoryview:
        """The log's bytes from a physical offset on, at most to the end of its segment or of the log, records or not.

        Empty at the log's end. Raises NotFoundError outside the log, UnreadableError when the disk fails.
        """
        return self.log.read(offset, size_max)

    def tail_digest(self, end: int, tail_bytes: int) -> str:
        """xxh3-64 in hex of the ``tail_bytes`` bytes of the log before the physical offset ``end``. Raises as read_log,
        also when the log does not hold all of them.
        """
        return tail_digest(self.log, end, tail_bytes)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """First readable offset; 0 for a queue without messages ever."""
        queue = self.queue_table.get(topic, queue_id)
        return queue.min_offset if queue else 0

    def queue_end(self, topic: str, queue_id: int) -> int | None:
        """The next message's offset; None when there is no such queue."""
        queue = self.queue_table.get(topic, queue_id)
        return queue.max_offset if queue else None

    def max_offset(self, topic: str, queue_id: int) -> int:
        """The next message's offset; 0 for a queue without messages ever."""
        queue = self.queue_table.get(topic, queue_id)
        return queue.max_offset if queue else 0

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool = False) -> int:
        """First offset stored at or after ``timestamp_ms`` (``upper``: last one at or before). Clamped to the queue."""
        queue = self.queue_table.get(topic, queue_id)
        return offset_by_time(queue, self.log, timestamp_ms, upper) if queue else 0

    def store_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Store timestamp (ms) of one message, -1 when it isn't there."""
        queue = self.queue_table.get(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return -1
        return record_store_ms(self.log, queue.unit(offset)[0])

    def earliest_store_time(self) -> int:
        """Store timestamp (ms) of the oldest record, -1 for an empty log."""
        return record_store_ms(self.log, self.log.min_offset)

    def find_by_key(
        self, topic: str, key: str, count_max: int, begin_ms: int = 0, end_ms: int = 1 << 62
    ) -> list[memoryview]:
        """Records of the topic with this unique key or key word, newest first. At most ``query_count_max``."""
        if self.index is None:
            return []
        return self.index.find(topic, key, min(count_max, self.settings.query_count_max), begin_ms, end_ms)

    @property
    def problems(self) -> list[str]:
        """What an operator should know now: refused writes and why, lagging queue files, a paused index, …"""
        found = (
            self.log.broken,
            self.appender.closed if self._serving else None,
            self.appender.write_problem,
            self.appender.queue_problem,
            self.index.problem if self.index is not None else None,
            self.expiry.problem,
            self.digests.problem if self.digests is not None else None,
            self.refusals.problem,
            self.cold_compressor.problem,
            self.scrubber.problem if self.scrubber is not None else None,
            self.follower.problem if self.follower is not None else None,
        )
        return list(filter(None, found))

    # -- the rest -----------------------------------------------------------------------------------------------

    def queues(self) -> Iterator[tuple[str, int]]:
        """(topic, queue id) of every queue that has or had messages."""
        return ((queue.topic, queue.queue_id) for queue in self.queue_table)

    def delete_topic(self, topic: str) -> int:
        """Removes the topic's queues (its records stay in the log until their segment goes); returns their number."""
        assert not self.appender.anything_staged, "commit before deleting"
        end = self.log.sync()
        count = self.queue_table.delete_topic(topic, end)
        self.appender.unconfirmed.forget_topic(topic)
        self.confirm(end)  # a checkpoint can't lie behind what is hidden
        if count:
            # Recovery must not read the deleted topic's records again: move the checkpoint behind them now.
            self.housekeeping.write()
            self.checkpoint()
        return count

    @property
    def deletions(self) -> DeletedTopics:
        """Topics whose records were deleted, and below which physical offset."""
        assert self.queue_table.deleted is not None
        return self.queue_table.deleted

    def delete_topics_below(self, ends: Mapping[str, int]) -> list[str]:
        """What the master of the same log deleted: its topics' records below these physical offsets, some of which may
        still be to come. Returns the topics of which more is deleted now.

        Raises StoreUnavailableError or OSError; then ask again.
        """
        raised = [topic for topic, end in ends.items() if end > self.deletions.end(topic)]
        count = self.queue_table.delete_below(ends)
        if raised and self.follower is not None:
            self.follower.take_again({topic: ends[topic] for topic in raised})
        if count:
            self.housekeeping.write()
            self.checkpoint()
        # Last: until then all of it is done again when the master is asked again.
        self.deletions.raise_to(ends)
        return raised

    def expired_queues(self) -> list[tuple[str, int]]:
        """(topic, queue id) of queues that had messages and whose records are all deleted."""
        queues = (queue for queue in self.queue_table if 0 < queue.max_offset == queue.min_offset == queue.next_offset)
        return [(queue.topic, queue.queue_id) for queue in queues]

    def delete_queues(self, doomed: list[tuple[str, int]]) -> None:
        """Removes expired queues with their files: their offsets would begin at 0 again, were they ever used again."""
        assert not self.appender.anything_staged, "commit before deleting"
        for topic, queue_id in doomed:
            self.queue_table.delete_queue(topic, queue_id)
        if doomed:
            self.housekeeping.write()
            self.checkpoint()  # it knows how many units there are

    def refuse_writes(self, why: str | None, *, by: str = "retention") -> None:
        """Takes no writes for the reason given, None takes that reason back; reads go on.

        Each part that may refuse (``by``) has one reason of its own; writes are taken when none is left.
        """
        if why is None:
            self._refused_by.pop(by, None)
        else:
            self._refused_by[by] = why
        if self._serving:
            self.appender.closed = next(iter(self._refused_by.values()), None)

    def set_bulk_ready(self, ready: bool) -> None:
        """Whether bulk work may use numpy. Loading it takes a while: a server says no until a thread has done it."""
        self.appender.bulk_ready = ready
        if self.index is not None:
            self.index.bulk_ready = ready

    def add_arrival_listener(self, listener: ArrivalListener) -> None:
        """``listener(topic, queue_id, max_offset, units)`` runs at the end of each commit, per queue."""
        self.appender.listeners.append(listener)

    @property
    def physical_min_offset(self) -> int:
        return self.log.min_offset

    @property
    def physical_max_offset(self) -> int:
        return self.log.max_offset

    @property
    def dispatched_end(self) -> int:
        """Whole records below this physical offset are in their queues."""
        return self.follower.dispatched_end if self.follower is not None else self.log.max_offset

    @property
    def cold_segment_count(self) -> int:
        """Segments that are kept compressed."""
        return sum(isinstance(segment.file, ColdFile) for segment in self.log.segments)

    @property
    def synced_offset(self) -> int:
        """Below this physical offset everything is on the disk."""
        return self.log.synced_offset

    def used_ratio(self) -> float:
        """Used share of the log's disk, 0 to 1."""
        total = self._files.total_bytes(self._log_directory)
        return 1 - self._files.free_bytes(self._log_directory) / total if total else 0.0
