"""Reads files that hold secrets, and refuses those that others than their owner can use."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pymq.errors import UsageError
from pymq.file_modes import is_open_to_others
from pymq.security.yaml_tree import FILE_SIZE_MAX_BYTES


def read_private_file(
    path: str | os.PathLike[str], size_max_bytes: int = FILE_SIZE_MAX_BYTES, *, is_optional: bool = False
) -> bytes:
    """Return the file's bytes, one more than ``size_max_bytes`` at most. ``~`` stands for the home directory.

    ``is_optional``: a file that is not there counts as empty.

    Raises UsageError when it can't be read, or when others than its owner can use it.
    """
    try:
        with Path(path).expanduser().open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if is_open_to_others(mode):
                raise UsageError(
                    f"{path} has mode {mode:04o}, others than its owner can use it: run chmod 600 {path}, and change "
                    "its secrets if others could have read them"
                )
            return file.read(size_max_bytes + 1)
    except (OSError, RuntimeError) as error:
        if is_optional and isinstance(error, FileNotFoundError):
            return b""
        raise UsageError(
            f"{path} can't be read: {getattr(error, 'strerror', error)}; correct the path or its permissions"
        ) from error


def files_below(folder: str, suffixes: tuple[str, ...]) -> list[str]:
    """Return the files in a folder and in those below it whose names end so, sorted; none when it is missing."""
    found = Path(folder).expanduser().rglob("*")
    return sorted(str(file) for file in found if file.suffix in suffixes and file.is_file())
