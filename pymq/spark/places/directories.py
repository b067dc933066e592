"""Tells URLs of object stores from paths, and refuses them where only a file system will do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pymq.errors import UsageError

# A scheme has two letters or more, for C:/lake is a path.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_url(text: str) -> bool:
    return _URL.match(text) is not None


def local_directory(what: str, text: str) -> Path:
    """Return the path that ``text`` names. Raises UsageError, which begins with ``what``, for the URL of a store."""
    if is_url(text):
        raise UsageError(f"{what} {text} is a URL: name a directory of a file system, also a mounted one")
    return Path(text)
