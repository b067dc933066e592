"""A connection without sockets: a client made of the library h2 speaks with it through memory."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import ConnectionTerminated, DataReceived, PingReceived, ResponseReceived, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError, StreamClosedError
from hyperframe.frame import GoAwayFrame, PingFrame

from pymq.proxy.protocol.messages import Status, Timestamp
from pymq.proxy.rpc import connection as connection_module
from pymq.proxy.rpc.call import RpcCall, RpcMethod
from pymq.proxy.rpc.call_fields import METADATA_BYTES_MAX
from pymq.proxy.rpc.connection import (
    FRAMES_PER_TURN,
    IDLE_S_MAX,
    PING_AFTER_S,
    PING_TIMEOUT_S,
    REFUSED_METADATA_BYTES_MAX,
    RpcConnection,
)
from pymq.proxy.rpc.connection_owner import RequestSizes
from pymq.proxy.rpc.server import RpcServer
from pymq.proxy.rpc.wire import PREFIX, GrpcCode, GrpcError, frame_message

PEER = "192.0.2.7:40000"
TURNS = 20  # of the event loop, enough for all that waits for nothing else


class FakeTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.7", 40000)})
        self.written = bytearray()
        self.is_paused = self.is_closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever full here."""

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Pair:
    """A connection of a server, and its client."""

    def __init__(self, methods: dict[bytes, RpcMethod], **limits: Any) -> None:
        self.server = RpcServer(methods, **{"work_s": lambda: 0.0, **limits})  # work takes no time here
        self.connection = RpcConnection(self.server)
        self.transport = FakeTransport()
        self.connection.connection_made(self.transport)
        self.client = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self.client.initiate_connection()
        self.events: list[Any] = []
        self.exchange()

    def exchange(self) -> None:
        """Give each side what the other one has written."""
        if data := self.client.data_to_send():
            self.connection.data_received(data)
        data, self.transport.written = bytes(self.transport.written), bytearray()
        if data:
            self.events += self.client.receive_data(data)

    async def settle(self) -> None:
        """Let all run that can."""
        for _ in range(TURNS):
            self.exchange()
            await asyncio.sleep(0)

    def ask(self, path: bytes, data: bytes = b"", *, ends: bool = True, **more: bytes) -> int:
        """Begin a call, and return its stream."""
        stream_id = self.client.get_next_available_stream_id()
        fields = {b":method": b"POST", b":scheme": b"http", b":path": path, b":authority": b"a", b"te": b"trailers"}
        fields[b"content-type"] = b"application/grpc"
        fields |= {name.replace("_", "-").encode(): value for name, value in more.items()}
        self.client.send_headers(stream_id, list(fields.items()), end_stream=ends and not data)
        while data:
            size = min(len(data), self.client.local_flow_control_window(stream_id), self.client.max_outbound_frame_size)
            self.client.send_data(stream_id, data[:size], end_stream=ends and size == len(data))
            data = data[size:]
            self.exchange()
        self.exchange()
        return stream_id

    def answers(self, stream_id: int) -> list[bytes]:
        """Return the messages that the client got on a stream, whose windows it opens again."""
        data = bytearray()
        for event in self.events:
            if isinstance(event, DataReceived) and event.stream_id == stream_id:
                data += event.data
        found = []
        while data:
            _, size = PREFIX.unpack_from(data)
            found.append(bytes(data[5 : 5 + size]))
            del data[: 5 + size]
        return found

    def status(self, stream_id: int) -> tuple[int, str] | None:
        """Return how a call ended; None while it has not."""
        for event in self.events:
            if isinstance(event, TrailersReceived | ResponseReceived) and event.stream_id == stream_id:
                fields = dict(event.headers)
                if b"grpc-status" in fields:
                    return int(fields[b"grpc-status"]), fields.get(b"grpc-message", b"").decode()
        return None


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def request(text: str = "hello") -> bytes:
    return frame_message(Status(code=1, message=text).SerializeToString())


async def echo(call: RpcCall, status: Any) -> Any:
    return Status(code=status.code, message=f"{call.metadata['x-name']} {status.message} {call.peer}")


async def fails(call: RpcCall, status: Any) -> Any:
    raise ValueError("a bug")


async def refuses(call: RpcCall, status: Any) -> Any:
    raise GrpcError(GrpcCode.NOT_FOUND, "no 100 %")


ECHO = {b"/S/Echo": RpcMethod(echo, Status)}


def test_a_call_is_answered() -> None:
    async def work() -> None:
        pair = Pair(ECHO)
        stream = pair.ask(b"/S/Echo", request(), x_name=b"me")
        packed = PREFIX.pack(1, 0)[:1]
        zipped = gzip.compress(request()[5:])
        second = pair.ask(
            b"/S/Echo", packed + len(zipped).to_bytes(4, "big") + zipped, x_name=b"z", grpc_encoding=b"gzip"
        )
        await pair.settle()
        assert [Status.FromString(each).message for each in pair.answers(stream)] == [f"me hello {PEER}"]
        assert [Status.FromString(each).message for each in pair.answers(second)] == [f"z hello {PEER}"]
        assert pair.status(stream) == pair.status(second) == (0, "")
        assert not pair.connection.calls

    run(work)


def test_what_is_wrong_with_a_call_ends_it_alone(caplog: pytest.LogCaptureFixture) -> None:
    methods = {**ECHO, b"/S/Fails": RpcMethod(fails, Status), b"/S/Refuses": RpcMethod(refuses, Status)}

    async def work() -> None:
        pair = Pair(methods, sizes=RequestSizes(request_bytes_max=100))
        wrong = {
            pair.ask(b"/S/Other", request()): (GrpcCode.UNIMPLEMENTED, "'/S/Other' is not served here"),
            pair.ask(b"/S/Fails", request()): (GrpcCode.INTERNAL, "ValueError: see the server's log"),
            pair.ask(b"/S/Refuses", request()): (GrpcCode.NOT_FOUND, "no 100 %25"),
            pair.ask(b"/S/Echo"): (GrpcCode.INTERNAL, "the call has 0 whole requests: send one"),
            pair.ask(b"/S/Echo", 2 * request()): (GrpcCode.INTERNAL, "the call has more than one request: send one"),
            pair.ask(b"/S/Echo", request()[:-1]): (GrpcCode.INTERNAL, "the call has 0 whole requests: send one"),
            pair.ask(b"/S/Echo", frame_message(b"\xff")): (GrpcCode.INTERNAL, "the request is no Status"),
            pair.ask(b"/S/Echo", request(), grpc_timeout=b"0S"): (
                GrpcCode.DEADLINE_EXCEEDED,
                "the call's deadline was over when it came",
            ),
            pair.ask(b"/S/Echo", request("x" * 200)): (
                GrpcCode.RESOURCE_EXHAUSTED,
                f"the message has {len(request('x' * 200)) - 5} bytes, the limit is 100: send less at once",
            ),
        }
        good = pair.ask(b"/S/Echo", request(), x_name=b"me")
        await pair.settle()
        assert {stream: pair.status(stream) for stream in wrong} == wrong
        assert pair.status(good) == (0, "")
        other = pair.ask(b"/S/Echo", request(), content_type=b"text/html")
        await pair.settle()
        (head,) = [each for each in pair.events if isinstance(each, ResponseReceived) and each.stream_id == other]
        assert dict(head.headers)[b":status"] == b"415"
        assert not pair.connection.calls and not pair.connection._account.held

    run(work)
    assert "a bug" in caplog.text


def test_a_request_larger_than_the_window_of_a_stream_comes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x" * (3 * connection_module.WINDOW_BYTES)

    async def takes(call: RpcCall, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for each in requests:
            yield Timestamp(seconds=len(each.message))

    async def work() -> None:
        pair = Pair({b"/S/Takes": RpcMethod(takes, Status, takes_stream=True, gives_stream=True)})
        stream = pair.ask(b"/S/Takes", request(text) + request("last"))
        await pair.settle()
        assert [Timestamp.FromString(each).seconds for each in pair.answers(stream)] == [len(text), 4]
        assert pair.status(stream) == (0, "")

    run(work)


def test_requests_that_nobody_took_are_given_back_with_their_call() -> None:
    """Else a client that cancels such calls could send nothing in the end."""

    async def waits(call: RpcCall, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        await asyncio.Event().wait()
        yield Status()

    async def measures(call: RpcCall, status: Any) -> Any:
        return Timestamp(seconds=len(status.message))

    async def work() -> None:
        waiting = RpcMethod(waits, Status, takes_stream=True, gives_stream=True)
        pair = Pair({b"/S/Waits": waiting, b"/S/Measures": RpcMethod(measures, Status)})
        size = connection_module.WINDOW_BYTES // 2
        for _ in range(2 * connection_module.CONNECTION_WINDOW_BYTES // size):
            stream = pair.ask(b"/S/Waits", request() + request("x" * size), ends=False)
            await pair.settle()
            pair.client.reset_stream(stream, ErrorCodes.CANCEL)
        last = pair.ask(b"/S/Measures", request("x" * size))
        await pair.settle()
        assert pair.status(last) == (0, "")

    run(work)


def test_an_answer_waits_for_the_client_s_window_and_ends_with_its_reset() -> None:
    ended = []

    async def gives(call: RpcCall, status: Any) -> AsyncIterator[Any]:
        try:
            for _ in range(3):
                yield Status(message="x" * 50_000)
        finally:
            ended.append(call.stream_id)

    async def work() -> None:
        pair = Pair({b"/S/Gives": RpcMethod(gives, Status, gives_stream=True)})
        first, second = pair.ask(b"/S/Gives", request()), pair.ask(b"/S/Gives", request())
        await pair.settle()
        sizes = [each.flow_controlled_length for each in pair.events if isinstance(each, DataReceived)]
        assert sum(sizes) == 65_535, "the client's window of the connection"
        assert not ended
        pair.client.reset_stream(second, ErrorCodes.CANCEL)
        pair.client.increment_flow_control_window(1_000_000)
        pair.client.increment_flow_control_window(1_000_000, first)
        await pair.settle()
        assert len(pair.answers(first)) == 3 and pair.status(first) == (0, "")
        assert sorted(ended) == [first, second]
        assert not pair.connection.calls

    run(work)


@pytest.mark.slow
def test_metadata_over_the_limit_fails_its_call_and_far_over_it_the_connection() -> None:
    async def work() -> None:
        pair = Pair(ECHO)
        first = pair.ask(b"/S/Echo", request(), x_name=b"me", x_big=b"n" * (METADATA_BYTES_MAX - 1024))
        second = pair.ask(b"/S/Echo", request(), x_name=b"me", x_big=b"n" * METADATA_BYTES_MAX)
        third = pair.ask(b"/S/Echo", request(), x_name=b"me")
        await pair.settle()
        assert pair.status(first) == pair.status(third) == (0, "")
        code, text = pair.status(second) or (0, "")
        assert code == GrpcCode.RESOURCE_EXHAUSTED and "the limit is 65536: send less" in text
        with suppress(StreamClosedError, ProtocolError):
            pair.ask(b"/S/Echo", request(), x_name=b"me", x_big=b"n" * REFUSED_METADATA_BYTES_MAX)
        assert pair.transport.is_closed

    run(work)


def test_a_flood_of_frames_is_handled_in_turns() -> None:
    async def work() -> None:
        pair = Pair(ECHO)
        ping = PingFrame(0, opaque_data=b"12345678").serialize()
        pair.connection.data_received(ping * (3 * FRAMES_PER_TURN))
        assert pair.transport.written.count(b"12345678") == FRAMES_PER_TURN
        await pair.settle()
        assert not pair.connection._http.inbox_bytes
        pair.connection.pause_writing()
        pair.connection.data_received(ping)
        assert pair.transport.is_paused or pair.connection._http.inbox_bytes
        pair.connection.resume_writing()
        await pair.settle()
        assert not pair.connection._http.inbox_bytes and not pair.transport.is_paused

    run(work)


def test_calls_under_way_are_answered_after_a_good_bye_of_either_side() -> None:
    gate = asyncio.Event()

    async def waits(call: RpcCall, status: Any) -> Any:
        await gate.wait()
        return status

    async def work() -> None:
        for by_client in (True, False):
            gate.clear()
            pair = Pair({b"/S/Waits": RpcMethod(waits, Status)})
            stream = pair.ask(b"/S/Waits", request())
            if by_client:
                pair.connection.data_received(GoAwayFrame(0).serialize())
            else:
                pair.connection.leave()
                data, pair.transport.written = bytes(pair.transport.written), bytearray()
                assert GoAwayFrame(0, last_stream_id=stream).serialize() in data
            gate.set()
            await pair.settle()
            assert pair.status(stream) == (0, "")
            assert pair.transport.is_closed != by_client

    run(work)


def test_deadlines_silence_and_idleness_end_calls_and_connections() -> None:
    async def waits(call: RpcCall, status: Any) -> Any:
        await asyncio.Event().wait()

    async def work() -> None:
        pair = Pair({b"/S/Waits": RpcMethod(waits, Status)})
        stream, other = pair.ask(b"/S/Waits", request(), grpc_timeout=b"5S"), pair.ask(b"/S/Waits", request())
        now_s = pair.connection.now_s()
        pair.connection.tick(now_s + 4, has_room=True)
        assert len(pair.connection.calls) == 2
        pair.connection.tick(now_s + 5, has_room=True)
        await pair.settle()
        assert pair.status(stream) == (GrpcCode.DEADLINE_EXCEEDED, "the call's deadline is over")
        assert list(pair.connection.calls) == [other]
        pair.connection.tick(now_s + PING_AFTER_S + 1, has_room=True)
        await pair.settle()
        assert any(isinstance(each, PingReceived) for each in pair.events)
        pair.connection.tick(now_s + PING_AFTER_S + PING_TIMEOUT_S + 2, has_room=True)
        assert not pair.transport.is_closed, "the client has answered"
        pair.connection.tick(now_s + 2 * (PING_AFTER_S + PING_TIMEOUT_S), has_room=True)
        pair.connection.tick(now_s + 3 * (PING_AFTER_S + PING_TIMEOUT_S), has_room=True)
        assert pair.transport.is_closed, "and does so no more"
        idle = Pair(ECHO)
        idle.connection.tick(idle.connection.now_s() + IDLE_S_MAX - 1, has_room=True)
        assert not idle.transport.is_closed
        idle.connection.tick(idle.connection.now_s() + IDLE_S_MAX, has_room=True)
        assert idle.transport.is_closed

    run(work)


def test_bytes_that_are_no_http_2_close_the_connection_with_a_word() -> None:
    async def work() -> None:
        pair = Pair(ECHO)
        stream = pair.ask(b"/S/Echo", request(), ends=False, x_name=b"me")
        pair.connection.data_received(b"\xff" * 100)
        pair.exchange()
        assert pair.transport.is_closed and not pair.connection.calls
        assert any(isinstance(each, ConnectionTerminated) for each in pair.events)
        assert pair.status(stream) is None
        other = RpcConnection(pair.server)
        transport = FakeTransport()
        other.connection_made(transport)
        other.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert transport.is_closed

    run(work)


def test_requests_that_are_not_taken_have_a_limit() -> None:
    async def work() -> None:
        pair = Pair(ECHO, sizes=RequestSizes(1000, held_bytes_max=1500))
        parts = [pair.ask(b"/S/Echo", PREFIX.pack(0, 900) + bytes(700), ends=False) for _ in range(3)]
        await pair.settle()
        assert [pair.status(each) for each in parts][:2] == [None, None]
        code, text = pair.status(parts[2]) or (0, "")
        assert code == GrpcCode.RESOURCE_EXHAUSTED and "more than 1500 bytes, the limit" in text
        assert any(isinstance(each, StreamReset) and each.stream_id == parts[2] for each in pair.events)

    run(work)
