"""When the checkpoint moves, and what has to be on the disk before it says so."""

from __future__ import annotations

from threading import Lock

from pymq.clock import Clock
from pymq.errors import StoreUnavailableError
from pymq.store.disk import fs
from pymq.store.disk.checkpoint import Checkpoint, CheckpointFile, Durable
from pymq.store.index.index_service import IndexService
from pymq.store.integrity.digests import Digests
from pymq.store.log.commit_log import CommitLog
from pymq.store.queue.queue_table import QueueTable
from pymq.store.settings import StoreSettings


class Checkpointer:
    """The store's thread calls everything; :meth:`save` may run in another. ``newest`` is what the file says."""

    def __init__(
        self,
        *,
        log: CommitLog,
        queues: QueueTable,
        index: IndexService | None,
        digests: Digests | None,
        files: fs.Files,
        path: str,
        clock: Clock,
        settings: StoreSettings,
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._digests = digests
        self._path = path
        self._file = CheckpointFile(files, path)
        self._clock = clock
        self._settings = settings
        self.newest = Checkpoint()
        # What the files held at one moment: log offset and its store time whose units are all in queue files, number
        # of units, and the index' position. Only after a sync may a checkpoint say so.
        self._written = (0, 0, 0, (0, 0, 0, 0))
        self._next_ms = 0
        self._log_end = 0  # when it was moved last
        self._lock = Lock()

    def load(self) -> Checkpoint:
        """Reads the file; a missing one is all zeros."""
        self.newest = self._file.load()
        return self.newest

    def distrust(self, *, queues: bool = False, index: bool = False) -> None:
        """The checkpoint on the disk vouches no more for any unit, or for any key. Raises OSError."""
        if queues:
            self.newest = self.newest.without_queues()
        if index:
            self.newest = self.newest.without_index()
        self._file.save(self.newest)

    def distrust_behind(self, end: int) -> None:
        """The checkpoint on the disk vouches for no unit, no key, and for the log no further than ``end``.

        Raises OSError.
        """
        self.newest = self.newest.truncate(end)
        self._file.save(self.newest)

    def note_written(self) -> None:
        """Every unit that is seen is in a queue file, and every key that is inserted in an index file."""
        # One assignment, without the lock: a checkpoint being saved holds that while the disk works.
        position = self._index.position() if self._index is not None else (0, 0, 0, 0)
        self._written = (*self._log.visible_end, self._queues.unit_count, position)

    @property
    def is_due(self) -> bool:
        """True when it is old, or far behind the log."""
        behind = self._log.max_offset - self._log_end
        return self._clock.monotonic_ms() >= self._next_ms or behind >= self._settings.checkpoint_bytes

    def save_due(self) -> None:
        """Saves it, and counts the time to the next one from now. Raises as :meth:`save`."""
        self._next_ms = self._clock.monotonic_ms() + self._settings.checkpoint_interval_ms
        self._log_end = self._log.max_offset
        self.save()

    def save(self) -> None:
        """Brings queues and index to the disk and says so. Raises StoreUnavailableError; the log is read-only then."""
        with self._lock:
            queue_offset, queue_ms, unit_count, (index_offset, index_name, index_count, index_ms) = self._written
            try:
                self._queues.sync()
                if self._index is not None:
                    self._index.sync()
                if self._digests is not None:
                    self._digests.sync()
                durable = Durable(
                    log_offset=self._log.synced_whole_offset, queue_offset=queue_offset, unit_count=unit_count,
                    index_offset=index_offset, index_name=index_name, index_count=index_count,
                )  # fmt: skip
                checkpoint = Checkpoint(self._log.synced_store_ms, queue_ms, index_ms, durable=durable)
                if checkpoint != self.newest:
                    self._file.save(checkpoint)
                    self.newest = checkpoint
            except OSError as error:
                if fs.lacked_handles(error):
                    raise fs.no_handles_error(self._path, error) from error
                self._log.broken = fs.failed_sync_text(error.filename or self._path, error)
                raise StoreUnavailableError(self._log.broken) from error
