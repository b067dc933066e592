"""What a peer had sent before its connection broke, still in the system's buffer."""

from __future__ import annotations

import asyncio
import os
from typing import Any

# As much as one ordinary read takes: a peer gets no more served by breaking its connection than by keeping it.
UNREAD_MAX_BYTES = 256 * 1024


def take_unread(transport: asyncio.BaseTransport | None) -> bytes:
    """Up to UNREAD_MAX_BYTES that wait at the socket of a transport that fell to an error; b"" when there are none.

    An event loop closes a transport that could not write, and throws away what it has not read yet. The system keeps
    that readable, also after the peer's reset. To be called in ``connection_lost``, the last moment the socket is open.
    """
    endpoint: Any = None if transport is None else transport.get_extra_info("socket")
    if endpoint is None or endpoint.fileno() < 0:
        return b""
    try:
        return os.read(endpoint.fileno(), UNREAD_MAX_BYTES)
    except OSError:  # nothing there, or nothing but the error itself
        return b""
