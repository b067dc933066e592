"""Codecs of the files that an export writes, and their levels."""

from __future__ import annotations

import re

from pymq.errors import UsageError

COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4", "none")
COMPRESSION_LEVELS = {"zstd": range(1, 23), "gzip": range(1, 10)}
# Level 2 needs up to a quarter more CPU for bodies of text or JSON, and its files differ by a few percent, up or down.
ZSTD_LEVEL = 1


def parse_compression(text: str) -> tuple[str, int | None]:
    """Return codec and level of ``zstd``, ``zstd:1`` and the like. Raises UsageError."""
    codec, colon, level = text.partition(":")
    if codec not in COMPRESSIONS:
        raise UsageError(f"compression {codec!r} is unknown: use one of {', '.join(COMPRESSIONS)}")
    if not colon:
        return codec, None
    levels = COMPRESSION_LEVELS.get(codec)
    if levels is None:
        raise UsageError(f"compression {text!r} has a level, which {codec} doesn't take: write {codec}")
    if not re.fullmatch("[0-9]{1,2}", level) or int(level) not in levels:
        raise UsageError(f"compression level {level!r} is unknown: {codec} takes {levels[0]} to {levels[-1]}")
    return codec, int(level)
