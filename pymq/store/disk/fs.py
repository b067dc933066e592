"""The file seam: everything the store asks of a disk, and its real implementation.

A simulated disk (``pymq.store.disk.memory_fs``) implements the same two protocols, so recovery can be tested against lost
and torn writes. Errors of the system reach the caller as ``OSError`` from either of them.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from pymq.errors import StoreError, StoreUnavailableError

Buffer = bytes | bytearray | memoryview

IOV_COUNT_MAX = 1024  # buffers the kernel takes in one vectored write
_fdatasync = getattr(os, "fdatasync", os.fsync)


class File(Protocol):
    """One open file. Positions and sizes are bytes; all writes are at a position, there is no cursor."""

    path: str

    def pread(self, at: int, size: int) -> bytes:
        """Up to ``size`` bytes, fewer only at the file's end."""
        ...

    def pwrite(self, at: int, data: Buffer) -> None:
        """Writes all of ``data`` or raises OSError (then any prefix may have been written)."""
        ...

    def pwritev(self, at: int, buffers: Sequence[Buffer]) -> None:
        """As :meth:`pwrite`, for buffers which follow each other in the file."""
        ...

    def view(self) -> memoryview:
        """The whole file, read only, as it is and as later writes change it. Valid while the file keeps its size."""
        ...

    def writable_view(self) -> memoryview:
        """The whole file, writable. Only ranges that were :meth:`allocate`-d may be touched."""
        ...

    def release(self, view: memoryview) -> None:
        """Lets the system take back the memory behind a view; its content stays."""
        ...

    def allocate(self, at: int, size: int) -> None:
        """Reserves disk space for a range, so that writing it can't fail for lack of space."""
        ...

    def next_data(self, at: int) -> int | None:
        """The first position from ``at`` on that may hold something else than zeros; None when there is none."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None:
        """Cuts or extends (with zeros that take no space) to ``size``."""
        ...

    def sync(self) -> None:
        """Returns when the content is on the disk."""
        ...

    def close(self) -> None:
        """Gives the descriptor back. Views that are still held stay readable."""
        ...


def lacked_handles(error: OSError) -> bool:
    """True when no descriptor was left to open a file with: the disk was never asked, so trying again is sound."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def no_handles_error(path: str, error: OSError) -> StoreUnavailableError:
    """What a sync says that could not begin."""
    return StoreUnavailableError(
        f"{error.filename or path} can't be opened to be synced: {error.strerror} (errno {error.errno}); raise the "
        f"limit of open files or close connections, it is tried again"
    )


def failed_sync_text(what: str, error: OSError) -> str:
    """Why a store writes no more: ``what`` could not be synced. The system may have dropped the pages it could not
    write and call the next fsync a success, so trying again would prove nothing; a start reads what there is."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        next_step = "make room on the disk, then restart the broker"
    else:
        next_step = "check the disk, then restart the broker, or rebuild it on another one (pymq store recover)"
    return (
        f"fsync of {what} failed: {error.strerror} (errno {error.errno}): bytes that were written may be lost, so the "
        f"store is read-only until the broker is restarted: {next_step}"
    )


class Lock(Protocol):
    """A held directory lock."""

    def release(self) -> None: ...


class Files(Protocol):
    """One file system."""

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        """Opens for reading and writing. ``create`` makes a missing file, ``size`` then extends it sparsely."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]:
        """Sorted names; empty when the directory doesn't exist."""
        ...

    def makedirs(self, path: str) -> None: ...

    def replace(self, source: str, target: str) -> None:
        """Renames over ``target`` in one step."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None:
        """Returns when the directory's entries are on the disk."""
        ...

    def read_bytes(self, path: str) -> bytes: ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int:
        """What ordinary users can have of the disk: used and free, without the administrator's reserve."""
        ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Makes ``modified_ms`` (Unix time) the time of the last change."""
        ...

    def lock(self, path: str) -> Lock:
        """Takes the lock file or raises StoreError when another process (or this one) holds it."""
        ...


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def pread(self, at: int, size: int) -> bytes:
        return os.pread(self._fd, size, at)

    def pwrite(self, at: int, data: Buffer) -> None:
        written = os.pwrite(self._fd, data, at)
        while written < len(data):
            written += _progress(os.pwrite(self._fd, memoryview(data)[written:], at + written), self.path)

    def pwritev(self, at: int, buffers: Sequence[Buffer]) -> None:
        for start in range(0, len(buffers), IOV_COUNT_MAX):
            chunk = buffers[start : start + IOV_COUNT_MAX]
            size = sum(map(len, chunk))
            written = os.pwritev(self._fd, chunk, at)
            if written < size:
                # Rare (a full disk, a signal): the rest goes the plain way, which raises the real error.
                self.pwrite(at + written, memoryview(b"".join(chunk))[written:])
            at += size

    def view(self) -> memoryview:
        return memoryview(mmap.mmap(self._fd, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ))

    def writable_view(self) -> memoryview:
        return memoryview(mmap.mmap(self._fd, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE))

    def release(self, view: memoryview) -> None:
        mapping = view.obj
        if isinstance(mapping, mmap.mmap):
            mapping.madvise(mmap.MADV_DONTNEED)

    def allocate(self, at: int, size: int) -> None:
        os.posix_fallocate(self._fd, at, size)

    def next_data(self, at: int) -> int | None:
        try:
            return os.lseek(self._fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                return at if at < self.size() else None  # a file system without holes
            raise

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        _fdatasync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _progress(written: int, path: str) -> int:
    if written <= 0:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)
    return written


class _RealLock:
    """A POSIX record lock on byte 0, the one RocketMQ's own broker takes, so the two exclude each other."""

    # POSIX locks don't exclude a second open in the same process: this set does.
    held: ClassVar[set[str]] = set()

    def __init__(self, path: str) -> None:
        self._key = str(Path(path).resolve())
        if self._key in self.held:
            raise _lock_taken(path)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            os.close(self._fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise _lock_taken(path) from error
            raise
        os.pwrite(self._fd, b"lock", 0)
        self.held.add(self._key)

    def release(self) -> None:
        if self._key in self.held:
            self.held.discard(self._key)
            os.close(self._fd)


def is_locked_here(path: str) -> bool:
    """True when this process holds the lock file, which its own POSIX locks can't tell. Opening it would free it."""
    return str(Path(path).resolve()) in _RealLock.held


def _lock_taken(path: str) -> StoreError:
    return StoreError(f"{path} is locked: another broker uses this directory; stop it or choose another directory")


class RealFiles:
    """The operating system's file system."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        file = RealFile(path, os.open(path, flags, 0o644))
        if create and size is not None and file.size() < size:
            try:
                file.truncate(size)
            except OSError:
                file.close()
                raise
        return file

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def is_dir(self, path: str) -> bool:
        return Path(path).is_dir()

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def makedirs(self, path: str) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)

    def replace(self, source: str, target: str) -> None:
        Path(source).replace(target)

    def remove(self, path: str) -> None:
        Path(path).unlink()

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read_bytes(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def free_bytes(self, path: str) -> int:
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize

    def total_bytes(self, path: str) -> int:
        stat = os.statvfs(path)
        return (stat.f_blocks - stat.f_bfree + stat.f_bavail) * stat.f_frsize

    def modified_ms(self, path: str) -> int:
        return Path(path).stat().st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def lock(self, path: str) -> Lock:
        return _RealLock(path)


# Errors of a directory that this process could not have changed, or that its file system never syncs.
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL)


def sync_if_there(files: Files, path: str) -> None:
    """Returns when the file's content is on the disk, or at once when it was removed meanwhile. Raises OSError."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return
    try:
        file.sync()
    finally:
        file.close()


def make_directory(files: Files, path: str) -> None:
    """Makes a directory and what is missing above it; their entries are on the disk when it returns."""
    missing = []
    above = path
    while not files.exists(above):
        missing.append(above)
        above = _parent(above)
    if missing:
        files.makedirs(path)
    # The last one's entry in any case: an earlier try may have made it and then failed.
    for made in missing or [path]:
        try:
            files.sync_dir(_parent(made))
        except OSError as error:
            if missing or error.errno not in _NOT_OURS:
                raise


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
