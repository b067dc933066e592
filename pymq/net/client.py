"""The client side of connections: one per address, many requests in flight, answers matched by their opaque.

Frames written in one turn of the event loop leave together, WRITE_FRAMES in a write. ``data_received`` resolves the
futures directly. A server's own requests (change notices, offset resets, ...) go to ``on_request``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

from pymq.clock import Clock
from pymq.errors import ClosedError, ProtocolViolation, RefusedError, RequestTimeoutError, UnreachableError
from pymq.model.hosts import parse_address
from pymq.model.route import BrokerData
from pymq.net.forks import notify_of_forks, release_socket
from pymq.net.in_process import Accept, open_connection
from pymq.net.os_errors import os_error_text
from pymq.net.tls import WatchedContext, handshake_text
from pymq.wire.codes import VERSION_5_3_3, ResponseCode, request_name
from pymq.wire.command import FLAG_ONEWAY, FRAME_SIZE_MAX_BYTES, Command, decode_command, encode_command
from pymq.wire.framing import FrameBuffer
from pymq.wire.reply import Reply

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 3.0
WRITE_BUFFER_HIGH_BYTES = 4 * 1024 * 1024
SWEEP_INTERVAL_MIN_MS = 20
# So many frames are written without waiting for the turn's end: a server works on them while the turn makes the next
# ones. Fewer cost both sides more system calls.
WRITE_FRAMES = 32
CLOSED_TEXT = "the client is stopped: make a new one, a stopped client can't be started again"
_NEVER_MS = 1 << 62

Sign = Callable[[Command], None]
OnRequest = Callable[[Command, str], "Reply | Awaitable[Reply | None] | None"]


class RemotingClient:
    """Sends requests to any number of servers. Use it from one event loop only.

    ``on_request(command, address)`` answers requests that servers send; ``on_lost(address)`` is called for connections
    that end without :meth:`close`. The next request to an address reopens its lost connection. ``sign(command)`` adds
    a signature to each request, but not to frames that are encoded already (:meth:`call_frame`). ``tls``: None for
    plain connections.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        language: str = "PYTHON",
        on_request: OnRequest | None = None,
        on_lost: Callable[[str], None] | None = None,
        frame_size_max_bytes: int = FRAME_SIZE_MAX_BYTES,
        sign: Sign | None = None,
        tls: WatchedContext | None = None,
    ) -> None:
        self.clock = clock
        self.language, self.version = language, VERSION_5_3_3
        self.on_request = on_request
        self.on_lost = on_lost
        self.frame_size_max_bytes = frame_size_max_bytes
        self.sign = sign
        self._tls = tls
        self.in_process: dict[str, Accept] = {}  # servers of this process, by address
        self._broker_names: dict[str, str] = {}  # by address
        self._opaque = -1
        self._connections: dict[str, _Connection] = {}
        self._retired: set[_Connection] = set()  # open until their requests are answered, closed to new ones
        self._connecting: dict[str, asyncio.Task[_Connection]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._closed_text = CLOSED_TEXT
        self._process_id = os.getpid()
        self.inherited = False  # in use when the parent process forked this one: its connections are the parent's
        notify_of_forks(self)

    async def invoke(self, address: str, command: Command, timeout_s: float = 3.0) -> Command:
        """Send ``command`` to ``address`` ("host:port") and return the answer, whatever its code.

        Raises UnreachableError (no connection, or it closed), RequestTimeoutError (no answer within ``timeout_s``, in
        which a new connection opens too).
        """
        connection = self._connections.get(address)
        if connection is None or connection.writable is not None:
            begun_ms = self.clock.monotonic_ms()
            connection = await self._ready(address, timeout_s)
            timeout_s = max(timeout_s - (self.clock.monotonic_ms() - begun_ms) / 1000, 0)
        return await connection.call(command, timeout_s)

    def call(self, address: str, command: Command, timeout_s: float) -> asyncio.Future[Command] | None:
        """As :meth:`invoke`, for callbacks: returns a future of the answer, or None when a connection must open
        first."""
        connection = self._connections.get(address)
        if connection is None or connection.writable is not None:
            return None
        return connection.call(command, timeout_s)

    def call_frame(
        self, address: str, frame: bytes, opaque: int, code: int, timeout_s: float
    ) -> asyncio.Future[Command] | None:
        """As :meth:`call`, for a frame that is encoded, with an opaque of :meth:`next_opaque`."""
        connection = self._connections.get(address)
        if connection is None or connection.writable is not None:
            return None
        return connection.call_frame(frame, opaque, code, timeout_s)

    async def invoke_ok(self, address: str, command: Command, timeout_s: float = 3.0) -> Command:
        """As :meth:`invoke`, but raises RefusedError when the answer's code is not 0."""
        answer = await self.invoke(address, command, timeout_s)
        if answer.code != ResponseCode.SUCCESS:
            raise RefusedError(answer.code, answer.remark, address)
        return answer

    async def oneway(self, address: str, command: Command, timeout_s: float = 3.0) -> None:
        """Write ``command``; wait only for a connection. Raises UnreachableError."""
        connection = self._connections.get(address)
        if connection is None or connection.writable is not None:
            connection = await self._ready(address, timeout_s)
        command.flag |= FLAG_ONEWAY
        connection.send(command)

    def is_connected(self, address: str) -> bool:
        """Return whether a connection to ``address`` is open."""
        return address in self._connections

    def is_ready(self, address: str) -> bool:
        """Return whether a request to ``address`` can be written now."""
        connection = self._connections.get(address)
        return connection is not None and connection.writable is None

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context of a connection that opens now; None: it is plain."""
        return self._tls.current() if self._tls is not None else None

    def check_open(self) -> None:
        """Raise ClosedError after :meth:`close`, and in a forked child if the parent used the client."""
        if self._closed:
            raise ClosedError(self._closed_text)

    @property
    def was_used(self) -> bool:
        """True once a request was sent or a connection began to open."""
        return self._opaque >= 0 or bool(self._connecting)

    def after_fork(self) -> None:
        """In a forked child: leaves connections to the parent. A client that the parent never used can be used here."""
        if self.was_used:
            self.leave_to_parent()

    def leave_to_parent(self) -> None:
        """End the use of this client in a forked child, without a word to the servers: to them it goes on."""
        if self._closed:
            return
        self._closed = self.inherited = True
        self._closed_text = (
            f"the client was in use in process {self._process_id}, which forked this process {os.getpid()}: "
            "make a new client in this process"
        )
        for connection in (*self._connections.values(), *self._retired):
            connection.release()
        self._connections.clear()

    async def close(self) -> None:
        """Close all connections. Requests that wait for an answer get UnreachableError, later ones ClosedError."""
        if self.inherited:
            return
        self._closed = True
        waiting: list[asyncio.Future[Any]] = [*self._connecting.values(), *self._tasks]
        for task in waiting:
            task.cancel()
        for connection in (*self._connections.values(), *self._retired):
            connection.shut("the client was closed")
            waiting.append(connection.ended)
        self._connections.clear()
        await asyncio.gather(*waiting, return_exceptions=True)

    def next_opaque(self) -> int:
        """Return a number that no open request has: counts up to the largest int32, then from 0 again."""
        self._opaque = (self._opaque + 1) & 0x7FFF_FFFF
        return self._opaque

    async def _ready(self, address: str, timeout_s: float) -> _Connection:
        """Return an open connection whose write buffer has room."""
        connection = self._connections.get(address) or await self._connect(address, timeout_s)
        if connection.writable is not None:
            try:
                # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the result.
                async with asyncio.timeout(timeout_s):
                    await asyncio.shield(connection.writable)
            except TimeoutError:
                raise RequestTimeoutError(f"{address} took no bytes for {timeout_s:g} s: it is overloaded") from None
        if connection.closed:
            raise UnreachableError(f"the connection to {address} closed")
        return connection

    async def _connect(self, address: str, timeout_s: float) -> _Connection:
        if self._closed:
            raise ClosedError(f"no request to {address}: {self._closed_text}")
        task = self._connecting.get(address)
        if task is None:
            task = self._begin_connecting(address)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(task)
        except TimeoutError:
            what = f"no connection to {address} within {timeout_s:g} s"
            raise UnreachableError(f"{what}: {self._what_to_look_at(address)}") from None
        except asyncio.CancelledError:
            if task.cancelled() and self._closed:
                raise ClosedError(f"no request to {address}: {self._closed_text}") from None
            raise

    def _begin_connecting(self, address: str) -> asyncio.Task[_Connection]:
        task = asyncio.get_running_loop().create_task(self._open(address))
        self._connecting[address] = task
        task.add_done_callback(lambda done: self._connect_ended(address, done))
        return task

    def _connect_ended(self, address: str, task: asyncio.Task[_Connection]) -> None:
        del self._connecting[address]
        if not task.cancelled():
            task.exception()  # marks it as seen: the waiting callers got it

    async def _open(self, address: str) -> _Connection:
        try:
            host, port = parse_address(address)
        except ValueError as error:
            raise UnreachableError(str(error)) from error
        tls, accept = self.tls_context(), self.in_process.get(address)
        try:
            opening = open_connection(accept, lambda: _Connection(self, address), host, port, tls)
            _, connection = await asyncio.wait_for(opening, CONNECT_TIMEOUT_S)
        except TimeoutError:
            what = f"no connection to {address} within {CONNECT_TIMEOUT_S:g} s"
            raise UnreachableError(f"{what}: {self._what_to_look_at(address)}") from None
        except ssl.SSLError as error:
            raise UnreachableError(f"no TLS connection to {address}: {handshake_text(error)}") from error
        except ConnectionError as error:
            what = f"no connection to {address} ({os_error_text(error)})"
            look_at = self._what_to_look_at(address) if self._tls is None else "does the server there take TLS?"
            raise UnreachableError(f"{what}: {look_at}") from error
        except OSError as error:
            what = f"no connection to {address} ({os_error_text(error)})"
            raise UnreachableError(f"{what}: {self._what_to_look_at(address)}") from error
        except ValueError as error:  # a name that can't be looked up: an empty part, one of 64 letters, a NUL
            raise UnreachableError(f"no connection to {address}: {error}") from error
        if self._closed:  # close() ran while this connection opened, and missed it
            connection.shut("the client was closed")
            await connection.ended
            raise ClosedError(f"no request to {address}: {self._closed_text}")
        if not connection.closed:
            self._connections[address] = connection
        return connection

    def note_brokers(self, brokers: Iterable[BrokerData]) -> None:
        """Remember which addresses come from name servers: one that can't be connected may be a wrong brokerIP1."""
        for broker in brokers:
            for address in broker.broker_addrs.values():
                self._broker_names[address] = broker.broker_name

    def _what_to_look_at(self, address: str) -> str:
        name = self._broker_names.get(address)
        if name is None:
            return "is a server running there?"
        return f"does {name} run, and does this machine reach the address that it advertises (its brokerIP1)?"

    def retire(self, connection: _Connection) -> None:
        """Stop sending new requests over ``connection``: it ended, or its server asked to go away."""
        self._retired.discard(connection)
        if not connection.closed:
            self._retired.add(connection)
        if self._connections.get(connection.address) is connection:
            del self._connections[connection.address]
            if self.on_lost is not None and not self._closed:
                self.on_lost(connection.address)

    def serve(self, connection: _Connection, command: Command) -> None:
        """Pass a server's request to ``on_request`` and send the answer, at once or when it is ready."""
        if self.on_request is None:
            remark = f" request type {command.code} not supported by this client"
            self._answer(connection, command, Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark))
            return
        try:
            result = self.on_request(command, connection.address)
        except Exception as error:
            self._answer(connection, command, _failure(command, error))
            return
        if result is None or isinstance(result, Reply):
            self._answer(connection, command, result)
            return
        task = asyncio.get_running_loop().create_task(self._serve_later(connection, command, result))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve_later(self, connection: _Connection, command: Command, result: Awaitable[Reply | None]) -> None:
        try:
            reply = await result
        except Exception as error:
            reply = _failure(command, error)
        self._answer(connection, command, reply)

    def _answer(self, connection: _Connection, command: Command, reply: Reply | None) -> None:
        if reply is not None and not command.is_oneway and not connection.closed:
            connection.send_response(reply.to_command(command))


def _failure(command: Command, error: Exception) -> Reply:
    log.error("the server's request %s failed here", request_name(command.code), exc_info=error)
    return Reply(ResponseCode.SYSTEM_ERROR, f"{request_name(command.code)} failed: {type(error).__name__}: {error}")


# An open request: the future of its answer, when it was sent, when it must be answered (both monotonic), its code.
_Pending = tuple["asyncio.Future[Command]", int, int, int]


class _Connection(asyncio.Protocol):
    """One connection: outgoing frames, incoming frames, and the table of open requests."""

    def __init__(self, client: RemotingClient, address: str) -> None:
        self.address = address
        self.closed = False
        self.writable: asyncio.Future[None] | None = None  # set while the write buffer is full
        self._client = client
        self._clock = client.clock
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[object] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._frames = FrameBuffer(client.frame_size_max_bytes)
        self._out: list[bytes] = []
        self._pending: dict[int, _Pending] = {}  # by opaque
        self._heard_ms = self._clock.monotonic_ms()
        self._sweep_at_ms = _NEVER_MS
        self._sweeper: asyncio.TimerHandle | None = None
        self._reason = "the server closed it"
        self._was_heard = False
        self._retiring = False

    def call(self, command: Command, timeout_s: float) -> asyncio.Future[Command]:
        """Send ``command`` and return a future of its answer; it fails with RequestTimeoutError or
        UnreachableError."""
        self.send(command)
        return self._expect(command.opaque, command.code, timeout_s)

    def call_frame(self, frame: bytes, opaque: int, code: int, timeout_s: float) -> asyncio.Future[Command]:
        """As :meth:`call`, for a frame that is encoded, with an opaque of :meth:`RemotingClient.next_opaque`."""
        self._write(frame)
        return self._expect(opaque, code, timeout_s)

    def _expect(self, opaque: int, code: int, timeout_s: float) -> asyncio.Future[Command]:
        future: asyncio.Future[Command] = self._loop.create_future()
        now_ms = self._clock.monotonic_ms()
        deadline_ms = now_ms + int(timeout_s * 1000)
        self._pending[opaque] = (future, now_ms, deadline_ms, code)
        if deadline_ms < self._sweep_at_ms:
            self._arm_sweep(deadline_ms)
        return future

    def send(self, command: Command) -> None:
        """Queue a request of this client, with an opaque and the client's language and version."""
        client = self._client
        command.opaque = client.next_opaque()
        command.language = client.language
        command.version = client.version
        if client.sign is not None:
            client.sign(command)
        self._write(encode_command(command))

    def send_response(self, command: Command) -> None:
        """Queue the answer to a server's request."""
        command.language = self._client.language
        command.version = self._client.version
        self._write(encode_command(command))

    def _write(self, frame: bytes) -> None:
        out = self._out
        if not out:
            self._loop.call_soon(self._flush)
        out.append(frame)
        if len(out) == WRITE_FRAMES:
            self._flush()

    def _flush(self) -> None:
        if self._out and self._transport is not None and not self.closed:
            self._transport.write(self._out[0] if len(self._out) == 1 else b"".join(self._out))
        self._out.clear()

    def shut(self, reason: str) -> None:
        """Send the queued frames and close."""
        self._reason = reason
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once, without what is queued."""
        self._reason = reason
        if self._transport is not None:
            self._transport.abort()

    def release(self) -> None:
        """In a forked child: gives up this process's share of the socket."""
        self.closed = True
        socket = None if self._transport is None else self._transport.get_extra_info("socket")
        if socket is not None:
            release_socket(socket.fileno())

    def _arm_sweep(self, at_ms: int) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep_at_ms = at_ms
        delay_s = max(at_ms - self._clock.monotonic_ms(), 0) / 1000
        self._sweeper = self._loop.call_later(delay_s + 0.001, self._sweep)

    def _sweep(self) -> None:
        """Fail the overdue requests. One timer serves all requests, set to the earliest deadline.

        When nothing arrived since an overdue request was sent, the connection may be dead without a notice (a machine
        without power, a firewall that dropped its state; the system takes a quarter of an hour to find out). It gets no
        new requests. Java: closeChannelWhenRpcTimeout.
        """
        now_ms = self._clock.monotonic_ms()
        self._sweeper, self._sweep_at_ms = None, _NEVER_MS
        overdue = [opaque for opaque, pending in self._pending.items() if pending[2] <= now_ms]
        for opaque in overdue:
            future, sent_ms, _, code = self._pending.pop(opaque)
            if self._heard_ms <= sent_ms and not self._retiring:
                self._retiring = True
                self._client.retire(self)
            if not future.done():
                future.set_exception(RequestTimeoutError(f"{self.address} did not answer {request_name(code)} in time"))
        if self._pending:
            earliest_ms = min(deadline_ms for _, _, deadline_ms, _ in self._pending.values())
            self._arm_sweep(max(earliest_ms, now_ms + SWEEP_INTERVAL_MIN_MS))
        elif self._retiring and self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH_BYTES)

    def data_received(self, data: bytes) -> None:
        self._heard_ms = self._clock.monotonic_ms()
        self._was_heard = True
        try:
            for payload in self._frames.feed(data):
                self._received(decode_command(payload))
        except ProtocolViolation as violation:
            if not self._pending:  # else the error of each request says so
                log.warning("%s broke the protocol: %s", self.address, violation)
            self._reason = f"it broke the protocol: {violation}"
            assert self._transport is not None
            self._transport.abort()

    def _received(self, command: Command) -> None:
        if not command.is_response:
            self._client.serve(self, command)
            return
        entry = self._pending.pop(command.opaque, None)
        if entry is not None and not entry[0].done():
            entry[0].set_result(command)
        if command.code == ResponseCode.GO_AWAY:
            self._retiring = True
            self._client.retire(self)
        if self._retiring and not self._pending and self._transport is not None:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if error is not None:
            self._reason = os_error_text(error)
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._client.retire(self)
        failure = f"the connection to {self.address} closed before the answer came: {self._reason}"
        if not self._was_heard and self._client.tls_context() is None:
            failure += "; if the server takes only TLS: PYMQ_TLS_ENABLE=true"
        for future, _, _, _ in self._pending.values():
            if not future.done():
                future.set_exception(UnreachableError(failure))
        self._pending.clear()
        self.resume_writing()
        if not self.ended.done():
            self.ended.set_result(None)

    def pause_writing(self) -> None:
        self.writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self.writable is not None:
            self.writable.set_result(None)
            self.writable = None
