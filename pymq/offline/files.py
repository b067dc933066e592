"""Opens a store directory for reading only: nothing here can change or create a file, or touch its mtime."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pymq.errors import NotFoundError, StoreError
from pymq.file_lock import try_lock_byte
from pymq.store.disk.fs import File, RealFile, RealFiles, is_locked_here
from pymq.store.disk.regular_files import open_regular
from pymq.store.disk.workers_file import workers_path

READ_ONLY = "a tool that only reads asked for a write"


class NoWrites:
    """Files of a tool that only reads: any change is a bug and fails."""

    __slots__ = ()

    def makedirs(self, path: str) -> None:
        raise AssertionError(READ_ONLY)

    def replace(self, source: str, target: str) -> None:
        raise AssertionError(READ_ONLY)

    def remove(self, path: str) -> None:
        raise AssertionError(READ_ONLY)

    def remove_tree(self, path: str) -> None:
        raise AssertionError(READ_ONLY)


class ReadOnlyFiles(NoWrites, RealFiles):
    """The operating system's files, opened read-only."""

    __slots__ = ()

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        assert not create and size is None, READ_ONLY
        return RealFile(path, open_regular(path, os.O_RDONLY))


def check_is_store(root: str, log_directory: str) -> None:
    """Raise NotFoundError when this is not a broker's directory."""
    if not Path(root).is_dir():
        raise NotFoundError(f"{root} is not a directory: name a broker's storePathRootDir")
    if not Path(log_directory).is_dir() and Path(workers_path(root)).exists():
        raise NotFoundError(
            f"{root} belongs to several workers: name one of its directories, for example {root}/worker-0"
        )
    if not Path(log_directory).is_dir():
        raise NotFoundError(
            f"{log_directory} does not exist, so {root} is not a store: name a broker's storePathRootDir, and with "
            f"--commitlog its storePathCommitLog when that is elsewhere"
        )


@contextmanager
def held(root: str, *, while_running: bool = False) -> Iterator[bool]:
    """Keep brokers from starting on ``root`` during the block, without changing its ``lock`` file.

    It takes a shared lock on the byte that a broker locks. Without a ``lock`` file it locks nothing. Yields whether a
    broker runs there now. A running broker raises StoreError, unless ``while_running`` allows it.
    """
    path = f"{root}/lock"
    running = is_locked_here(path)
    fd = None
    try:
        if not running:
            try:
                fd = open_regular(path, os.O_RDONLY)
                running = not try_lock_byte(fd, is_shared=True)
            except FileNotFoundError:
                pass
        if running and not while_running:
            raise StoreError(
                f"a broker holds {path}: stop it first, because its files change during a read; --while-running reads "
                "all the same, without the newest part"
            )
        yield running
    finally:
        if fd is not None:
            os.close(fd)
