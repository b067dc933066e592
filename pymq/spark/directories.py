"""Directories that PyMQ itself writes to: paths of a file system, where a rename is one step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pymq.errors import UsageError

# A scheme has two letters or more, for C:/lake is a path.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def local_directory(what: str, text: str) -> Path:
    """Returns the path that ``text`` names. Raises UsageError, which begins with ``what``, for the URL of a store."""
    if _URL.match(text):
        raise UsageError(
            f"{what} {text} is a URL, and its commits need the renames of a file system: name a mounted directory; "
            "for object stores write a table of Delta Lake or Iceberg (docs/spark.md)"
        )
    return Path(text)
