"""QueueFiles: the open files of all queues of one kind."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Protocol

from pymq.model.layout import UNIT_SIZE_BYTES
from pymq.store.disk.fs import File, Files
from pymq.store.queue.unit_sums import Blocks


class UnitGuard(Protocol):
    """Compares units with the log, and makes them again where they are wrong."""

    def mend(self, queue: Any, start: int, end: int) -> None:
        """Make the units from queue offset ``start`` to ``end`` in the queue's files those that the log says.

        ``queue`` is a ConsumeQueue, whose module needs this one. Raises UnreadableError while it is not done, OSError.
        """
        ...


class QueueFiles:
    """Opens queue files, keeps the most recently used ones open, and notes which were written since the last sync."""

    def __init__(
        self, files: Files, root: str, file_size_bytes: int, open_max: int, unit_size_bytes: int = UNIT_SIZE_BYTES
    ) -> None:
        self.files = files
        self.root = root
        self.file_size_bytes = file_size_bytes
        self.blocks = Blocks.of(file_size_bytes, unit_size_bytes)
        self.guard: UnitGuard | None = None  # set while the store serves
        self.unsynced: set[str] = set()
        self.unsynced_directories: set[str] = set()
        self._open: OrderedDict[str, File] = OrderedDict()
        self._open_max = open_max

    def directory(self, topic: str, queue_id: int) -> str:
        return f"{self.root}/{topic}/{queue_id}"

    def get(self, path: str, *, create: bool = False, is_new: bool = False) -> File:
        """The open file. Raises FileNotFoundError without ``create``. ``is_new``: most likely it is not there."""
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        if create and is_new:
            file = self._make(path)
        else:
            try:
                file = self._open_whole(path) if create else self.files.open(path)
            except FileNotFoundError:
                if not create:
                    raise
                file = self._make(path)
        self._open[path] = file
        if len(self._open) > self._open_max:
            self._open.popitem(last=False)[1].close()
        return file

    def _make(self, path: str) -> File:
        directory = path.rpartition("/")[0]
        self.files.makedirs(directory)
        parent = directory.rpartition("/")[0]
        self.unsynced_directories.update((directory, parent, self.root))
        return self.files.open(path, create=True, size=self.file_size_bytes)

    def _open_whole(self, path: str) -> File:
        """Open a file that is there, as most are. One that someone has shortened gets its size again."""
        file = self.files.open(path)
        try:
            if file.size() < self.file_size_bytes:
                file.truncate(self.file_size_bytes)
        except OSError:
            file.close()
            raise
        return file

    def take_unsynced(self) -> tuple[set[str], set[str]]:
        """The files and directories written since the last call, which the caller syncs now."""
        taken = self.unsynced, self.unsynced_directories
        self.unsynced, self.unsynced_directories = set(), set()
        return taken

    def give_back(self, paths: set[str], directories: set[str]) -> None:
        """What was taken could not be synced."""
        self.unsynced |= paths
        self.unsynced_directories |= directories

    def forget(self, path: str) -> None:
        """Close the file: it is about to be removed."""
        file = self._open.pop(path, None)
        if file is not None:
            file.close()
        self.unsynced.discard(path)

    def forget_below(self, directories: set[str]) -> None:
        """Close every open file in these directories of queues or topics: they are about to be removed."""

        def is_kept(path: str) -> bool:
            above = path.rpartition("/")[0]
            return above not in directories and above.rpartition("/")[0] not in directories

        for path in [path for path in self._open if not is_kept(path)]:
            self._open.pop(path).close()
        self.unsynced = {path for path in self.unsynced if is_kept(path)}
        self.unsynced_directories = {
            path for path in self.unsynced_directories - directories if path.rpartition("/")[0] not in directories
        }

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()
