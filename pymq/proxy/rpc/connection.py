"""RpcConnection: a client's connection. ``pymq.proxy.http2`` keeps the rules of HTTP/2; this runs the calls on it.

Nothing of a client takes the event loop for long: a turn handles FRAMES_PER_TURN frames, and what is left waits for the
server's next turn. A client that reads slowly is not read from, and its streams wait for its windows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Protocol, cast

from pymq.model.hosts import format_address
from pymq.proxy.http2.connection import Http2Connection
from pymq.proxy.http2.fields import encode_fields
from pymq.proxy.http2.frames import ErrorCode, Http2Error, Setting
from pymq.proxy.rpc.call import RpcCall, RpcMethod
from pymq.proxy.rpc.wire import (
    CONTENT_TYPE,
    ENCODINGS,
    IDENTITY,
    GrpcCode,
    GrpcError,
    Metadata,
    encode_text,
    frame_message,
    parse_timeout_ms,
)

log = logging.getLogger(__name__)

FRAMES_PER_TURN = 32
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

_PING = b"pymqpymq"
_SETTINGS = {
    Setting.MAX_CONCURRENT_STREAMS: STREAMS_MAX,
    Setting.MAX_HEADER_LIST_SIZE: METADATA_BYTES_MAX,
    Setting.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
}
_ANSWER_HEAD = encode_fields(
    [
        (b":status", b"200"),
        (b"content-type", CONTENT_TYPE),
        (b"grpc-accept-encoding", b",".join([IDENTITY, *sorted(ENCODINGS)])),
    ]
)
_OK = encode_fields([(b"grpc-status", b"0")])
_NOT_GRPC = encode_fields([(b":status", b"415")])


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

    __slots__ = (
        "_busy_s",
        "_heard_s",
        "_held_bytes",
        "_http",
        "_is_choked",
        "_is_flush_due",
        "_is_leaving",
        "_is_reading",
        "_loop",
        "_pinged_s",
        "_server",
        "_transport",
        "_waiters",
        "calls",
        "is_queued",
        "peer",
    )

    def __init__(self, server: ConnectionOwner) -> None:
        self.peer = ""
        self.calls: dict[int, RpcCall] = {}
        self.is_queued = False  # its frames wait for the server's next turn
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._http = Http2Connection(self, _SETTINGS, CONNECTION_WINDOW_BYTES, REFUSED_METADATA_BYTES_MAX)
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
        self._http.begin()
        self._flush()
        self._server.opened(self)

    def data_received(self, data: bytes) -> None:
        self._http.receive(data)
        self._heard_s = self.now_s()
        self._pinged_s = 0.0
        if not self.is_queued and not self._is_choked:
            self.work()

    def pause_writing(self) -> None:
        self._is_choked = True

    def resume_writing(self) -> None:
        self._is_choked = False
        self.window_opened()
        if self._http.inbox_bytes:
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
            is_more = self._http.work(FRAMES_PER_TURN)
        except Http2Error as error:
            log.info("connection %s is closed: %s", self.peer, error)
            self._flush()  # says why
            self.close()
            return
        self._flush()
        if is_more:
            self._server.later(self)
        self._regulate()

    def _regulate(self) -> None:
        """Read on, or not: a client whose frames wait, or that reads nothing itself, has to wait."""
        if self._transport is None:
            return
        is_reading = not self._is_choked and self._http.inbox_bytes <= INBOX_BYTES_MAX
        if is_reading != self._is_reading:
            self._is_reading = is_reading
            if is_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    # -- what happens on HTTP/2: see Http2Owner ------------------------------------------------------------------------

    def request_received(self, stream_id: int, fields: dict[bytes, bytes], size_bytes: int, is_ended: bool) -> None:
        if self._is_leaving:
            self._http.reset(stream_id, ErrorCode.REFUSED_STREAM)
            return
        try:
            call = self._new_call(stream_id, fields, size_bytes)
            refusal = _NOT_GRPC
        except GrpcError as error:
            call, refusal = None, _ANSWER_HEAD + _trailers(error.code, error.text)
        if call is None:
            self._http.send_fields(stream_id, refusal, is_end=True)
            return
        self.calls[stream_id] = call
        if is_ended:
            call.end_input()
        if is_ended or call.method.takes_stream:
            self._start(call)

    def _new_call(self, stream_id: int, fields: dict[bytes, bytes], size_bytes: int) -> RpcCall | None:
        """Return a call; None for what is not gRPC. Raises GrpcError for one that can't be served."""
        if not fields.get(b"content-type", b"").startswith(CONTENT_TYPE):
            return None
        if size_bytes > METADATA_BYTES_MAX:
            text = f"the call's metadata has {size_bytes} bytes, the limit is {METADATA_BYTES_MAX}: send less"
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
        request_bytes_max = self._server.request_bytes_max
        return RpcCall(self, stream_id, method, Metadata(fields), encoding, deadline_s, request_bytes_max)

    def request_data(self, stream_id: int, data: bytes, size_bytes: int) -> None:
        call = self.calls.get(stream_id)
        if call is None:
            self._http.release_window(stream_id, size_bytes)
            return
        self._held_bytes += size_bytes
        try:
            call.feed(data, size_bytes)
            if self._held_bytes > self._server.held_bytes_max:
                text = f"the connection's requests have more than {self._server.held_bytes_max} bytes, the limit: "
                raise GrpcError(GrpcCode.RESOURCE_EXHAUSTED, text + "send less at once")
        except GrpcError as error:
            self._http.release_window(stream_id, size_bytes)
            self._end(call, error.code, error.text)
            self._drop(call)
            return
        if call.method.takes_stream and call.has_request:
            call.unread_bytes += size_bytes  # the client waits when its window is full of requests that nobody takes
        else:
            self._http.release_window(stream_id, size_bytes)

    def request_ended(self, stream_id: int) -> None:
        call = self.calls.get(stream_id)
        if call is not None:
            call.end_input()
            if call.task is None:
                self._start(call)

    def stream_reset(self, stream_id: int) -> None:
        call = self.calls.get(stream_id)
        if call is not None:
            self._drop(call)

    def window_opened(self) -> None:
        """Let calls that could not send try again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def took(self, call: RpcCall) -> None:
        """See CallOwner."""
        self._release(call)
        if call.unread_bytes:
            self._http.release_window(call.stream_id, call.unread_bytes)
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
                    await self._send_only(call, await method.handler(call, request))
                    return
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
        if not call.is_begun:
            http.send_fields(stream_id, _ANSWER_HEAD)
            call.is_begun = True
        at = 0
        while at < len(data) and call.is_open:
            size = min(http.window_of(stream_id), http.frame_bytes_max, len(data) - at)
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

    async def _send_only(self, call: RpcCall, answer: Any) -> None:
        """Send the only answer of a call, and that all is well."""
        data = frame_message(answer.SerializeToString())
        if not self._is_choked and self._http.send_answer(call.stream_id, _ANSWER_HEAD, data, _OK):
            call.is_open = False
            self._flush_soon()
            return
        await self._send(call, answer)
        self._end(call, GrpcCode.OK)

    def _end(self, call: RpcCall, code: GrpcCode, text: str = "") -> None:
        """Send a call's status."""
        if not call.is_open:
            return
        call.is_open = False
        trailers = _OK if code == GrpcCode.OK else _trailers(code, text)
        block = trailers if call.is_begun else _ANSWER_HEAD + trailers
        self._http.send_fields(call.stream_id, block, is_end=True)
        self._flush_soon()

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
        if call.unread_bytes:
            self._http.release_window(call.stream_id, call.unread_bytes)
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
        data = self._http.take_output()
        if data and self._transport is not None:
            self._transport.write(data)

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
        elif now_s - self._heard_s >= PING_AFTER_S and self._http.has_preface:
            self._pinged_s = now_s
            self._http.ping(_PING)
            self._flush_soon()

    def leave(self) -> None:
        """Take no further call, and close when the last one has ended."""
        if self._is_leaving or self._transport is None:
            return
        self._is_leaving = True
        self._http.go_away()
        self._flush()
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


def _trailers(code: GrpcCode, text: str) -> bytes:
    return encode_fields([(b"grpc-status", b"%d" % code), (b"grpc-message", encode_text(text))])
