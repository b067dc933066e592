"""Checkpointer: moves the checkpoint, after it has brought to the disk what the checkpoint vouches for."""

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
    """The store's thread calls everything; :meth:`save` may run in another. ``newest`` is the content of the file."""

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
        # What the files held at one moment: the log offset below which all units are in queue files, with its store
        # time, the number of units, and the position of the index. A checkpoint says so only after a sync.
        self._written = (0, 0, 0, (0, 0, 0, 0))
        self._next_ms = 0
        self._log_end = 0  # at the last move of the checkpoint
        self._lock = Lock()

    def load(self) -> Checkpoint:
        """Read the file. A missing one counts as zeros."""
        self.newest = self._file.load()
        return self.newest

    def distrust(self, *, queues: bool = False, index: bool = False) -> None:
        """Make the checkpoint on the disk stop vouching for units, or for keys. Raises OSError."""
        if queues:
            self.newest = self.newest.without_queues()
        if index:
            self.newest = self.newest.without_index()
        self._file.save(self.newest)

    def distrust_behind(self, end: int) -> None:
        """Make the checkpoint on the disk vouch for no unit, no key, and the log no further than ``end``.

        Raises OSError.
        """
        self.newest = self.newest.truncate(end)
        self._file.save(self.newest)

    def note_written(self) -> None:
        """Note that all visible units are in queue files now, and all inserted keys in index files."""
        # One assignment, without the lock, which save() holds while the disk works.
        position = self._index.position() if self._index is not None else (0, 0, 0, 0)
        self._written = (*self._log.visible_end, self._queues.unit_count, position)

    @property
    def is_due(self) -> bool:
        """True when the checkpoint is old, or far behind the log."""
        behind = self._log.max_offset - self._log_end
        return self._clock.monotonic_ms() >= self._next_ms or behind >= self._settings.checkpoint_bytes

    def save_due(self) -> None:
        """Save the checkpoint; the next one is due an interval from now. Raises as :meth:`save`."""
        self._next_ms = self._clock.monotonic_ms() + self._settings.checkpoint_interval_ms
        self._log_end = self._log.max_offset
        self.save()

    def save(self) -> None:
        """Sync queues, index and digests, then save the checkpoint.

        Raises StoreUnavailableError; the log is read-only then.
        """
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
