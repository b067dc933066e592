"""Front: the port that clients connect to. It takes TLS and plain connections, and relays both to the gRPC server.

The gRPC library has no port for both. Here the event loop ends TLS, and bytes go over a loopback connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from pymq.model.hosts import format_address
from pymq.net.listener import Listeners
from pymq.net.tls import ServerTls

BACKLOG = 1024
ALPN = ("h2",)
BUFFER_BYTES_MAX = 256 * 1024  # of what one side has not taken yet


class Front:
    """Relays connections. ``tls`` None: the port takes plain connections only."""

    def __init__(self, tls: ServerTls | None) -> None:
        self._listeners = Listeners(self._accept, tls)
        self._inner = ("", 0)
        self._clients: dict[int, str] = {}  # by the port of our side of the inner connection
        self._relays: set[_Relay] = set()

    async def start(self, host: str, port: int, inner: tuple[str, int]) -> int:
        """Listen on ``host:port`` (0: any free port) and return the port. Raises OSError."""
        self._inner = inner
        return await self._listeners.open(host, port, BACKLOG)

    def stop_accepting(self) -> None:
        """Take no new connection."""
        self._listeners.close()

    async def stop(self) -> None:
        """End all connections."""
        self._listeners.close()
        for relay in list(self._relays):
            relay.close()

    @property
    def connection_count(self) -> int:
        """The number of open connections of clients."""
        return len(self._relays)

    def client_of(self, inner_peer: str) -> str:
        """Return the client's "host:port" for the address that the gRPC server sees, ``ipv4:127.0.0.1:PORT``."""
        port = inner_peer.rpartition(":")[2]
        return self._clients.get(int(port), "") if port.isdigit() else ""

    def _accept(self) -> asyncio.BaseProtocol:
        return _Relay(self._inner, self._opened, self._closed)

    def _opened(self, relay: _Relay) -> None:
        self._relays.add(relay)
        self._clients[relay.inner_port] = relay.client

    def _closed(self, relay: _Relay) -> None:
        self._relays.discard(relay)
        self._clients.pop(relay.inner_port, None)


class _Side(asyncio.Protocol):
    """One side of a relay: what it receives is written to the other one, which can make it wait."""

    __slots__ = ("other", "transport")

    def __init__(self, other: _Side | None) -> None:
        self.transport: asyncio.Transport | None = None
        self.other = other

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self.transport.set_write_buffer_limits(BUFFER_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class _Relay(_Side):
    """A client's connection."""

    __slots__ = ("_closed", "_early", "_inner", "_opened", "_opening", "client", "inner_port")

    def __init__(
        self, inner: tuple[str, int], opened: Callable[[_Relay], None], closed: Callable[[_Relay], None]
    ) -> None:
        super().__init__(None)
        self.client = ""
        self.inner_port = 0
        self._inner = inner
        self._opened = opened
        self._closed = closed
        self._early = b""  # what came before the inner connection was there
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.client = format_address(*transport.get_extra_info("peername")[:2])
        self._opening = asyncio.get_running_loop().create_task(self._open())

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            super().data_received(data)
            return
        self._early += data
        if self.transport is not None:
            self.transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._closed(self)

    def close(self) -> None:
        """End the connection."""
        if self.transport is not None:
            self.transport.close()

    async def _open(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            transport, inner = await loop.create_connection(lambda: _Side(self), *self._inner)
        except OSError:
            self.close()
            return
        if self.transport is None:  # the client has left meanwhile
            transport.close()
            return
        self.other = inner
        self.inner_port = transport.get_extra_info("sockname")[1]
        self._opened(self)
        self._opening = None
        if self._early:
            transport.write(self._early)
            self._early = b""
            self.transport.resume_reading()
