"""Inbox: what the loop's thread received for the thread that drains the connection, with a socket for event loops."""

from __future__ import annotations

import contextlib
import queue
import socket
from collections.abc import Callable

Delivery = Callable[[], None]


class Inbox:
    """Deliveries in the order of their arrival; each is a function that the draining thread calls."""

    def __init__(self) -> None:
        self._deliveries: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
        self._ends: tuple[socket.socket, socket.socket] | None = None

    def __len__(self) -> int:
        return self._deliveries.qsize()

    def put(self, delivery: Delivery) -> None:
        """Add a delivery. Any thread may call this."""
        self._deliveries.put(delivery)
        self.wake()

    def get(self, timeout_s: float | None) -> Delivery:
        """Return the next delivery. Raises queue.Empty after the time; None waits without end."""
        return self._deliveries.get(timeout_s is None or timeout_s > 0, timeout_s)

    def readable(self) -> socket.socket:
        """Return a socket that is readable when there may be a delivery."""
        if self._ends is None:
            self._ends = socket.socketpair()
            for end in self._ends:
                end.setblocking(False)
            self.wake()  # of what is here already
        return self._ends[0]

    def wake(self) -> None:
        """Make the socket readable."""
        if self._ends is not None:
            with contextlib.suppress(OSError):  # full, so it is readable; or closed, so nobody waits
                self._ends[1].send(b"!")

    def clear_readable(self) -> None:
        """Read the socket empty: deliveries from now on make it readable again."""
        if self._ends is not None:
            with contextlib.suppress(BlockingIOError):
                while self._ends[0].recv(4096):
                    pass

    def close(self) -> None:
        """Close the socket."""
        for end in self._ends or ():
            end.close()
