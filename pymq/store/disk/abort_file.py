"""The abort file: it exists while a store is open. A start that finds it knows that the last stop was not clean."""

from __future__ import annotations

from pymq.store.disk.disk_errors import lacked_room
from pymq.store.disk.fs import Files


class AbortFile:
    """Writes and removes the file. ``owner`` is its content (RocketMQ writes its process id)."""

    def __init__(self, files: Files, root: str, owner: str) -> None:
        self._files = files
        self._root = root
        self._path = f"{root}/abort"
        self._owner = owner

    @property
    def exists(self) -> bool:
        return self._files.exists(self._path)

    def write(self) -> None:
        """Mark the store as open. The file is on the disk on return. Raises OSError.

        On a full disk the file may stay empty, because its name alone counts.
        """
        file = self._files.open(self._path, create=True)
        try:
            file.pwrite(0, self._owner.encode())
            file.sync()
        except OSError as error:
            if not lacked_room(error):
                raise
        finally:
            file.close()
        self._files.sync_dir(self._root)

    def remove(self) -> None:
        """Mark the stop as clean. The removal is on the disk on return. Raises OSError."""
        self._files.remove(self._path)
        self._files.sync_dir(self._root)
