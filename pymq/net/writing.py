"""Writes the frames that a turn made for one connection, and tells how much of them the peer has taken."""

from __future__ import annotations

import array
import asyncio

try:  # not on Windows
    from fcntl import ioctl
    from termios import TIOCOUTQ
except ImportError:
    ioctl = None  # type: ignore[assignment]

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


def left_to_send(transport: asyncio.Transport) -> int:
    """Return how many bytes the peer's system has not taken, in the transport and in this system's buffer.

    The transport alone does not tell whether the peer reads: this system takes up to 4 MiB at once from it, and the
    next bytes when a third of them has left.
    """
    left_bytes, endpoint = transport.get_write_buffer_size(), transport.get_extra_info("socket")
    if ioctl is None or endpoint is None or endpoint.fileno() < 0:
        return left_bytes
    queued = array.array("i", [0])
    try:
        ioctl(endpoint.fileno(), TIOCOUTQ, queued, True)
    except OSError:  # a system without it for sockets
        return left_bytes
    return left_bytes + queued[0]
