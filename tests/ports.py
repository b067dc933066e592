"""Loopback ports for servers that a test starts again: the system gives them to no connection."""

from __future__ import annotations

import random
import socket

# Most systems give connections ports from 32768 on. A server that returns to such a port may find it taken.
PORT_MIN = 12_000
PORT_MAX = 32_000
_given: set[int] = set()


def free_port_block(below: int = 2, above: int = 1) -> int:
    """Return an unused loopback port p with p-below .. p+above all free (a broker also takes p-2 and p+1)."""
    for _ in range(100):
        port = random.randrange(PORT_MIN, PORT_MAX)
        block = range(port - below, port + above + 1)
        if _given.isdisjoint(block) and all(_is_free(p) for p in block):
            _given.update(block)
            return port
    raise AssertionError(f"no block of free loopback ports found in 100 tries between {PORT_MIN} and {PORT_MAX}")


def _is_free(port: int) -> bool:
    with socket.socket() as attempt:
        try:
            attempt.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
