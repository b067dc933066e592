"""Locks on files between processes: POSIX's fcntl, or msvcrt on Windows. A lock ends with its descriptor's process.

The broker locks byte 0 of ``store/lock`` as Java's FileChannel does, so that PyMQ and RocketMQ refuse each other's
directories. Windows knows no shared locks: there a reader keeps other readers out as well.
"""

from __future__ import annotations

import errno
import os
from importlib import import_module
from typing import Any

# EDEADLK: what msvcrt reports for a taken lock on some versions of Windows.
_TAKEN = (errno.EACCES, errno.EAGAIN, errno.EDEADLK)


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


_fcntl: Any = _module("fcntl")
_msvcrt: Any = _module("msvcrt")


def try_lock_byte(fd: int, *, is_shared: bool = False) -> bool:
    """Lock byte 0 of an open file; return False when another process holds it. Raises OSError for other failures.

    A shared lock lets others have shared ones. The byte need not exist.
    """
    if _fcntl is None:
        return _try_lock_on_windows(fd)
    kind = _fcntl.LOCK_SH if is_shared else _fcntl.LOCK_EX
    try:
        _fcntl.lockf(fd, kind | _fcntl.LOCK_NB, 1, 0)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def try_lock_file(fd: int) -> bool:
    """Lock a whole open file, also against other descriptors of this process; return False when it is taken."""
    if _fcntl is None:
        return _try_lock_on_windows(fd)
    try:
        _fcntl.flock(fd, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _try_lock_on_windows(fd: int) -> bool:
    place = os.lseek(fd, 0, os.SEEK_CUR)
    os.lseek(fd, 0, os.SEEK_SET)  # msvcrt locks at the descriptor's position
    try:
        _msvcrt.locking(fd, _msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    finally:
        os.lseek(fd, place, os.SEEK_SET)
    return True
