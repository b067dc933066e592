"""Exchanges two directories in one step, so that a reader finds either one or the other and never a mixture."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pymq.errors import UsageError
from pymq.spark.places.object_paths import ObjectPath

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # Linux, <linux/fs.h>
_RENAME_SWAP = 2  # macOS, <stdio.h>


def exchange(one: Path, other: Path) -> None:
    """Exchange two directories of one file system. Raises OSError where the file system or the system can't."""
    call = _call()
    if call is None:
        raise OSError(f"{sys.platform} has no call that exchanges directories")
    if call(os.fsencode(one), os.fsencode(other)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one))


def check_exchange(folder: Path | ObjectPath) -> None:
    """Try it with two new directories below ``folder``. Raises UsageError if it doesn't work there."""
    if isinstance(folder, ObjectPath):
        raise UsageError(
            f"{folder} is in an object store, which can't exchange two directories: leave its files as they are"
        )
    pair = folder / "exchange-one", folder / "exchange-other"
    try:
        for path in pair:
            path.mkdir(exist_ok=True)
        exchange(*pair)
    except OSError as error:
        raise UsageError(
            f"the file system of {folder} can't exchange two directories in one step ({error.strerror or error}): "
            "compact a copy on another one, such as ext4, xfs or btrfs"
        ) from error
    finally:
        for path in pair:
            path.rmdir()


def _call() -> Callable[[bytes, bytes], int] | None:
    if sys.platform == "win32":
        return None
    library: Any = ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "renameat2"):
        return lambda one, other: library.renameat2(_AT_FDCWD, one, _AT_FDCWD, other, _RENAME_EXCHANGE)
    if hasattr(library, "renamex_np"):
        return lambda one, other: library.renamex_np(one, other, _RENAME_SWAP)
    return None
