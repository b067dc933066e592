"""Opens files that anyone may have put into a directory: only regular ones, of a bounded size, and without a wait.

A FIFO would hold up the thread that opens it, a device may do anything, and a link leads to files of somebody else.
"""

from __future__ import annotations

import errno
import os
import stat
from enum import Enum

from pymq.file_modes import FILE_MODE

# Tables and other files that are read and written as a whole. A million offsets of groups take some 100 MB.
WHOLE_FILE_BYTES_MAX = 1 << 30
_READ_BYTES = 1 << 20  # of a file whose size the system does not tell, as those in /proc


class FileKind(Enum):
    """What stands at a path. The value is its name in texts."""

    FILE = "a regular file"
    DIRECTORY = "a directory"
    LINK = "a symbolic link"
    FIFO = "a FIFO"
    SOCKET = "a socket"
    DEVICE = "a device"


_KINDS = {
    stat.S_IFREG: FileKind.FILE,
    stat.S_IFDIR: FileKind.DIRECTORY,
    stat.S_IFLNK: FileKind.LINK,
    stat.S_IFIFO: FileKind.FIFO,
    stat.S_IFSOCK: FileKind.SOCKET,
}
_NUMBERS = {FileKind.DIRECTORY: errno.EISDIR, FileKind.LINK: errno.ELOOP}


class OddFileError(OSError):
    """What stands at a path can't be the file, or the directory, that belongs there."""


def kind_of_mode(mode: int) -> FileKind:
    """Return what a file is by its ``st_mode``."""
    return _KINDS.get(stat.S_IFMT(mode), FileKind.DEVICE)


def odd_kind(path: str, kind: FileKind, wanted: FileKind = FileKind.FILE) -> OddFileError:
    """Return the error for a path at which something else stands than ``wanted``."""
    text = f"is {kind.value}, {wanted.value} belongs there: move it away, or put {wanted.value} in its place"
    return OddFileError(_NUMBERS.get(kind, errno.ENXIO), text, path)


def odd_size(path: str, size_bytes: int, limit_bytes: int) -> OddFileError:
    """Return the error for a file that is too large for what it holds."""
    text = f"has {size_bytes} bytes, the limit is {limit_bytes}: it is damaged, put a good copy in its place"
    return OddFileError(errno.EOVERFLOW, text, path)


def check_whole_size(path: str, size_bytes: int) -> None:
    """Raise OddFileError for a file that is too large to be read or written as a whole."""
    if size_bytes > WHOLE_FILE_BYTES_MAX:
        raise odd_size(path, size_bytes, WHOLE_FILE_BYTES_MAX)


def open_regular(path: str, flags: int, *, follows_link: bool = False) -> int:
    """Return a descriptor of a regular file, as ``os.open`` does. Raises OddFileError, OSError."""
    flags |= os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follows_link else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags, FILE_MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO) and (kind := kind_at(path)) is not None:
            raise odd_kind(path, kind) from None
        raise
    kind = kind_of_mode(os.fstat(fd).st_mode)
    if kind is not FileKind.FILE:
        os.close(fd)
        raise odd_kind(path, kind)
    return fd


def read_whole(path: str) -> bytes:
    """Return the content of a regular file, or of one that a link leads to. Raises OddFileError, OSError."""
    fd = open_regular(path, os.O_RDONLY, follows_link=True)
    try:
        size = os.fstat(fd).st_size
        check_whole_size(path, size)
        parts = [os.pread(fd, size, 0)]
        at = len(parts[0])
        while part := os.pread(fd, _READ_BYTES, at):
            parts.append(part)
            at += len(part)
            check_whole_size(path, at)
        return parts[0] if len(parts) == 1 else b"".join(parts)
    finally:
        os.close(fd)


def kind_at(path: str) -> FileKind | None:
    """Return what stands at a path, without following a link; None for nothing."""
    try:
        return kind_of_mode(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


def entries(path: str) -> dict[str, FileKind]:
    """Return the names in a directory, sorted, and what each is; none when there is no directory. Raises OSError."""
    try:
        with os.scandir(path) as found:
            return dict(sorted((entry.name, _kind_of_entry(entry)) for entry in found))
    except (FileNotFoundError, NotADirectoryError):
        return {}


def _kind_of_entry(entry: os.DirEntry[str]) -> FileKind:
    if entry.is_symlink():
        return FileKind.LINK
    if entry.is_file(follow_symlinks=False):
        return FileKind.FILE
    if entry.is_dir(follow_symlinks=False):
        return FileKind.DIRECTORY
    return kind_at(entry.path) or FileKind.DEVICE
