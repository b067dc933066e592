"""The file seam: two protocols for everything the store does with a disk, and their real implementation.

A simulated disk (``pymq.store.disk.memory_fs``) implements the same protocols, so that recovery can be tested against
lost and torn writes. Both report errors of the system as ``OSError``.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import stat
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

from pymq.errors import StoreError
from pymq.file_lock import try_lock_byte
from pymq.file_modes import DIRECTORY_MODE
from pymq.store.disk import regular_files
from pymq.store.disk.disk_errors import lacked_room
from pymq.store.disk.regular_files import FileKind, odd_kind, open_regular
from pymq.store.disk.whole_sync import sync_file_systems

Buffer = bytes | bytearray | memoryview

IOV_COUNT_MAX = 1024  # buffers the kernel takes in one vectored write
_fdatasync = getattr(os, "fdatasync", os.fsync)

# A file system joins syncs that run at the same time: 20,000 files of queues take an eighth of the time.
SYNC_THREAD_COUNT = 8
SYNCED_TOGETHER_MIN = 64
WHOLE_SYNC_MIN = 1000  # so many files and directories are synced with their whole file system, where that is possible


class Begin(NamedTuple):
    """The first bytes of a file, its size, and whether anything but a hole may follow them."""

    data: bytes
    size_bytes: int
    has_more: bool


class File(Protocol):
    """One open file. Positions and sizes are in bytes. Every read and write names its position: there is no cursor."""

    path: str

    def pread(self, at: int, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the file's end."""
        ...

    def pread_into(self, at: int, room: memoryview) -> int:
        """Read bytes into ``room``; return how many there were, fewer than it has only at the file's end."""
        ...

    def will_read(self, at: int, size: int) -> None:
        """Let the system fetch bytes that are read soon, where it can."""
        ...

    def pwrite(self, at: int, data: Buffer) -> None:
        """Write all of ``data`` or raise OSError; then any prefix may have been written."""
        ...

    def pwritev(self, at: int, buffers: Sequence[Buffer]) -> None:
        """Write buffers that follow each other in the file, as :meth:`pwrite` does."""
        ...

    def view(self) -> memoryview:
        """Return the whole file, read-only; it shows later writes too. Valid while the file keeps its size."""
        ...

    def writable_view(self) -> memoryview:
        """Return the whole file, writable. Only write to ranges reserved with :meth:`allocate`."""
        ...

    def release(self, view: memoryview) -> None:
        """Let the system reclaim the memory behind a view; its content stays."""
        ...

    def allocate(self, at: int, size: int) -> None:
        """Reserve disk space for a range, so that writing it can't fail for lack of space."""
        ...

    def next_data(self, at: int) -> int | None:
        """Return the first position from ``at`` on that may hold nonzero bytes, None when there is none."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None:
        """Shorten the file to ``size`` bytes, or extend it with zeros that take no space."""
        ...

    def sync(self) -> None:
        """Bring the content to the disk; returns when it is there."""
        ...

    def close(self) -> None:
        """Close the descriptor. Existing views stay readable."""
        ...


def put_file(files: Files, path: str, content: bytes) -> None:
    """Put a small file in the place of another one: the old content is there, or the new one. Raises OSError.

    The name is durable once the directory is synced.
    """
    regular_files.check_whole_size(path, len(content))  # else it could not be read again
    temporary = f"{path}.tmp"
    with closing(files.open(temporary, create=True)) as file:
        file.truncate(0)
        file.pwrite(0, content)
        file.sync()
    files.replace(temporary, path)


class Lock(Protocol):
    """A held directory lock."""

    def release(self) -> None: ...


class Files(Protocol):
    """One file system. Files are opened by the rules of :mod:`pymq.store.disk.regular_files`: else OddFileError."""

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        """Open a file for reading and writing. ``create`` makes a missing one, ``size`` then extends it sparsely."""
        ...

    def begin_of(self, path: str, size: int) -> Begin:
        """Return the first ``size`` bytes of a file that need not be open. ``size`` is a number of whole pages.

        Raises FileNotFoundError, OSError.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def listdir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none when the directory doesn't exist."""
        ...

    def entries(self, path: str) -> dict[str, FileKind]:
        """Return the names of :meth:`listdir`, and what each is. Links are not followed."""
        ...

    def kind(self, path: str) -> FileKind | None:
        """Return what stands at a path, without following a link; None for nothing."""
        ...

    def makedirs(self, path: str) -> None:
        """Make a directory and its missing parents, for this process's user alone. A link in its place is refused."""
        ...

    def mode(self, path: str) -> int:
        """Return the permission bits of a file or directory."""
        ...

    def replace(self, source: str, target: str) -> None:
        """Rename ``source`` to ``target`` in one step, replacing it."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_dir(self, path: str) -> None:
        """Bring the directory's entries to the disk; returns when they are there."""
        ...

    def sync_together(self, paths: Sequence[str], directories: Sequence[str]) -> None:
        """Sync the content of all these files, then the directories; what is not there is left out. Raises OSError."""
        ...

    def read_bytes(self, path: str) -> bytes: ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int:
        """Return the disk's used and free bytes, without the administrator's reserve."""
        ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        """Set the time of the last change to ``modified_ms`` (Unix time)."""
        ...

    def lock(self, path: str) -> Lock:
        """Take the lock file. Raises StoreError when another process, or this one, holds it."""
        ...


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def pread(self, at: int, size: int) -> bytes:
        return os.pread(self._fd, size, at)

    def pread_into(self, at: int, room: memoryview) -> int:
        return os.preadv(self._fd, [room], at)

    def will_read(self, at: int, size: int) -> None:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, at, size, os.POSIX_FADV_WILLNEED)

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
                # Rare (a full disk, a signal): pwrite writes the rest, or raises the real error.
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
        return _next_data(self._fd, at)

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


def _next_data(fd: int, at: int) -> int | None:
    try:
        return os.lseek(fd, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
            return at if at < os.fstat(fd).st_size else None  # a file system without holes
        raise


def _progress(written: int, path: str) -> int:
    if written <= 0:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)
    return written


class _RealLock:
    """A POSIX record lock on byte 0. RocketMQ's broker takes the same lock, so the two exclude each other."""

    # POSIX locks don't exclude a second open in the same process; this set does.
    held: ClassVar[set[str]] = set()

    def __init__(self, path: str) -> None:
        self._key = str(Path(path).resolve())
        if self._key in self.held:
            raise _lock_taken(path)
        self._fd = open_regular(path, os.O_RDWR | os.O_CREAT)
        try:
            is_mine = try_lock_byte(self._fd)
        except OSError:
            os.close(self._fd)
            raise
        if not is_mine:
            os.close(self._fd)
            raise _lock_taken(path)
        try:
            os.pwrite(self._fd, b"lock", 0)
        except OSError as error:
            if not lacked_room(error):  # the content says nothing: byte 0 need not exist to be locked
                os.close(self._fd)
                raise
        self.held.add(self._key)

    def release(self) -> None:
        if self._key in self.held:
            self.held.discard(self._key)
            os.close(self._fd)


def is_locked_here(path: str) -> bool:
    """True when this process holds the lock file.

    POSIX locks can't tell their own process, and opening and closing the file here would release the lock.
    """
    return str(Path(path).resolve()) in _RealLock.held


def _lock_taken(path: str) -> StoreError:
    return StoreError(f"{path} is locked: another broker uses this directory; stop it or choose another directory")


class RealFiles:
    """The operating system's file system."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        flags, is_new = os.O_RDWR, False
        if create:
            try:
                fd, is_new = open_regular(path, flags | os.O_CREAT | os.O_EXCL), True
            except FileExistsError:
                fd = open_regular(path, flags | os.O_CREAT)
        else:
            fd = open_regular(path, flags)
        file = RealFile(path, fd)
        if create and size is not None and (is_new or file.size() < size):
            try:
                file.truncate(size)
            except OSError:
                file.close()
                raise
        return file

    def begin_of(self, path: str, size: int) -> Begin:
        fd = open_regular(path, os.O_RDONLY)
        try:
            # Its blocks would not tell what follows: a file system that compresses counts fewer.
            return Begin(os.pread(fd, size, 0), os.fstat(fd).st_size, _next_data(fd, size) is not None)
        finally:
            os.close(fd)

    def exists(self, path: str) -> bool:
        return os.access(path, os.F_OK)

    def is_dir(self, path: str) -> bool:
        return Path(path).is_dir()

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))  # noqa: PTH208 - pathlib makes an object for each
        except (FileNotFoundError, NotADirectoryError):
            return []

    def entries(self, path: str) -> dict[str, FileKind]:
        return regular_files.entries(path)

    def kind(self, path: str) -> FileKind | None:
        return regular_files.kind_at(path)

    def makedirs(self, path: str) -> None:
        try:
            os.mkdir(path, DIRECTORY_MODE)  # noqa: PTH102 - a store with many queues does little else
        except FileExistsError:
            if (kind := regular_files.kind_at(path)) not in (FileKind.DIRECTORY, None):
                raise odd_kind(path, kind, FileKind.DIRECTORY) from None
        except FileNotFoundError:
            self._make_missing(path)

    def _make_missing(self, path: str) -> None:
        # Not Path.mkdir(parents=True): that gives the parents the default mode.
        missing = [each for each in (Path(path), *Path(path).parents) if not each.is_dir()]
        for each in reversed(missing):
            each.mkdir(DIRECTORY_MODE, exist_ok=True)

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

    def sync_together(self, paths: Sequence[str], directories: Sequence[str]) -> None:
        count = len(paths) + len(directories)
        if count >= WHOLE_SYNC_MIN and sync_file_systems({*directories, *map(_parent, paths)}):
            return
        if count < SYNCED_TOGETHER_MIN:
            sync_one_by_one(self, paths, directories)
            return
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - few stores have so many queues

        with ThreadPoolExecutor(SYNC_THREAD_COUNT) as threads:
            for files, dirs in ((paths, ()), ((), directories)):
                shares = [
                    (files[at::SYNC_THREAD_COUNT], dirs[at::SYNC_THREAD_COUNT]) for at in range(SYNC_THREAD_COUNT)
                ]
                for done in [threads.submit(sync_one_by_one, self, *share) for share in shares]:
                    done.result()

    def read_bytes(self, path: str) -> bytes:
        return regular_files.read_whole(path)

    def free_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return found.f_bavail * found.f_frsize

    def total_bytes(self, path: str) -> int:
        found = os.statvfs(path)
        return (found.f_blocks - found.f_bfree + found.f_bavail) * found.f_frsize

    def modified_ms(self, path: str) -> int:
        return Path(path).stat().st_mtime_ns // 1_000_000

    def mode(self, path: str) -> int:
        return stat.S_IMODE(Path(path).stat().st_mode)

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def lock(self, path: str) -> Lock:
        return _RealLock(path)


# Errors for a directory that this process may not change, or that its file system can't sync.
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL)


def sync_if_there(files: Files, path: str) -> None:
    """Sync the file's content; does nothing when the file no longer exists. Raises OSError."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return
    try:
        file.sync()
    finally:
        file.close()


def sync_one_by_one(files: Files, paths: Sequence[str], directories: Sequence[str]) -> None:
    """See :meth:`Files.sync_together`."""
    for path in paths:
        sync_if_there(files, path)
    for directory in directories:
        _sync_dir_if_there(files, directory)


def _sync_dir_if_there(files: Files, path: str) -> None:
    try:
        files.sync_dir(path)
    except (FileNotFoundError, NotADirectoryError):
        return


def make_directory(files: Files, path: str) -> None:
    """Make a directory and its missing parents. Their entries are on the disk on return."""
    missing = []
    above = path
    while not files.exists(above):
        missing.append(above)
        above = _parent(above)
    if missing:
        files.makedirs(path)
    # Sync the last one's entry in any case: an earlier try may have made the directory and then failed.
    for made in missing or [path]:
        try:
            files.sync_dir(_parent(made))
        except OSError as error:
            if missing or error.errno not in _NOT_OURS:
                raise


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")
