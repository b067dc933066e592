"""Syncs whole file systems with Linux's ``syncfs``, in place of tens of thousands of files one by one.

A file and its two directories take three fsyncs, of which each makes the file system write its journal: 65,535 new
queues take minutes, and six seconds of processor time. ``syncfs`` takes as long as the disk needs for the bytes. It
also writes what other processes have changed there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_REPORTS_ERRORS_SINCE = (5, 8)  # before this version of Linux, syncfs succeeds when the disk fails


def sync_file_systems(directories: Iterable[str]) -> bool:
    """Sync the file systems that hold these directories; those that are gone don't count.

    False when the system can't, or when it reports an error, which may be of another file: then nothing is known to be
    on the disk, and the caller syncs each file.
    """
    if not _reports_errors(os.uname().sysname, os.uname().release):
        return False
    by_device: dict[int, str] = {}
    try:
        for directory in directories:
            try:
                by_device.setdefault(os.stat(directory).st_dev, directory)  # noqa: PTH116 - pathlib is slow
            except (FileNotFoundError, NotADirectoryError):
                continue
        for directory in by_device.values():
            _sync_file_system(directory)
    except (OSError, AttributeError):  # AttributeError: a C library without syncfs
        return False
    return True


def _reports_errors(system: str, release: str) -> bool:
    found = re.match(r"(\d+)\.(\d+)", release)
    return system == "Linux" and found is not None and (int(found[1]), int(found[2])) >= _REPORTS_ERRORS_SINCE


def _sync_file_system(directory: str) -> None:
    """Sync the file system that holds a directory. Raises OSError."""
    import ctypes  # noqa: PLC0415 - few stores have so many queues

    syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), directory)
    finally:
        os.close(fd)
