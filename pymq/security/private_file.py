"""Reads files that hold secrets, and refuses those that others than their owner can use."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from pymq.errors import UsageError
from pymq.security.yaml_tree import FILE_SIZE_MAX_BYTES

_FOR_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def read_private_file(path: str | os.PathLike[str]) -> bytes:
    """Return the file's bytes, one more than FILE_SIZE_MAX_BYTES at most. ``~`` stands for the home directory.

    Raises UsageError when it can't be read, or when others than its owner can use it.
    """
    try:
        with Path(path).expanduser().open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & _FOR_OTHERS:
                raise UsageError(
                    f"{path} has mode {mode:04o}, others than its owner can use it: run chmod 600 {path}, and change "
                    "its secrets if others could have read them"
                )
            return file.read(FILE_SIZE_MAX_BYTES + 1)
    except (OSError, RuntimeError) as error:
        raise UsageError(
            f"{path} can't be read: {getattr(error, 'strerror', error)}; correct the path or its permissions"
        ) from error
