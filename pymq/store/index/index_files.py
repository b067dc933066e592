"""IndexFiles: the files of the key index on the disk. Opens, makes, removes and syncs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from pymq.clock import Clock
from pymq.store.disk.checkpoint import Checkpoint
from pymq.store.disk.disk_errors import lacked_room
from pymq.store.disk.fs import Files, make_directory
from pymq.store.index.index_doubts import find_doubt, next_offset
from pymq.store.index.index_file import IndexFile, index_file_size
from pymq.store.log.commit_log import CommitLog
from pymq.store.settings import StoreSettings


class IndexFiles:
    """All index files of a store, oldest first (:attr:`files`).

    One thread calls everything; only :meth:`sync` and :meth:`delete_file` may run in another.
    """

    def __init__(self, files: Files, directory: str, log: CommitLog, clock: Clock, settings: StoreSettings) -> None:
        self._files = files
        self.directory = directory
        self._log = log
        self._clock = clock
        self._settings = settings
        self.files: list[IndexFile] = []
        self.notes: list[str] = []  # what the last :meth:`load` found wrong
        self.sealed_ms = 0  # end time of the newest full file: RocketMQ's indexMsgTimestamp
        self._lock = Lock()  # guards the two sets below; never held while the disk works
        self._sync_lock = Lock()  # a file being synced must not be closed
        self._unsynced: set[IndexFile] = set()
        self._directory_unsynced = False

    # -- opening ------------------------------------------------------------------------------------------------

    def load(self, checkpoint: Checkpoint, log_min_offset: int, *, clean: bool) -> int:
        """Open the files and drop entries that may not have reached the disk.

        Returns the physical offset from which on keys have to be inserted. A file that can't be what it was is removed
        with those behind it (:attr:`notes`). Raises OSError.
        """
        make_directory(self._files, self.directory)
        for name in self._files.listdir(self.directory):
            if name.isdigit() and len(name) == 17 and self._has_size(name):
                self.files.append(self._open(name, create=False))
        while self.files and not self.files[-1].sane:
            self._delete_newest()
            clean = False
        start = self._load_known(checkpoint, log_min_offset, clean=clean)
        # Else a flipped bit of the number in the checkpoint would stay in every later one.
        self.sealed_ms = max(0, min(self.sealed_ms, max((file.end_ms for file in self.files), default=0)))
        doubt = find_doubt(self.files, self._log)
        if doubt is None:
            return start
        start = self.keep(doubt[0])
        self.notes.append(f"{doubt[1]}: keys of records from {start} on are inserted again")
        return start

    def _load_known(self, checkpoint: Checkpoint, log_min_offset: int, *, clean: bool) -> int:
        self.sealed_ms = checkpoint.index_ms
        durable = checkpoint.durable
        if durable is not None and durable.index_name == 0:
            while self.files:
                self._delete_newest()
            return durable.index_offset
        if durable is not None and any(file.name == durable.index_name for file in self.files):
            while self.files[-1].name > durable.index_name:
                self._delete_newest()
            if self.files[-1].count < durable.index_count:
                found = self.files[-1]
                self.notes.append(f"{found.path} counts {found.count - 1} keys, it had {durable.index_count - 1}")
                self._delete_newest()
                return self._load_foreign(checkpoint, log_min_offset, clean=clean)
            if self.files[-1].count != durable.index_count or not clean:
                try:
                    self._roll_back(durable.index_count)
                except OSError as error:
                    if not lacked_room(error):
                        raise
                    self.notes.append(f"no room to put {self.files[-1].path} in order: it is made again")
                    self._delete_newest()
                    return self._load_foreign(checkpoint, log_min_offset, clean=clean)
            return durable.index_offset
        if durable is not None:
            self.notes.append(f"{self.directory}/{durable.index_name}, the newest index file, is gone")
        return self._load_foreign(checkpoint, log_min_offset, clean=clean)

    def _has_size(self, name: str) -> bool:
        """Cut a file that is too long. Remove one that is too short, which a crash or damage leaves: return False."""
        file = self._files.open(f"{self.directory}/{name}")
        size, wanted = file.size(), index_file_size(self._settings.index_slot_count, self._settings.index_entry_count)
        if size > wanted:
            file.truncate(wanted)
        file.close()
        if size < wanted:
            self._files.remove(file.path)
        if size and size != wanted:
            self.notes.append(f"{file.path} had {size} bytes, an index file has {wanted}")
        return size >= wanted

    def _load_foreign(self, checkpoint: Checkpoint, log_min_offset: int, *, clean: bool) -> int:
        """Keep files by RocketMQ's rule where PyMQ's checkpoint does not vouch for them. The others are made again."""
        while not clean and self.files and self.files[-1].end_ms > checkpoint.index_ms:
            self._delete_newest()
        return self._next_offset(log_min_offset)

    def _open(self, name: str, *, create: bool) -> IndexFile:
        s = self._settings
        path = f"{self.directory}/{name}"
        return IndexFile(self._files, path, s.index_slot_count, s.index_entry_count, create=create)

    def _roll_back(self, count: int) -> None:
        self.files[-1].roll_back(count)
        with self._lock:
            self._unsynced.add(self.files[-1])

    def _delete_newest(self) -> None:
        file = self.files.pop()
        self._close_file(file)
        self._files.remove(file.path)
        self._directory_unsynced = True

    def _close_file(self, file: IndexFile) -> None:
        with self._sync_lock:
            with self._lock:
                self._unsynced.discard(file)
            file.close()

    def truncate(self, log_end: int) -> None:
        """Drop the entries of records from ``log_end`` on."""
        while self.files and self.files[-1].count > 1 and self.files[-1].end_offset >= log_end:
            count = self.files[-1].count_below(log_end)
            if count > 1:
                try:
                    self._roll_back(count)
                except OSError as error:
                    if not lacked_room(error):
                        raise  # else the entries stay: a look-up compares each with its record
                return
            self._delete_newest()

    # -- growing and shrinking ----------------------------------------------------------------------------------

    def writable(self) -> IndexFile:
        """The newest file, or a new one when it is full."""
        newest = self.files[-1] if self.files else None
        return newest if newest is not None and not newest.full else self._make(newest)

    @contextmanager
    def changing(self, file: IndexFile) -> Iterator[None]:
        """Count the file as changed afterwards: a sync that runs meanwhile may miss the change."""
        try:
            yield
        finally:
            with self._lock:
                self._unsynced.add(file)

    def _make(self, newest: IndexFile | None) -> IndexFile:
        stamp = self._clock.local_time()  # Java: IndexService.getAndCreateLastIndexFile
        name = int(f"{stamp:%Y%m%d%H%M%S}{stamp.microsecond // 1000:03d}")
        if newest is not None:
            name = max(name, newest.name + 1)
        file = self._open(str(name), create=True)
        if newest is not None:
            try:
                file.preset(newest.end_ms, newest.end_offset)
            except OSError:
                file.close()
                self._files.remove(file.path)
                raise
            newest.release()
            self.sealed_ms = newest.end_ms
        self.files.append(file)
        self._directory_unsynced = True
        return file

    def keep(self, count: int) -> int:
        """Remove all but the ``count`` oldest files. Returns the physical offset from which keys are missing then."""
        while len(self.files) > count:
            self._delete_newest()
        self.sealed_ms = self.files[-1].end_ms if self.files else 0
        return self._next_offset(self._log.min_offset)

    def _next_offset(self, log_min_offset: int) -> int:
        start = next_offset(self.files[-1], self._log) if self.files else log_min_offset
        return max(start, log_min_offset)

    def take_old(self, log_min_offset: int, durable_name: int) -> list[IndexFile]:
        """Take files out of use whose records are all deleted, for :meth:`delete_file`.

        The newest file stays, and the one that the last checkpoint names (``durable_name``): recovery starts from it.
        """
        old: list[IndexFile] = []
        while len(self.files) > 1 and self.files[0].end_offset < log_min_offset and self.files[0].name < durable_name:
            old.append(self.files.pop(0))
        return old

    def delete_file(self, file: IndexFile) -> None:
        """Close and remove a file that was taken out of use. Safe from another thread. Raises OSError."""
        self._close_file(file)
        self._files.remove(file.path)

    # -- durability ---------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Bring what was inserted before the call to the disk. Safe from another thread. Raises OSError."""
        with self._sync_lock:
            with self._lock:
                changed, self._unsynced = self._unsynced, set()
                directory, self._directory_unsynced = self._directory_unsynced, False
            try:
                for file in changed:
                    file.sync()
                if directory:
                    self._files.sync_dir(self.directory)
            except OSError:
                with self._lock:
                    self._unsynced |= changed
                    self._directory_unsynced |= directory
                raise

    def position(self) -> tuple[int, int, int]:
        """(newest file's name, its entry count, RocketMQ's indexMsgTimestamp) as they are now."""
        newest = self.files[-1] if self.files else None
        return newest.name if newest else 0, newest.count if newest else 0, self.sealed_ms

    def close(self) -> None:
        with self._sync_lock:
            for file in self.files:
                file.close()
            self.files = []
