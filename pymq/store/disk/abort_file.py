"""The abort file: there while a store is open, and found by the next start when its stop was no clean one."""

from __future__ import annotations

from pymq.store.disk.fs import Files


class AbortFile:
    """``owner``: what it says (RocketMQ puts its process id there)."""

    def __init__(self, files: Files, root: str, owner: str) -> None:
        self._files = files
        self._root = root
        self._path = f"{root}/abort"
        self._owner = owner

    @property
    def exists(self) -> bool:
        return self._files.exists(self._path)

    def write(self) -> None:
        """From here on a death is unclean. On the disk on return; raises OSError."""
        file = self._files.open(self._path, create=True)
        try:
            file.pwrite(0, self._owner.encode())
            file.sync()
        finally:
            file.close()
        self._files.sync_dir(self._root)

    def remove(self) -> None:
        """The stop is clean, for good. Raises OSError."""
        self._files.remove(self._path)
        self._files.sync_dir(self._root)
