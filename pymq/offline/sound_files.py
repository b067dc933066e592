"""SoundFiles: a directory as if nothing odd were in it, so that a tool names what is odd and goes on with the rest."""

from __future__ import annotations

from collections.abc import Sequence

from pymq.offline.files import READ_ONLY, NoWrites
from pymq.printable import printable
from pymq.store.disk.fs import Begin, File, Files, Lock
from pymq.store.disk.regular_files import FileKind, OddFileError

ODD_PATHS_MAX = 10_000  # that are kept with what is wrong about them


def _odd_text(kind: FileKind) -> str:
    return f"is {kind.value}, neither a file nor a directory: move it away, or put back what belongs there"


class SoundFiles(NoWrites):
    """The files of another file system, for reading. What a broker refuses to open is as if it were not there.

    That is a FIFO, a socket, a device, a link (but not in the place of a whole part, such as ``commitlog``), a file too
    large to be read as a whole, and a name with characters that can't be printed.
    """

    def __init__(self, files: Files, root: str) -> None:
        """``root``: the store; below its parts no link is followed."""
        self.files = files
        self.root = root
        self.odd: dict[str, str] = {}  # path -> what is wrong with it

    def look_at_all(self) -> None:
        """Find what is odd in the whole directory, whether a tool reads it or not. Raises OSError."""
        waiting = [self.root]
        while waiting:
            path = waiting.pop()
            waiting += [f"{path}/{name}" for name, kind in self.entries(path).items() if kind is not FileKind.FILE]

    def leave_out(self, path: str, text: str) -> None:
        """Take note of what is wrong with a path that is not read."""
        if len(self.odd) < ODD_PATHS_MAX:
            self.odd[path] = text

    def _missing(self, error: OddFileError) -> FileNotFoundError:
        path = str(error.filename)
        self.leave_out(path, str(error.strerror))
        return FileNotFoundError(2, f"counts as missing: it {error.strerror}", path)

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        assert not create and size is None, READ_ONLY
        try:
            return self.files.open(path)
        except OddFileError as error:
            raise self._missing(error) from error

    def begin_of(self, path: str, size: int) -> Begin:
        try:
            return self.files.begin_of(path, size)
        except OddFileError as error:
            raise self._missing(error) from error

    def read_bytes(self, path: str) -> bytes:
        try:
            return self.files.read_bytes(path)
        except OddFileError as error:
            raise self._missing(error) from error

    def listdir(self, path: str) -> list[str]:
        return list(self.entries(path))

    def entries(self, path: str) -> dict[str, FileKind]:
        found: dict[str, FileKind] = {}
        for name, kind in self.files.entries(path).items():
            inside = f"{path.rstrip('/')}/{name}"
            if not name.isprintable():
                self.leave_out(
                    inside, f"has a name with characters that can't be printed ({printable(name)}): rename it"
                )
            elif kind in (FileKind.FILE, FileKind.DIRECTORY) or self._is_linked_part(inside, kind):
                found[name] = kind
            else:
                self.leave_out(inside, _odd_text(kind))
        return found

    def _is_linked_part(self, path: str, kind: FileKind) -> bool:
        """True for a link in the place of a part: its directory is on another disk."""
        return kind is FileKind.LINK and path.rpartition("/")[0] == self.root and self.files.is_dir(path)

    def kind(self, path: str) -> FileKind | None:
        return self.files.kind(path)

    def exists(self, path: str) -> bool:
        kind = self.files.kind(path)
        if kind in (FileKind.FILE, FileKind.DIRECTORY, None):
            return kind is not None
        assert kind is not None
        if self._is_linked_part(path, kind):
            return True
        self.leave_out(path, _odd_text(kind))
        return False

    def is_dir(self, path: str) -> bool:
        return self.files.is_dir(path)

    def mode(self, path: str) -> int:
        return self.files.mode(path)

    def modified_ms(self, path: str) -> int:
        return self.files.modified_ms(path)

    def free_bytes(self, path: str) -> int:
        return self.files.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        return self.files.total_bytes(path)

    def sync_dir(self, path: str) -> None:
        raise AssertionError(READ_ONLY)

    def sync_together(self, paths: Sequence[str], directories: Sequence[str]) -> None:
        raise AssertionError(READ_ONLY)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        raise AssertionError(READ_ONLY)

    def lock(self, path: str) -> Lock:
        raise AssertionError(READ_ONLY)
