"""RpcConnection: a client's connection. ``pymq.proxy.http2`` keeps the rules of HTTP/2; this runs the calls on it.

Nothing of a client takes the event loop for long: a turn handles FRAMES_PER_TURN frames, or works for SLICE_S, and what
is left waits for the server's next turn. A client that reads slowly is not read from, and its streams wait for its
windows. All that is kept for a client counts in the process's memory budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from pymq.model.hosts import format_address
from pymq.proxy.http2.connection import Http2Connection
from pymq.proxy.http2.frames import ErrorCode, Http2Error, Setting
from pymq.proxy.rpc.call import RpcCall
from pymq.proxy.rpc.call_fields import (
    ANSWER_HEAD,
    INPUT_S_MAX,
    METADATA_BYTES_MAX,
    NOT_GRPC,
    OK,
    open_call,
    trailers_of,
)
from pymq.proxy.rpc.connection_account import ConnectionAccount
from pymq.proxy.rpc.connection_owner import ConnectionOwner
from pymq.proxy.rpc.waiting_answers import WaitingAnswers
from pymq.proxy.rpc.wire import GrpcCode, GrpcError, frame_message

log = logging.getLogger(__name__)

FRAMES_PER_TURN = 32
FRAMES_PER_STEP = 8  # between two looks at the time
SLICE_S = 0.005  # that a connection works in one turn
STREAMS_MAX = 2_048  # calls of a connection at the same time; a client's library holds further ones back
REFUSED_METADATA_BYTES_MAX = 256 * 1024  # a call with more than that closes its connection
WINDOW_BYTES = 1024 * 1024  # that a client may send on a stream before some are taken
CONNECTION_WINDOW_BYTES = 8 * 1024 * 1024
INBOX_BYTES_MAX = 256 * 1024  # of frames that wait for their turn
UNREAD_BYTES_MAX = 256 * 1024  # of answers that the client has not read
PING_AFTER_S = 60.0  # of silence on a connection with calls
PING_TIMEOUT_S = 20.0
IDLE_S_MAX = 120.0  # a connection without calls is closed then
ANSWER_S_MAX = 60.0  # that an answer waits for a client that takes nothing of it
STALL_S_MAX = 2.0  # the same, while the memory budget has no room
RESETS_MAX = 4_096  # calls that a client gives up at once: twice as many as it can have
RESETS_PER_TICK = 256  # more that it may give up each second
CALL_BYTES, STREAM_BYTES = 3 * 1024, 10 * 1024  # that a call takes beside metadata, request and answers. Measured
NOTED_BYTES = 4 * 1024

_PING = b"pymqpymq"
_SETTINGS = {
    Setting.MAX_CONCURRENT_STREAMS: STREAMS_MAX,
    Setting.MAX_HEADER_LIST_SIZE: METADATA_BYTES_MAX,
    Setting.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
}
CANCELS_PER_TURN = 64  # of the event loop


class RpcConnection(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "__weakref__",
        "_account",
        "_answers",
        "_busy_s",
        "_has_called",
        "_heard_s",
        "_http",
        "_is_choked",
        "_is_flush_due",
        "_is_leaving",
        "_is_reading",
        "_loop",
        "_opened_s",
        "_pinged_s",
        "_reset_count",
        "_server",
        "_stalled_s",
        "_transport",
        "_withheld",
        "address",
        "calls",
        "host",
        "is_queued",
    )

    def __init__(self, server: ConnectionOwner) -> None:
        self.host = self.address = ""
        self.calls: dict[int, RpcCall] = {}
        self.is_queued = False  # its frames wait for the server's next turn
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._http = Http2Connection(self, _SETTINGS, CONNECTION_WINDOW_BYTES, REFUSED_METADATA_BYTES_MAX)
        self._is_reading, self._is_choked = True, False  # choked: the client does not read
        self._is_leaving = self._has_called = self._is_flush_due = False
        self._reset_count = 0  # calls that the client gave up lately
        self._account = ConnectionAccount(server.budget, self._buffered_bytes)
        self._withheld: Counter[int] = Counter()  # of streams' receive windows: not released while too many bytes wait
        self._answers = WaitingAnswers()
        self._opened_s = self._heard_s = self._busy_s = self.now_s()
        self._pinged_s = self._stalled_s = 0.0

    @property
    def peer(self) -> str:  # see CallOwner
        return self.address

    def now_s(self) -> float:
        """See CallOwner."""
        return self._loop.time()

    # -- asyncio's callbacks -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._transport.set_write_buffer_limits(UNREAD_BYTES_MAX)
        self.host, port = transport.get_extra_info("peername")[:2]
        self.address = format_address(self.host, port)
        if (reason := self._server.admit(self, transport)) is not None:
            self.abort(reason)
            return
        self._http.begin()
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._http.receive(data)
        self._heard_s = self.now_s()
        self._pinged_s = 0.0
        if self._transport is None:
            return
        if self._server.has_time and not self.is_queued and not self._is_choked:
            self.work()
            return
        if not self._is_choked:
            self._server.later(self)
        self._regulate()  # the event loop may read on and on

    def pause_writing(self) -> None:
        self._is_choked = True

    def resume_writing(self) -> None:
        self._is_choked = False
        self._stalled_s = 0.0
        self._answers.opened(0)
        self._server.later(self)
        self._regulate()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._drop_all()
        self._loop.call_soon(self._server.budget.end_close(self))
        self._server.closed(self)

    # -- frames --------------------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Handle the frames that came, FRAMES_PER_TURN at most; the others in a later turn of the server."""
        if self._transport is None or self._is_choked:
            return
        begun_s = now_s = self._server.work_s()
        count, is_more = 0, True
        try:
            while is_more and count < FRAMES_PER_TURN and now_s - begun_s < SLICE_S:
                is_more = self._http.work(FRAMES_PER_STEP)
                count += FRAMES_PER_STEP
                now_s = self._server.work_s()
        except Http2Error as error:
            log.info("connection %s is closed: %s", self.peer, error)
            self._flush()  # says why
            self.close()
            return
        self._server.note_work(now_s - begun_s)
        self._flush()
        if self._answers.wake_some() or is_more:
            self._server.later(self)
        self._regulate()
        self._account.note()

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
            call = open_call(self, self._server, stream_id, fields, size_bytes)
            refusal = NOT_GRPC
        except GrpcError as error:
            call, refusal = None, ANSWER_HEAD + trailers_of(error.code, error.text)
        if call is None:
            self._http.send_fields(stream_id, refusal, is_end=True)
            return
        self.calls[stream_id] = call
        if not self._has_called:
            self._has_called = True
            self._server.called(self)
        call.kept_bytes = size_bytes + (STREAM_BYTES if call.method.takes_stream else CALL_BYTES)
        self._account.kept += call.kept_bytes
        if is_ended:
            call.end_input()
        if call.method.admit is not None:
            try:
                call.refusal = call.method.admit(call)
            except GrpcError as error:
                call.refusal = error
        if isinstance(call.refusal, GrpcError):
            if is_ended:
                self._refuse(call, call.refusal)
        elif call.refusal is not None or is_ended or call.method.takes_stream:
            self._start(call)

    def _refuse(self, call: RpcCall, error: GrpcError) -> None:
        self._end(call, error.code, error.text)
        self._drop(call)

    def request_data(self, stream_id: int, data: bytes, size_bytes: int) -> None:
        call = self.calls.get(stream_id)
        if call is None or call.refusal is not None:
            self._http.release_window(stream_id, size_bytes)
            if call is not None and isinstance(call.refusal, GrpcError):
                self._refuse(call, call.refusal)
            return
        self._account.held += size_bytes
        try:
            call.feed(data, size_bytes)
            if self._account.held > (limit := self._server.sizes.held_bytes_max):
                text = f"the connection's requests have more than {limit} bytes, the limit: "
                raise GrpcError(GrpcCode.RESOURCE_EXHAUSTED, text + "send less at once")
        except GrpcError as error:
            self._http.release_window(stream_id, size_bytes)
            self._refuse(call, error)
            return
        if call.method.takes_stream and call.has_request:
            call.unread_bytes += size_bytes  # the client waits when its window is full of requests that nobody takes
        elif self._account.waiting >= CONNECTION_WINDOW_BYTES:
            self._withheld[stream_id] += size_bytes  # the client waits until some of its requests are served
        else:
            self._http.release_window(stream_id, size_bytes)

    def request_ended(self, stream_id: int) -> None:
        call = self.calls.get(stream_id)
        if call is not None:
            call.end_input()
            if isinstance(call.refusal, GrpcError):
                self._refuse(call, call.refusal)
            elif call.task is None:
                self._start(call)

    def stream_reset(self, stream_id: int) -> None:
        call = self.calls.get(stream_id)
        if call is not None:
            self._drop(call)
            self._reset_count += 1
            if self._reset_count > RESETS_MAX:
                text = f"{RESETS_MAX} calls were given up within a short time, the limit: wait for answers"
                raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, text)

    def window_opened(self, stream_id: int) -> None:
        self._answers.opened(stream_id)  # that of one stream now, all others a part after the other

    def took(self, call: RpcCall) -> None:
        """See CallOwner."""
        self._release(call)
        if call.unread_bytes:
            self._http.release_window(call.stream_id, call.unread_bytes)
            self._flush_soon()
            call.unread_bytes = 0

    def keep(self, call: RpcCall, size_bytes: int) -> None:
        """See CallOwner."""
        if call.stream_id in self.calls:
            call.kept_bytes += size_bytes
            self._account.kept += size_bytes
            if size_bytes > NOTED_BYTES:  # of smaller ones the next turn hears
                self._account.note()

    def wait_for_room(self, call: RpcCall, *, begins: bool) -> None:
        """See CallOwner. Of a client whose requests wait, no more are taken than its windows allow."""
        call.waiting_bytes, before = call.held_bytes if begins else 0, call.waiting_bytes
        self._account.waiting += call.waiting_bytes - before
        self._account.note()
        if self._withheld and self._account.waiting < CONNECTION_WINDOW_BYTES:
            withheld, self._withheld = self._withheld, Counter()
            for stream_id, size_bytes in withheld.items():
                self._http.release_window(stream_id, size_bytes)
            self._flush_soon()

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _start(self, call: RpcCall) -> None:
        call.task = self._loop.create_task(self._serve(call))

    async def _serve(self, call: RpcCall) -> None:
        method = call.method
        try:
            if call.refusal is not None and not isinstance(call.refusal, GrpcError):
                for answer in call.refusal:
                    await self._send(call, answer)
            elif method.takes_stream:
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
            http.send_fields(stream_id, ANSWER_HEAD)
            call.is_begun = True
        at = waiting_bytes = 0
        while at < len(data) and call.is_open:
            size = min(http.window_of(stream_id), http.frame_bytes_max, len(data) - at)
            if size <= 0 or self._is_choked:
                if not waiting_bytes:
                    waiting_bytes = 2 * len(data)  # the answer is there as well
                    self.keep(call, waiting_bytes)
                call.blocked_s = call.blocked_s or self.now_s()
                await self._answers.wait(stream_id)
                continue
            call.blocked_s = 0.0
            http.send_data(stream_id, data[at : at + size])
            at += size
            if at < len(data):
                self._flush()  # which may choke
        if waiting_bytes:
            self.keep(call, -waiting_bytes)
        self._flush_soon()

    async def _send_only(self, call: RpcCall, answer: Any) -> None:
        """Send the only answer of a call, and that all is well."""
        data = frame_message(answer.SerializeToString())
        if not self._is_choked and self._http.send_answer(call.stream_id, ANSWER_HEAD, data, OK):
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
        trailers = OK if code == GrpcCode.OK else trailers_of(code, text)
        block = trailers if call.is_begun else ANSWER_HEAD + trailers
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
        call.leave_room()
        self._account.kept -= call.kept_bytes
        call.kept_bytes, call.context = 0, None  # which may refer to the call: no garbage is left to search for
        if self._account.counted:
            self._account.note()
        if call.unread_bytes:
            self._http.release_window(call.stream_id, call.unread_bytes)
        self._busy_s = self.now_s()
        if self._is_leaving and not self.calls:
            self._flush()
            self.close()

    def _release(self, call: RpcCall) -> None:
        self._account.held -= call.held_bytes
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

    def tick(self, now_s: float, *, has_room: bool) -> None:
        """End calls whose time is over, and the connection when it is idle or dead. Call it every second or so.

        ``has_room``: of the memory budget.
        """
        self._reset_count = max(0, self._reset_count - RESETS_PER_TICK)
        blocked_since_s = now_s - (ANSWER_S_MAX if has_room else STALL_S_MAX)
        for call in list(self.calls.values()):
            if call.deadline_s is not None and call.deadline_s <= now_s:
                self._end(call, GrpcCode.DEADLINE_EXCEEDED, "the call's deadline is over")
                self._drop(call)
            elif call.task is None and call.input_due_s <= now_s:
                text = f"the call's request is not whole after {INPUT_S_MAX:g} s, the limit: send it faster"
                self._end(call, GrpcCode.DEADLINE_EXCEEDED, text)
                self._drop(call)
            elif call.blocked_s and call.blocked_s <= blocked_since_s:
                self._http.reset(call.stream_id, ErrorCode.CANCEL)
                self._flush_soon()
                self._drop(call)
        if not has_room and self._is_choked:
            self._stalled_s = self._stalled_s or now_s
            if now_s - self._stalled_s >= STALL_S_MAX:
                self.abort("unread-answers")
        elif not self._http.has_preface and now_s - self._opened_s >= INPUT_S_MAX:
            self.abort("slow-frame")
        elif not self.calls:
            if now_s - self._busy_s >= IDLE_S_MAX:
                self.leave()
        elif self._pinged_s:
            if now_s - self._pinged_s >= PING_TIMEOUT_S:
                self.abort("idle")
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

    def abort(self, reason: str) -> None:
        """Close the connection at once, and count the reason."""
        self._server.closed_for[reason] += 1
        transport, self._transport = self._transport, None
        if transport is not None:
            self._server.budget.begin_close(self, transport.get_write_buffer_size())
            transport.abort()
        self._drop_all()

    def held_bytes(self) -> int:
        """Measure and return all that is held for the client."""
        return self._account.measure()

    def _buffered_bytes(self) -> int:
        return self._http.inbox_bytes + (0 if self._transport is None else self._transport.get_write_buffer_size())

    def _drop_all(self) -> None:
        tasks = deque(call.task for call in self.calls.values() if call.task is not None)
        for call in list(self.calls.values()):
            call.is_open = False
            self._forget(call)
        self._http.drop_input()
        self._account.measure()
        cancel_some(tasks)


def cancel_some(tasks: deque[asyncio.Task[None]]) -> None:
    """Cancel tasks, some in each turn of the event loop: thousands that end at once would keep others waiting."""
    for _ in range(min(CANCELS_PER_TURN, len(tasks))):
        tasks.popleft().cancel()
    if tasks:
        asyncio.get_running_loop().call_soon(cancel_some, tasks)
