"""Modes of files and directories that are their owner's alone: what PyMQ makes, and what may hold secrets."""

from __future__ import annotations

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
_OTHERS = 0o077


def is_open_to_others(mode: int) -> bool:
    """True for permission bits with which others than the owner can use a file."""
    return bool(mode & _OTHERS)
