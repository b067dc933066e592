"""RpcConnection: a client's connection. The library h2 keeps the rules of HTTP/2; this runs the calls on it.

Nothing of a client takes the event loop for long: a turn handles FRAMES_PER_TURN frames, and what is left waits for the
server's next turn. A client that reads slowly is not read from, and its streams wait for its windows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, Protocol, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import FrameTooLargeError, ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from pymq.model.hosts import format_address
from pymq.proxy.rpc.call import RpcCall, RpcMethod
from pymq.proxy.rpc.wire import (
    CONTENT_TYPE,
    ENCODINGS,
    IDENTITY,
    GrpcCode,
    GrpcError,
    encode_text,
    frame_message,
    metadata_of,
    parse_timeout_ms,
)

log = logging.getLogger(__name__)

FRAMES_PER_TURN = 32
FRAME_BYTES_MAX = 16 * 1024  # HTTP/2's own default
STREAMS_MAX = 2_048  # calls of a connection at the same time; a client's library holds further ones back
METADATA_BYTES_MAX = 64 * 1024  # of a call; clients know it
REFUSED_METADATA_BYTES_MAX = 256 * 1024  # a call with more than that closes its connection
WINDOW_BYTES = 1024 * 1024  # that a client may send on a stream before some are taken
CONNECTION_WINDOW_BYTES = 8 * 1024 * 1024
INBOX_BYTES_MAX = 256 * 1024  # of frames that wait for their turn
UNREAD_BYTES_MAX = 256 * 1024  # of answers that the client has not read
PING_AFTER_S = 60.0  # of silence on a connection with calls
PING_TIMEOUT_S = 20.0
IDLE_S_MAX = 120.0  # a connection without calls is closed then

_PREFACE_BYTES = 24
_FRAME_HEAD_BYTES = 9
_GOAWAY = 7
_PING = b"pymqpymq"
_CONFIG = H2Configuration(
    client_side=False,
    header_encoding=None,
    normalize_inbound_headers=False,
    normalize_outbound_headers=False,
    validate_outbound_headers=False,
)
_SETTINGS = {
    SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS_MAX,
    SettingCodes.MAX_HEADER_LIST_SIZE: METADATA_BYTES_MAX,
    SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
}
_ANSWER_HEAD = [
    (b":status", b"200"),
    (b"content-type", CONTENT_TYPE),
    (b"grpc-accept-encoding", b",".join([IDENTITY, *sorted(ENCODINGS)])),
]
_OK = [(b"grpc-status", b"0")]
_NOT_GRPC = [(b":status", b"415")]
_Fields = list[tuple[bytes, bytes]]


class ConnectionOwner(Protocol):
    """What a connection needs of its server."""

    methods: Mapping[bytes, RpcMethod]
    request_bytes_max: int
    held_bytes_max: int

    def opened(self, connection: RpcConnection) -> None:
        """Hear of a new connection."""

    def closed(self, connection: RpcConnection) -> None:
        """Hear that a connection has ended."""

    def later(self, connection: RpcConnection) -> None:
        """Let a connection work in a later turn."""


class RpcConnection(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: ConnectionOwner) -> None:
        self.peer = ""
        self.calls: dict[int, RpcCall] = {}
        self.is_queued = False  # its frames wait for the server's next turn
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._http = H2Connection(_CONFIG)
        self._inbox = bytearray()
        self._has_preface = False
        self._is_reading = True
        self._is_choked = False  # the client does not read
        self._is_leaving = False
        self._is_flush_due = False
        self._held_bytes = 0
        self._waiters: list[asyncio.Future[None]] = []  # of calls that can't send now
        self._heard_s = self._busy_s = self.now_s()
        self._pinged_s = 0.0

    def now_s(self) -> float:
        """See CallOwner."""
        return self._loop.time()

    # -- asyncio's callbacks -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._transport.set_write_buffer_limits(UNREAD_BYTES_MAX)
        self.peer = format_address(*transport.get_extra_info("peername")[:2])
        http = self._http
        http.local_settings = Settings(client=False, initial_values=_SETTINGS)
        http.decoder.max_header_list_size = REFUSED_METADATA_BYTES_MAX
        http.initiate_connection()
        http.increment_flow_control_window(CONNECTION_WINDOW_BYTES - http.inbound_flow_control_window)
        self._flush()
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        self._inbox += data
        self._heard_s = self.now_s()
        self._pinged_s = 0.0
        if not self.is_queued and not self._is_choked:
            self.work()

    def pause_writing(self) -> None:
        self._is_choked = True

    def resume_writing(self) -> None:
        self._is_choked = False
        self._wake()
        if self._inbox:
            self._server.later(self)
        self._regulate()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._drop_all()
        self._server.closed(self)

    # -- frames --------------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Handle the frames that came, FRAMES_PER_TURN at most; the others in a later turn of the server."""
        if self._transport is None or self._is_choked:
            return
        try:
            size = self._next_size()
            if size:
                self._handle(size)
        except ProtocolError as error:
            log.info("connection %s is closed: %s", self.peer, error)
            self._flush()  # says why
            self.close()
            return
        if size:
            self._flush()
            if self._inbox:
                self._server.later(self)
        self._regulate()

    def _handle(self, size_bytes: int) -> None:
        """Handle the first bytes of the inbox. Raises ProtocolError."""
        data = bytes(memoryview(self._inbox)[:size_bytes])
        del self._inbox[:size_bytes]
        for event in self._http.receive_data(data):
            handler = _EVENT_HANDLERS.get(type(event))
            if handler is not None:
                handler(self, event)

    def _next_size(self) -> int:
        """Return the bytes of the next whole frames. Takes a GOAWAY away: h2 would answer nothing after it.

        Raises FrameTooLargeError: h2 would wait for the whole frame.
        """
        inbox, end, count = self._inbox, 0, 0
        if not self._has_preface:
            if len(inbox) < _PREFACE_BYTES and inbox[:4] == b"PRI "[: len(inbox)]:
                return 0
            self._has_preface = True
            end = min(_PREFACE_BYTES, len(inbox))
        while count < FRAMES_PER_TURN and len(inbox) - end >= _FRAME_HEAD_BYTES:
            length = int.from_bytes(inbox[end : end + 3], "big")
            if length > FRAME_BYTES_MAX:
                self._http.close_connection(ErrorCodes.FRAME_SIZE_ERROR)
                raise FrameTooLargeError(f"a frame has {length} bytes, the limit is {FRAME_BYTES_MAX}")
            last = end + _FRAME_HEAD_BYTES + length
            if last > len(inbox):
                break
            if inbox[end + 3] == _GOAWAY:
                if end:
                    break
                del inbox[:last]
                continue
            end = last
            count += 1
        return end

    def _regulate(self) -> None:
        """Read on, or not: a client whose frames wait, or that reads nothing itself, has to wait."""
        if self._transport is None:
            return
        is_reading = not self._is_choked and len(self._inbox) <= INBOX_BYTES_MAX
        if is_reading != self._is_reading:
            self._is_reading = is_reading
            if is_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _request_received(self, event: RequestReceived) -> None:
        stream_id = event.stream_id
        if self._is_leaving:
            with suppress(ProtocolError):
                self._http.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        try:
            call = self._new_call(stream_id, event.headers)
            refusal = _NOT_GRPC
        except GrpcError as error:
            call, refusal = None, _ANSWER_HEAD + _trailers(error.code, error.text)
        if call is None:
            self._answer(stream_id, refusal, is_ended=event.stream_ended is not None)
            return
        self.calls[stream_id] = call
        if call.method.takes_stream:
            self._start(call)

    def _new_call(self, stream_id: int, headers: _Fields) -> RpcCall | None:
        """Return a call; None for what is not gRPC. Raises GrpcError for one that can't be served."""
        fields = dict(headers)
        if not fields.get(b"content-type", b"").startswith(CONTENT_TYPE):
            return None
        size = sum(len(name) + len(value) for name, value in headers)
        if size > METADATA_BYTES_MAX:
            text = f"the call's metadata has {size} bytes, the limit is {METADATA_BYTES_MAX}: send less"
            raise GrpcError(GrpcCode.RESOURCE_EXHAUSTED, text)
        path = fields[b":path"]
        method = self._server.methods.get(path)
        if method is None:
            raise GrpcError(GrpcCode.UNIMPLEMENTED, f"{path.decode('utf-8', 'replace')!r:.200} is not served here")
        deadline_s = None
        if (timeout := fields.get(b"grpc-timeout")) is not None:
            timeout_ms = parse_timeout_ms(timeout)
            if not timeout_ms:
                raise GrpcError(GrpcCode.DEADLINE_EXCEEDED, "the call's deadline was over when it came")
            deadline_s = self.now_s() + timeout_ms / 1000
        encoding = fields.get(b"grpc-encoding", IDENTITY)
        return RpcCall(
            self, stream_id, method, metadata_of(headers), encoding, deadline_s, self._server.request_bytes_max
        )

    def _data_received(self, event: DataReceived) -> None:
        stream_id, size = event.stream_id, event.flow_controlled_length
        call = self.calls.get(stream_id)
        if call is None:
            self._http.acknowledge_received_data(size, stream_id)
            return
        self._held_bytes += size
        try:
            call.feed(event.data, size)
            if self._held_bytes > self._server.held_bytes_max:
                text = f"the connection's requests have more than {self._server.held_bytes_max} bytes, the limit: "
                raise GrpcError(GrpcCode.RESOURCE_EXHAUSTED, text + "send less at once")
        except GrpcError as error:
            self._http.acknowledge_received_data(size, stream_id)
            self._end(call, error.code, error.text)
            self._drop(call)
            return
        if call.method.takes_stream and call.has_request:
            call.unread_bytes += size  # the client waits when its window is full of requests that nobody takes
        else:
            self._http.acknowledge_received_data(size, stream_id)

    def _stream_ended(self, event: StreamEnded) -> None:
        call = self.calls.get(event.stream_id)
        if call is not None:
            call.end_input()
            if call.task is None:
                self._start(call)

    def _stream_reset(self, event: StreamReset) -> None:
        call = self.calls.get(event.stream_id)
        if call is not None:
            self._drop(call)

    def took(self, call: RpcCall) -> None:
        """See CallOwner."""
        self._release(call)
        if call.is_open and call.unread_bytes:
            self._http.acknowledge_received_data(call.unread_bytes, call.stream_id)
            self._flush_soon()
        call.unread_bytes = 0

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _start(self, call: RpcCall) -> None:
        call.task = self._loop.create_task(self._serve(call))

    async def _serve(self, call: RpcCall) -> None:
        method = call.method
        try:
            if method.takes_stream:
                await self._send_all(call, method.handler(call, call.requests()))
            else:
                request = await call.only_request()
                self._release(call)
                if method.gives_stream:
                    await self._send_all(call, method.handler(call, request))
                else:
                    await self._send(call, await method.handler(call, request))
            self._end(call, GrpcCode.OK)
        except GrpcError as error:
            self._end(call, error.code, error.text)
        except Exception as error:
            log.exception("a call of %s failed", call.peer)
            self._end(call, GrpcCode.INTERNAL, f"{type(error).__name__}: see the server's log")
        finally:
            self._forget(call)

    async def _send_all(self, call: RpcCall, answers: AsyncGenerator[Any, None]) -> None:
        async with aclosing(answers):
            async for answer in answers:
                await self._send(call, answer)
                del answer  # not kept while the stream is idle

    async def _send(self, call: RpcCall, answer: Any) -> None:
        """Send an answer; waits while the client's windows are full, or it reads nothing."""
        data = frame_message(answer.SerializeToString())
        http, stream_id = self._http, call.stream_id
        if not call.is_begun and call.is_open:
            http.send_headers(stream_id, _ANSWER_HEAD)
            call.is_begun = True
        at = 0
        while at < len(data) and call.is_open:
            size = min(http.local_flow_control_window(stream_id), http.max_outbound_frame_size, len(data) - at)
            if size <= 0 or self._is_choked:
                waiter = self._loop.create_future()
                self._waiters.append(waiter)
                await waiter
                continue
            http.send_data(stream_id, data[at : at + size])
            at += size
            if at < len(data):
                self._flush()  # which may choke
        self._flush_soon()

    def _end(self, call: RpcCall, code: GrpcCode, text: str = "") -> None:
        """Send a call's status."""
        if not call.is_open:
            return
        call.is_open = False
        trailers = _OK if code == GrpcCode.OK else _trailers(code, text)
        self._answer(
            call.stream_id, trailers if call.is_begun else _ANSWER_HEAD + trailers, is_ended=call.is_input_over
        )
        self._flush_soon()

    def _answer(self, stream_id: int, fields: _Fields, *, is_ended: bool) -> None:
        """Send the last fields of a stream. ``is_ended``: whether the client has ended it as well."""
        with suppress(ProtocolError):  # the client has reset it meanwhile
            self._http.send_headers(stream_id, fields, end_stream=True)
            if not is_ended:
                self._http.reset_stream(stream_id, ErrorCodes.NO_ERROR)

    def _drop(self, call: RpcCall) -> None:
        """End a call without a word."""
        call.is_open = False
        if call.task is not None:
            call.task.cancel()
        self._forget(call)

    def _forget(self, call: RpcCall) -> None:
        if self.calls.pop(call.stream_id, None) is None:
            return
        self._release(call)
        self._busy_s = self.now_s()
        if self._is_leaving and not self.calls:
            self._flush()
            self.close()

    def _release(self, call: RpcCall) -> None:
        self._held_bytes -= call.held_bytes
        call.held_bytes = 0

    # -- sending -------------------------------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        """Send with all else that the turn of the event loop makes."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        data = self._http.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)

    def _wake(self, _: Event | None = None) -> None:
        """Let calls that could not send try again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- the connection's end ------------------------------------------------------------------------------------------

    def tick(self, now_s: float) -> None:
        """End calls whose deadline is over, and the connection when it is idle or dead. Call it every second or so."""
        late = [call for call in self.calls.values() if call.deadline_s is not None and call.deadline_s <= now_s]
        for call in late:
            self._end(call, GrpcCode.DEADLINE_EXCEEDED, "the call's deadline is over")
            self._drop(call)
        if not self.calls:
            if now_s - self._busy_s >= IDLE_S_MAX:
                self.leave()
        elif self._pinged_s:
            if now_s - self._pinged_s >= PING_TIMEOUT_S and self._transport is not None:
                self._transport.abort()
        elif now_s - self._heard_s >= PING_AFTER_S and self._has_preface:
            self._pinged_s = now_s
            self._http.ping(_PING)
            self._flush_soon()

    def leave(self) -> None:
        """Take no further call, and close when the last one has ended."""
        if self._is_leaving or self._transport is None:
            return
        self._is_leaving = True
        self._flush()
        # h2 would answer no call after a GOAWAY of its own.
        frame = GoAwayFrame(0, last_stream_id=self._http.highest_inbound_stream_id)
        self._transport.write(frame.serialize())
        if not self.calls:
            self.close()

    def close(self, *, at_once: bool = False) -> None:
        """Close the connection after what is written, or ``at_once``; its calls are dropped."""
        if self._transport is not None:
            self._transport.abort() if at_once else self._transport.close()
        self._drop_all()

    def _drop_all(self) -> None:
        for call in list(self.calls.values()):
            self._drop(call)


def _trailers(code: GrpcCode, text: str) -> _Fields:
    return [(b"grpc-status", b"%d" % code), (b"grpc-message", encode_text(text))]


_EVENT_HANDLERS: dict[type[Event], Callable[[RpcConnection, Any], None]] = {
    RequestReceived: RpcConnection._request_received,
    DataReceived: RpcConnection._data_received,
    StreamEnded: RpcConnection._stream_ended,
    StreamReset: RpcConnection._stream_reset,
    WindowUpdated: RpcConnection._wake,
    RemoteSettingsChanged: RpcConnection._wake,
}
