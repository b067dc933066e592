"""Connections between a client and a server on the same event loop: the same bytes and limits, but no socket.

Both sides are asyncio protocols as on a socket, so a server's checks, limits and counters see no difference.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

ProtocolT = TypeVar("ProtocolT", bound=asyncio.Protocol)
Accept = Callable[[], asyncio.Protocol]  # makes the server's side of a connection

HOST = "127.0.0.1"
WRITE_BUFFER_HIGH_BYTES = 64 * 1024  # of a side that sets no limit


async def open_connection(
    accept: Accept | None, make: Callable[[], ProtocolT], host: str, port: int, tls: ssl.SSLContext | None
) -> tuple[asyncio.BaseTransport, ProtocolT]:
    """Connect to ``accept`` in this process; None: to ``host:port`` by a socket, with TLS if ``tls`` is given.

    Raises OSError as sockets do.
    """
    loop = asyncio.get_running_loop()
    if accept is None:
        return await loop.create_connection(make, host, port, ssl=tls)
    client, server = make(), accept()
    near, far = _Side(loop, client), _Side(loop, server)
    near.other, far.other = far, near
    server.connection_made(far)
    client.connection_made(near)
    return near, client


class _Side(asyncio.Transport):
    """One side's transport. What is written to it waits at the other side until the next round of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": (HOST, 0), "sockname": (HOST, 0)})
        self.other: _Side
        self._loop = loop
        self._protocol = protocol
        self._arrived: list[bytes] = []
        self._arrived_bytes = 0
        self._high_bytes = WRITE_BUFFER_HIGH_BYTES
        self._is_delivering = self._is_reading_paused = self._is_writing_paused = False
        self._is_closing = self._is_over = False

    # -- asyncio.Transport -----------------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self._is_closing or not data:
            return
        self.other.take(bytes(data))
        if not self._is_writing_paused and self.other._arrived_bytes > self._high_bytes:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, pieces: Iterable[Any]) -> None:
        self.write(b"".join(pieces))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_bytes = WRITE_BUFFER_HIGH_BYTES if high is None else high

    def get_write_buffer_size(self) -> int:
        return self.other._arrived_bytes

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        self._is_reading_paused = False
        self.schedule()

    def is_reading(self) -> bool:
        return not self._is_reading_paused and not self._is_closing

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """End the connection once the other side has taken what was written."""
        if not self._is_closing:
            self._is_closing = True
            self.other.schedule()

    def abort(self) -> None:
        """End the connection now."""
        self._is_closing = True
        self.other._arrived.clear()
        self.other._arrived_bytes = 0
        self.other.schedule()

    # -- between the sides -----------------------------------------------------------------------------------------

    def take(self, data: bytes) -> None:
        """Keep what the other side wrote."""
        self._arrived.append(data)
        self._arrived_bytes += len(data)
        self.schedule()

    def schedule(self) -> None:
        """Look in the next round at what arrived."""
        if not self._is_delivering:
            self._is_delivering = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_delivering = False
        if self._is_closing:
            self._arrived.clear()
            self._arrived_bytes = 0
        if self._arrived and not self._is_reading_paused:
            data = self._arrived[0] if len(self._arrived) == 1 else b"".join(self._arrived)
            self._arrived.clear()
            self._arrived_bytes = 0
            self.other.end_pause()
            self._protocol.data_received(data)
        if not self._arrived and (self._is_closing or self.other._is_closing):
            self._end()
            self.other._end()

    def end_pause(self) -> None:
        """Let the protocol write again: the other side has taken all."""
        if self._is_writing_paused:
            self._is_writing_paused = False
            self._protocol.resume_writing()

    def _end(self) -> None:
        if not self._is_over:
            self._is_over = self._is_closing = True
            self._protocol.connection_lost(None)
