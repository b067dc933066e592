"""RemovedQueues: directories of queues that are out of use, moved aside in one step and removed in pieces later.

A topic may have 65,535 queues, and the removal of each takes two calls of the file system. So a deletion renames the
topic's directory into ``deletedqueues/``, where no reader looks and a new topic of the name does not meet it. A worker
thread removes the files. What a crash leaves there, the next start finds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pymq.store.disk.fs import Files, make_directory

DELETED_QUEUES_DIRECTORY = "deletedqueues"  # beside consumequeue/
QUEUES_A_PIECE = 500  # whose directories are removed in one go: a stop waits so long, some 0.1 s


class RemovedQueues:
    """The store's thread calls everything; :meth:`work` may run in another, one call at a time."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._next_number = 0
        self._waiting: deque[str] = deque()  # paths of directories that were moved aside
        self._failed: list[str] = []
        self._inside: list[str] = []  # what is left to remove in the first of them, when its removal has begun
        self._begun: str | None = None
        self._objects: list[object] = []  # of deleted queues: to free 65,535 at once takes 60 ms
        self.problem: str | None = None  # why some of it is still there

    def load(self) -> None:
        """Find what an earlier run left."""
        names = [name for name in self._files.listdir(self._directory) if name.isdigit()]
        self._waiting.extend(f"{self._directory}/{name}" for name in names)
        self._next_number = max(map(int, names), default=-1) + 1

    def take(self, path: str) -> None:
        """Move a directory aside in one step; :meth:`sync` makes it durable.

        Raises OSError; then it is where it was.
        """
        if not self._files.is_dir(self._directory):
            make_directory(self._files, self._directory)
        target = f"{self._directory}/{self._next_number}"
        self._files.replace(path, target)
        self._next_number += 1
        self._waiting.append(target)

    def sync(self, *parents: str) -> None:
        """Bring to the disk that directories were moved away from ``parents``. Raises OSError."""
        self._files.sync_dir(self._directory)
        for parent in parents:
            self._files.sync_dir(parent)

    def keep(self, queues: Sequence[object]) -> None:
        """Keep queues that nothing uses any more, so that :meth:`work` frees them some at a time."""
        self._objects += queues

    @property
    def has_work(self) -> bool:
        """True while :meth:`work` would remove something."""
        return bool(self._waiting or self._objects)

    def work(self, count_max: int = QUEUES_A_PIECE) -> None:
        """Remove at most ``count_max`` queues. What the disk refuses to remove waits for :meth:`try_again`."""
        del self._objects[-count_max:]
        while count_max > 0 and self._waiting:
            path = self._waiting[0]
            try:
                count_max -= self._remove_some(path, count_max)
            except OSError as error:
                self.problem = (
                    f"{error.filename or path} stays: {error.strerror}; it is deleted, the next pass tries again"
                )
                self._failed.append(path)
                self._begun = None
                self._waiting.popleft()

    def _remove_some(self, path: str, count_max: int) -> int:
        """Remove at most ``count_max`` entries of a directory, at last the directory; return how many."""
        if self._begun != path:
            self._begun, self._inside = path, self._files.listdir(path)
        batch = self._inside[-count_max:]
        for name in batch:
            inside = f"{path}/{name}"
            if self._files.is_dir(inside):
                self._files.remove_tree(inside)
            elif self._files.exists(inside):
                self._files.remove(inside)
        del self._inside[-count_max:]
        if not self._inside:
            if self._files.is_dir(path):
                self._files.remove_tree(path)
            self._begun = None
            self._waiting.popleft()
        return len(batch) + 1

    def try_again(self) -> None:
        """Let :meth:`work` try again what failed."""
        self.problem = None
        self._waiting.extend(self._failed)
        self._failed.clear()
