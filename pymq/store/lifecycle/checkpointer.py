"""Checkpointer: moves the checkpoint, after it has brought to the disk what the checkpoint vouches for."""

from __future__ import annotations

from threading import Lock

from pymq.errors import StoreUnavailableError
from pymq.store.disk import disk_errors, fs
from pymq.store.disk.checkpoint import Checkpoint, CheckpointFile, Durable
from pymq.store.lifecycle.store_data import StoreData
from pymq.store.light.light_queues import NotedLights
from pymq.store.queue.consume_queue import ConsumeQueue
from pymq.store.queue.noted_ends import NotedEnds

SUMS_INTERVAL_MS = 300_000  # between two savings of the sums of units, when they are many
_SMALL_QUEUES_MAX = 2000  # up to so many queues and blocks (16 million messages) every checkpoint saves them
_SMALL_SUMS_MAX = 1 << 16

_Written = tuple[int, int, NotedEnds, tuple[int, int, int, int], NotedLights]


class Checkpointer:
    """The store's thread calls everything; :meth:`save` may run in another. ``newest`` is the content of the file."""

    def __init__(
        self,
        data: StoreData,
        *,
        files: fs.Files,
        path: str,
    ) -> None:
        self._log = data.log
        self._queues = data.queues
        self._lights = data.lights
        self._index = data.index
        self._digests = data.digests
        self._path = path
        self._file = CheckpointFile(files, path)
        self._clock = data.clock
        self._settings = data.settings
        self.newest = Checkpoint()
        self.problem: str | None = None  # why the checkpoint does not move
        # What the files held at one moment: the log offset below which all units are in queue files, with its store
        # time, the ends of queues, the position of the index, and light queues. A checkpoint says so only after a sync.
        self._written: _Written = (0, 0, NotedEnds(), (0, 0, 0, 0), NotedLights())
        self._next_ms = 0
        self.is_wanted = False  # queues were deleted that the checkpoint counts
        self._log_end = 0  # at the last move of the checkpoint
        self._lock = Lock()
        self._sums_next_ms = 0
        self._sums_are_due = False
        self._sums_offset = -1  # the queue offset of the saved sums

    def load(self) -> Checkpoint:
        """Read the file. A missing one counts as zeros."""
        self.newest = self._file.load()
        return self.newest

    def distrust(self, *, queues: bool = False, index: bool = False) -> None:
        """Make the checkpoint on the disk stop vouching for units, or for keys. Raises OSError.

        Without any room on the disk it stays as it is: nothing that it vouches for can be written there either.
        """
        if queues:
            self.newest = self.newest.without_queues()
        if index:
            self.newest = self.newest.without_index()
        self._file.save_if_room(self.newest)

    def distrust_behind(self, end: int) -> None:
        """Make the checkpoint on the disk vouch for no unit, no key, and the log no further than ``end``.

        Raises OSError.
        """
        self._queues.remove_sums()
        self._queues.forget_known()
        self.newest = self.newest.truncate(end)
        self._file.save(self.newest)

    def note_written(self, round_end: tuple[int, int] | None = None, round_lights: NotedLights | None = None) -> None:
        """Note that all visible units are in queue files now, and all inserted keys in index files.

        ``round_end``: the log's end at the begin of a round of tails, ``round_lights``: what the files of light queues
        held then. Only units that were visible then count.
        """
        position = self._index.position() if self._index is not None else (0, 0, 0, 0)
        end = self._log.visible_end if round_end is None else round_end
        ends = self._queues.note_ends() if round_end is None else self._queues.note_round()
        lights = self._lights.note(end[0]) if round_lights is None else round_lights
        self._written = (*end, ends, position, lights)  # one assignment, without the lock, which save() holds for long

    def note_deleted(self, queues: list[ConsumeQueue]) -> None:
        """Note that queues were deleted. The next checkpoint, which is due now, does not count their units.

        Until then a start after a crash counts them too (:mod:`pymq.store.lifecycle.queue_recovery`), or makes all
        queues again.
        """
        if queues:
            self._next_ms = 0
            self.is_wanted = True

    @property
    def is_due(self) -> bool:
        """True when the checkpoint is old, far behind the log, or does not know of its newest segment.

        A start misses only a segment that the checkpoint knows of.
        """
        log = self._log
        behind = log.max_offset - self._log_end
        newest_start = log.end_of_files - log.segment_size_bytes
        is_rolled = newest_start > 0 and self._log_end <= newest_start < log.max_offset
        return is_rolled or self._clock.monotonic_ms() >= self._next_ms or behind >= self._settings.checkpoint_bytes

    def save_last(self) -> None:
        """Save the checkpoint of a store that closes, with the sums. Raises as :meth:`save`.

        A start that finds the sums of this very checkpoint reads one page of each queue.
        """
        self._sums_are_due = True
        self.save()

    def save_due(self) -> None:
        """Save the checkpoint; the next one is due an interval from now. Raises as :meth:`save`."""
        self._next_ms = self._clock.monotonic_ms() + self._settings.checkpoint_interval_ms
        self.is_wanted = False
        self._log_end = self._log.synced_whole_offset
        self.save()

    def save(self) -> None:
        """Sync queues, index and digests, then save the checkpoint.

        Raises StoreUnavailableError; the log is read-only then.
        """
        with self._lock:
            written, are_sums_due = self._take_noted()
            lights = written[4]
            if written[0] > self._log.synced_whole_offset:
                self._log.sync()  # a start counts the units of records that are on the disk
            try:
                self._queues.sync()
                self._lights.save(lights)
                if self._index is not None:
                    self._index.disk.sync()
                if self._digests is not None:
                    self._digests.sync()
                queue_offset, queue_ms, ends, (index_offset, index_name, index_count, index_ms), _ = written
                if are_sums_due:
                    self._save_sums(queue_offset, ends)
                durable = Durable(
                    log_offset=self._log.synced_whole_offset, queue_offset=queue_offset, unit_count=ends.unit_count,
                    index_offset=index_offset, index_name=index_name, index_count=index_count,
                    log_begin=max(self._log.min_offset, self._log.doomed_end), light_count=lights.entry_end,
                )  # fmt: skip
                checkpoint = Checkpoint(self._log.synced_store_ms, queue_ms, index_ms, durable=durable)
                if checkpoint != self.newest:
                    if not self._log.time_steps.save():
                        self.problem = "there is no room to write where store times go back: the next start reads more"
                        return
                    if not self._file.save_if_room(checkpoint):
                        self.problem = f"there is no room to write {self._path}: the next start will read more"
                        return
                    self.newest = checkpoint
                self.problem = None
            except OSError as error:
                if disk_errors.lacked_handles(error):
                    raise disk_errors.no_handles_error(self._path, error) from error
                self._log.broken = disk_errors.failed_sync_text(error.filename or self._path, error)
                raise StoreUnavailableError(self._log.broken) from error

    def _take_noted(self) -> tuple[_Written, bool]:
        """What was noted last, and whether the sums of its queues are to be saved now.

        They are saved with each checkpoint while they are few, else from time to time.
        """
        queues = self._queues
        is_small = len(queues) <= _SMALL_QUEUES_MAX and queues.sum_count <= _SMALL_SUMS_MAX
        is_due = is_small or self._sums_are_due or self._clock.monotonic_ms() >= self._sums_next_ms
        offset, store_ms, ends, position, lights = self._written
        are_sums_due = queues.sums_outdated or (is_due and offset != self._sums_offset)
        if are_sums_due:
            queues.sums_outdated = False  # before the next line: a queue may be deleted at any moment
        return (offset, store_ms, ends.copy(), position, lights), are_sums_due

    def _save_sums(self, queue_offset: int, ends: NotedEnds) -> None:
        """Save the sums of units. Raises OSError when the disk lets neither save them nor remove the old ones.

        Units that no sum is known of are compared with the log.
        """
        try:
            self._queues.save_sums(queue_offset, ends)
        except OSError:
            self._queues.sums_outdated = True
            self._queues.remove_sums()
            return
        self._sums_offset = queue_offset
        self._sums_next_ms = self._clock.monotonic_ms() + SUMS_INTERVAL_MS
