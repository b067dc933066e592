"""Byte streams to peers on the event loop, for replication: implements :mod:`pymq.wire.streams` with sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from pymq.errors import PymqError
from pymq.model.hosts import format_address, parse_address
from pymq.net.buffer_account import BufferAccount
from pymq.net.client import RemotingClient
from pymq.net.descriptors import takes_reserved
from pymq.net.listener import Listeners, OnRefused
from pymq.net.memory_budget import HA_STREAMS, MemoryBudget
from pymq.net.os_errors import os_error_text
from pymq.net.tls import ServerTls, handshake_text
from pymq.wire.command import Command
from pymq.wire.streams import StreamHandler

CONNECT_TIMEOUT_S = 3.0
BACKLOG = 128
CLOSE_TIMEOUT_S = 1.0  # time for a peer to take what was written before a close
# "Little is unsent" means: less than the low mark after it was more than the high one.
WRITE_HIGH_BYTES = 512 * 1024
WRITE_LOW_BYTES = 128 * 1024


class SocketStream(asyncio.Protocol):
    """A :class:`~pymq.wire.streams.Stream` over one TCP connection. Passes asyncio's calls on to its handler."""

    def __init__(
        self, handler: StreamHandler, on_lost: Callable[[SocketStream], None], budget: MemoryBudget | None = None
    ) -> None:
        """``budget`` counts what a peer that opened the connection has not read; None for one that was opened here."""
        self.peer_address = ""
        self.host = ""
        self._budget = budget
        self._is_counted = False  # by the budget, as a connection of its host
        self._buffers = BufferAccount(budget, HA_STREAMS) if budget is not None else None
        self._handler = handler
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._is_wanted = False  # the handler waits until little is unsent
        self._is_closing = False

    # -- Stream ----------------------------------------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def write(self, data: bytes | memoryview) -> None:
        transport, buffers = self._transport, self._buffers
        if transport is None or self._is_closing:
            return
        if buffers is None:
            transport.write(data)
            return
        unread = transport.get_write_buffer_size()
        transport.write(data)
        buffers.note_write(unread, len(data))  # over the budget, it may close this stream
        self.held_bytes()

    def held_bytes(self) -> int:
        """Measure and return what the peer has not read."""
        if self._buffers is None or self._transport is None:
            return 0
        self._buffers.measure_unread(self._transport)
        return self._buffers.unread

    def abort(self, reason: str) -> None:
        """Close at once, without the unsent bytes."""
        self._is_closing = True
        if self._buffers is not None:
            self._buffers.release()
        if self._transport is not None:
            self._transport.abort()

    def want_writable(self) -> None:
        if not self._is_wanted:
            self._is_wanted = True
            if not self._is_paused:
                asyncio.get_running_loop().call_soon(self._tell_writable)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if self._transport is not None:
                self._transport.close()  # after the unsent bytes
                if self.unsent_bytes:
                    asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self._transport.abort)

    # -- asyncio calls these ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]
        host, port, *_ = transport.get_extra_info("peername") or ("127.0.0.1", 0)
        self.peer_address, self.host = format_address(host, port), host
        endpoint = transport.get_extra_info("socket")
        if endpoint is not None:
            endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_LOW_BYTES)  # type: ignore[attr-defined]
        if self._is_closing or (self._budget is not None and not self._is_admitted(self._budget, transport)):
            transport.close()
        else:
            self._handler.opened(self)

    def _is_admitted(self, budget: MemoryBudget, transport: asyncio.BaseTransport) -> bool:
        """Count a stream that a peer has opened. Return False when its host has too many connections."""
        if takes_reserved(transport) or not budget.hosts.has_room(self.host):
            return False
        budget.hosts.opened(self.host)
        self._is_counted = True
        return True

    def data_received(self, data: bytes) -> None:
        if not self._is_closing:
            self._handler.received(data)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._is_wanted:
            asyncio.get_running_loop().call_soon(self._tell_writable)

    def _tell_writable(self) -> None:
        if self._is_wanted and not self._is_paused and not self._is_closing:
            self._is_wanted = False
            self._handler.writable()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if self._is_closing:
            why = "it was closed here"
        elif error is None:
            why = "the peer closed it"
        else:
            why = os_error_text(error)
        self._is_closing = True
        if self._buffers is not None:
            self._buffers.release()
        if self._budget is not None and self._is_counted:
            self._is_counted = False
            self._budget.hosts.closed(self.host)
        self._transport = None
        self._on_lost(self)
        self._handler.closed(why)


class StreamServer:
    """Listens for streams. ``accept`` makes the handler of each; ``budget`` counts what their peers have not read."""

    def __init__(
        self,
        accept: Callable[[], StreamHandler],
        budget: MemoryBudget,
        tls: ServerTls | None = None,
        on_refused: OnRefused | None = None,
    ) -> None:
        self._accept = accept
        self._budget = budget
        self._listeners = Listeners(self._made, tls, on_refused)
        self._streams: set[SocketStream] = set()

    def _holders(self) -> set[SocketStream]:
        return self._streams

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port`` (0: any free port) and return the port. Raises OSError."""
        self._budget.add_holders(self._holders)
        return await self._listeners.open(host, port, BACKLOG)

    def stop(self) -> None:
        """Stop listening and close every stream."""
        self._listeners.close()
        self._budget.remove_holders(self._holders)
        for stream in list(self._streams):
            stream.close()

    def _made(self) -> SocketStream:
        stream = SocketStream(self._accept(), self._streams.discard, self._budget)
        self._streams.add(stream)
        return stream


class SocketNetwork:
    """The :class:`~pymq.wire.streams.Network` of a running broker. Use it from that broker's event loop only."""

    def __init__(self, client: RemotingClient) -> None:
        """``client`` sends the requests."""
        self._client = client
        # Never cancel the opening of a connection: event loops leave one open that completes at that moment.
        self._opening: set[asyncio.Task[None]] = set()
        self._asking: set[asyncio.Future[Any]] = set()
        self._streams: set[SocketStream] = set()
        self._is_closed = False

    def connect(self, address: str, handler: StreamHandler) -> None:
        _start(self._connect(address, handler), self._opening)

    def ask(self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_ms: int) -> None:
        answer = self._client.call(address, command, timeout_ms / 1000)
        if answer is None:
            _start(self._ask(address, command, on_answer, timeout_ms / 1000), self._asking)
            return

        def answered(done: asyncio.Future[Command]) -> None:
            self._asking.discard(done)
            if not done.cancelled():
                on_answer(_outcome(done))

        self._asking.add(answer)
        answer.add_done_callback(answered)

    def close(self) -> None:
        """Close every stream that was or is being opened here, and give no more answers."""
        self._is_closed = True
        for asking in self._asking:
            asking.cancel()
        for stream in list(self._streams):
            stream.close()

    async def _connect(self, address: str, handler: StreamHandler) -> None:
        try:
            host, port = parse_address(address)
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.get_running_loop().create_connection(
                    lambda: self._made(handler), host, port, ssl=self._client.tls_context()
                )
        except TimeoutError:
            handler.closed(f"no connection to {address} within {CONNECT_TIMEOUT_S:g} s: is a broker there?")
        except ssl.SSLError as error:
            handler.closed(f"no TLS connection to {address}: {handshake_text(error)}")
        except ValueError as error:
            handler.closed(str(error))
        except OSError as error:
            handler.closed(f"no connection to {address} ({os_error_text(error)}): is a broker running there?")

    def _made(self, handler: StreamHandler) -> SocketStream:
        stream = SocketStream(handler, self._streams.discard)
        self._streams.add(stream)
        if self._is_closed:
            stream.close()
        return stream

    async def _ask(
        self, address: str, command: Command, on_answer: Callable[[Command | str], None], timeout_s: float
    ) -> None:
        try:
            answer: Command | str = await self._client.invoke(address, command, timeout_s)
        except PymqError as error:
            answer = str(error)
        on_answer(answer)


def _outcome(done: asyncio.Future[Command]) -> Command | str:
    try:
        return done.result()
    except PymqError as error:
        return str(error)


def _start(work: Coroutine[Any, Any, None], tasks: set[Any]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
