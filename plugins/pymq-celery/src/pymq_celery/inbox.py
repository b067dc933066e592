"""Inbox: what the loop's thread received for the thread that drains the connection, with a socket for event loops."""

from __future__ import annotations

import os
import queue
import socket
from collections.abc import Callable


class Inbox:
    """Deliveries in the order of their arrival; each is a function that the draining thread calls."""

    def __init__(self) -> None:
        self._deliveries: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._out: socket.socket | None = None
        self._in: socket.socket | None = None
        self._pid = os.getpid()

    def __len__(self) -> int:
        return self._deliveries.qsize()

    def put(self, delivery: Callable[[], None]) -> None:
        """Add a delivery. Any thread may call this."""
        self._deliveries.put(delivery)
        out = self._out
        if out is not None:
            try:
                out.send(b"!")
            except OSError:  # full: it is readable anyway; closed: nothing drains it
                pass

    def get(self, timeout_s: float | None) -> Callable[[], None]:
        """Return the next delivery. Raises queue.Empty after the time; None waits without end."""
        if timeout_s is not None and timeout_s <= 0:
            return self._deliveries.get_nowait()
        return self._deliveries.get(timeout=timeout_s)

    def readable(self) -> socket.socket:
        """Return a socket that is readable when there may be a delivery."""
        if self._in is None:
            self._in, self._out = socket.socketpair()
            self._in.setblocking(False)
            self._out.setblocking(False)
            self._out.send(b"!")  # what is here already
        return self._in

    def clear_readable(self) -> None:
        """Read the socket empty: deliveries from now on make it readable again."""
        if self._in is not None:
            try:
                while self._in.recv(4096):
                    pass
            except BlockingIOError:
                pass

    def wake(self) -> None:
        """Make the socket readable, because deliveries are left."""
        if self._out is not None:
            try:
                self._out.send(b"!")
            except OSError:
                pass

    def close(self) -> None:
        """Close the sockets."""
        for end in (self._in, self._out):
            if end is not None:
                end.close()
        self._in = self._out = None
