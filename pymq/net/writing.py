"""Writes the frames that a turn made for one connection."""

from __future__ import annotations

import asyncio

JOINED_BYTES_MAX = 32 * 1024  # on average; copying larger frames together costs more than a write of several pieces
# Answers of this size are written at once and not at the turn's end, so that the budget counts them in the same turn.
EARLY_FLUSH_BYTES = 32 * 1024
# A write of this size to a peer that has read everything is not counted in the memory budget, which saves a few calls a
# turn. By the default connectionCountMax, these writes together stay below 10 MiB.
UNCOUNTED_BYTES_MAX = 1024


def write_frames(transport: asyncio.Transport, frames: list[bytes], size_bytes: int) -> None:
    """Write frames of ``size_bytes`` in all with one call."""
    if len(frames) == 1:
        transport.write(frames[0])
    elif size_bytes > len(frames) * JOINED_BYTES_MAX:
        transport.writelines(frames)
    else:
        transport.write(b"".join(frames))
