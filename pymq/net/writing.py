"""Writes the frames that a turn made for one connection."""

from __future__ import annotations

import asyncio

JOINED_BYTES_MAX = 32 * 1024  # on average; copying larger frames together costs more than a write of several pieces


def write_frames(transport: asyncio.Transport, frames: list[bytes], size_bytes: int) -> None:
    """Write frames of ``size_bytes`` in all with one call."""
    if len(frames) == 1:
        transport.write(frames[0])
    elif size_bytes > len(frames) * JOINED_BYTES_MAX:
        transport.writelines(frames)
    else:
        transport.write(b"".join(frames))
