"""Reads what a peer sent before its connection broke, from the system's buffer."""

from __future__ import annotations

import asyncio
import os
from typing import Any

# One ordinary read: a peer gets no more served by breaking its connection than by keeping it.
UNREAD_MAX_BYTES = 256 * 1024


def take_unread(transport: asyncio.BaseTransport | None) -> bytes:
    """Read up to UNREAD_MAX_BYTES that wait at the socket of a failed transport; b"" when there are none.

    An event loop closes a transport that could not write, and discards what it has not read yet. The system keeps those
    bytes readable, even after the peer's reset. Call this in ``connection_lost``, the last moment the socket is open.
    """
    if transport is None or transport.get_extra_info("sslcontext") is not None:
        return b""  # inside TLS they are no use
    endpoint: Any = transport.get_extra_info("socket")
    if endpoint is None or endpoint.fileno() < 0:
        return b""
    try:
        return os.read(endpoint.fileno(), UNREAD_MAX_BYTES)
    except OSError:  # no bytes, or only the error itself
        return b""
