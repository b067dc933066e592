"""A secret that programs of one user on one machine share: a file in the home directory, which the first one makes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from pymq.file_modes import DIRECTORY_MODE, FILE_MODE


def local_path(name: str) -> str:
    """Return where the file with this name is."""
    return str(Path.home() / ".pymq" / "raft" / name)


def absolute_path(path: str) -> str:
    """Return a path of the settings with ``~`` as the home directory."""
    return str(Path(path).expanduser().absolute())


def make_once(path: str, content: bytes) -> None:
    """Make the file with this content, for its user alone, unless it is there. Of several processes one makes it.

    Raises OSError.
    """
    target = Path(path)
    if target.exists():
        return
    target.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    temporary.touch(FILE_MODE)
    try:
        temporary.write_bytes(content)
        with suppress(FileExistsError):
            os.link(temporary, target)
    finally:
        temporary.unlink()
