"""What a client can make a connection hold or do, at the edge of each limit."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("h2")

from h2.errors import ErrorCodes
from h2.events import StreamReset

from pymq.net.limits import ServerLimits
from pymq.net.memory_budget import GRPC_CALLS, MemoryBudget
from pymq.proxy.inflating import THREADS, inflated_by
from pymq.proxy.protocol import messages as m
from pymq.proxy.rpc import call as call_module
from pymq.proxy.rpc.call import FIELDS_MAX, SMALL_BYTES_MAX, WAITING_REQUESTS_MAX, RpcCall, RpcMethod
from pymq.proxy.rpc.call_fields import INPUT_S_MAX
from pymq.proxy.rpc.connection import ANSWER_S_MAX, RESETS_MAX, STALL_S_MAX, RpcConnection
from pymq.proxy.rpc.connection_account import COUNTED_BYTES
from pymq.proxy.rpc.connection_owner import RequestSizes
from pymq.proxy.rpc.server import RpcServer
from pymq.proxy.rpc.wire import GrpcCode, GrpcError, frame_message
from tests.proxy.rpc.test_connection import FakeTransport, Pair

KIB = 1024


async def echo(call: RpcCall, request: Any) -> Any:
    return m.Status(message=f"{len(request.messages)} messages")


async def never(call: RpcCall, requests: Any) -> AsyncIterator[Any]:
    await asyncio.Event().wait()
    yield m.Status()


async def answers(call: RpcCall, request: Any) -> AsyncIterator[Any]:
    yield m.Status(message="x" * 100 * KIB)


METHODS = {
    b"/S/Send": RpcMethod(echo, m.SendMessageRequest),
    b"/S/Small": RpcMethod(echo, m.SendMessageRequest, request_bytes_max=100),
    b"/S/Never": RpcMethod(never, m.Status, takes_stream=True, gives_stream=True),
    b"/S/Answers": RpcMethod(answers, m.Status, gives_stream=True),
}


async def until_ended(pair: Pair, stream: int) -> tuple[int, str]:
    async with asyncio.timeout(30):
        while (status := pair.status(stream)) is None:
            pair.exchange()
            await asyncio.sleep(0.001)
    return status


def test_a_call_with_one_request_keeps_no_further_one() -> None:
    async def work() -> None:
        pair = Pair(METHODS)
        stream = pair.ask(b"/S/Send", frame_message(b"") + frame_message(b"x")[:5], ends=False)
        assert await until_ended(pair, stream) == (GrpcCode.INTERNAL, "the call has more than one request: send one")
        assert pair.connection.held_bytes() == 0

    asyncio.run(work())


def test_a_stream_keeps_so_many_requests_that_nobody_takes() -> None:
    async def work() -> None:
        pair = Pair(METHODS)
        full = pair.ask(b"/S/Never", frame_message(b"") * WAITING_REQUESTS_MAX, ends=False)
        over = pair.ask(b"/S/Never", frame_message(b"") * (WAITING_REQUESTS_MAX + 1), ends=False)
        code, text = await until_ended(pair, over)
        assert code == GrpcCode.RESOURCE_EXHAUSTED and f"{WAITING_REQUESTS_MAX} requests" in text
        assert pair.status(full) is None and full in pair.connection.calls
        pair.connection.close(at_once=True)
        await pair.settle()

    asyncio.run(work())


def test_a_method_has_its_own_limit_of_a_request() -> None:
    async def work() -> None:
        pair = Pair(METHODS)
        assert await until_ended(pair, pair.ask(b"/S/Small", frame_message(b"\x0a\x00" * 50))) == (0, "")
        code, text = await until_ended(pair, pair.ask(b"/S/Small", frame_message(b"\x0a\x00" * 51)))
        assert code == GrpcCode.RESOURCE_EXHAUSTED and "the limit is 100" in text

    asyncio.run(work())


@pytest.mark.parametrize("packed", [False, True])
def test_fields_are_counted_before_they_are_decoded(packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_module, "FIELDS_MAX", 40_000)

    async def work() -> None:
        pair = Pair(METHODS)

        def asked(count: int) -> int:
            data = b"\x0a\x00" * count
            if not packed:
                return pair.ask(b"/S/Send", frame_message(data))
            data = gzip.compress(data)
            framed = b"\x01" + len(data).to_bytes(4, "big") + data
            return pair.ask(b"/S/Send", framed, grpc_encoding=b"gzip")

        at_the_limit, over = asked(40_000), asked(40_001)
        assert await until_ended(pair, at_the_limit) == (0, "")
        code, text = await until_ended(pair, over)
        assert code == GrpcCode.RESOURCE_EXHAUSTED and "more than 40000 fields" in text
        await pair.settle()
        assert pair.server.room.taken_bytes == 0 and pair.connection.held_bytes() == 0

    assert SMALL_BYTES_MAX < 2 * 40_000 and FIELDS_MAX > SMALL_BYTES_MAX // 2
    asyncio.run(work())


def test_a_request_is_inflated_up_to_its_limit_whatever_it_is_made_of() -> None:
    async def work() -> None:
        pair = Pair(METHODS, sizes=RequestSizes(request_bytes_max=200 * KIB))
        for size, expected in ((200 * KIB, GrpcCode.OK), (200 * KIB + 1, GrpcCode.RESOURCE_EXHAUSTED)):
            body = size - 10
            inner = m.SendMessageRequest()
            inner.messages.add(body=bytes(body))
            data = zlib.compress(inner.SerializeToString()[:0] + _padded(size))
            framed = b"\x01" + len(data).to_bytes(4, "big") + data
            code, _ = await until_ended(pair, pair.ask(b"/S/Send", framed, grpc_encoding=b"deflate"))
            assert code == expected, size

    asyncio.run(work())


def _padded(size: int) -> bytes:
    """Return a request of so many bytes with one field that the definition does not have."""
    head = b"\xfa\x01"  # field 31, length-delimited
    length = size - len(head) - 3
    return head + bytes((length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14)) + bytes(length)


def test_an_answer_that_nobody_takes_ends_its_call() -> None:
    async def work() -> None:
        pair = Pair(METHODS)
        pair.client.update_settings({4: 0})
        pair.exchange()
        for has_room, limit_s in ((True, ANSWER_S_MAX), (False, STALL_S_MAX)):
            stream = pair.ask(b"/S/Answers", frame_message(b""))
            await pair.settle()
            call = pair.connection.calls[stream]
            assert call.kept_bytes > 200 * KIB, "it is counted, and what it was made of"
            assert pair.server.budget.held[GRPC_CALLS] > 200 * KIB
            pair.connection.tick(call.blocked_s + limit_s - 0.1, has_room=has_room)
            assert stream in pair.connection.calls
            pair.connection.tick(call.blocked_s + limit_s, has_room=has_room)
            await pair.settle()
            resets = [each for each in pair.events if isinstance(each, StreamReset) and each.stream_id == stream]
            assert [each.error_code for each in resets] == [ErrorCodes.CANCEL]
            assert not pair.connection.calls and pair.connection.held_bytes() == 0

    asyncio.run(work())


def test_an_answer_goes_on_when_its_window_or_that_of_all_opens() -> None:
    async def work() -> None:
        pair = Pair(METHODS)
        streams = [pair.ask(b"/S/Answers", frame_message(b"")) for _ in range(4)]
        for _ in range(40):
            await pair.settle()
            for event in [each for each in pair.events if hasattr(each, "flow_controlled_length")]:
                if event.flow_controlled_length:
                    pair.client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    event.flow_controlled_length = 0
        assert [pair.status(each) for each in streams] == [(0, "")] * 4

    asyncio.run(work())


def test_a_request_that_is_never_whole_ends() -> None:
    async def work() -> None:
        pair = Pair(METHODS)
        stream = pair.ask(b"/S/Send", frame_message(bytes(100))[:50], ends=False)
        due_s = pair.connection.calls[stream].input_due_s
        assert due_s == pytest.approx(pair.connection.now_s() + INPUT_S_MAX, abs=10)
        pair.connection.tick(due_s - 0.1, has_room=True)
        await pair.settle()
        assert pair.status(stream) is None
        pair.connection.tick(due_s, has_room=True)
        code, _ = await until_ended(pair, stream)
        assert code == GrpcCode.DEADLINE_EXCEEDED

    asyncio.run(work())


@pytest.mark.slow
def test_calls_that_are_given_up_at_once_have_a_limit() -> None:
    async def work() -> None:
        pair = Pair(METHODS)
        for number in range(RESETS_MAX + 1):
            stream = pair.ask(b"/S/Never", ends=False)
            pair.client.reset_stream(stream)
            pair.exchange()
            if number % 100 == 0:
                await asyncio.sleep(0)
            assert pair.transport.is_closed == (number == RESETS_MAX)
        await pair.settle()

    asyncio.run(work())


def test_a_refused_call_keeps_nothing_of_its_request() -> None:
    """Credentials are in the metadata: what follows is not even kept."""
    seen: list[str] = []

    def admit(call: RpcCall) -> list[Any] | None:
        seen.append(call.metadata["x-name"])
        return None if call.metadata["x-name"] == "friend" else [m.Status(message="who?")]

    def admit_stream(call: RpcCall) -> None:
        raise GrpcError(GrpcCode.UNAUTHENTICATED, "who?")

    async def work() -> None:
        methods = {
            b"/S/Send": RpcMethod(echo, m.SendMessageRequest, admit=admit),
            b"/S/Never": RpcMethod(never, m.Status, takes_stream=True, gives_stream=True, admit=admit_stream),
        }
        pair = Pair(methods)
        assert await until_ended(pair, pair.ask(b"/S/Send", frame_message(b"\x0a\x00"), x_name=b"friend")) == (0, "")
        stranger = pair.ask(b"/S/Send", b"\0\x00\xff\xff\xff", ends=False, x_name=b"stranger")
        assert await until_ended(pair, stranger) == (0, "")
        assert m.Status.FromString(pair.answers(stranger)[0]).message == "who?"
        assert seen == ["friend", "stranger"] and pair.connection.held_bytes() == 0
        # A stream ends once its client has sent something: clients take an earlier end for an error of the network.
        stream = pair.ask(b"/S/Never", ends=False)
        await pair.settle()
        assert pair.status(stream) is None
        pair.client.send_data(stream, frame_message(b""))
        assert await until_ended(pair, stream) == (GrpcCode.UNAUTHENTICATED, "who?")

    asyncio.run(work())


def test_over_the_budget_the_greediest_connection_goes() -> None:
    async def work() -> None:
        budget = MemoryBudget(300 * KIB)
        pair = Pair(METHODS, budget=budget)
        pair.ask(b"/S/Send", frame_message(bytes(250 * KIB))[: 240 * KIB], ends=False)
        assert not pair.transport.is_closed and budget.held[GRPC_CALLS] > 240 * KIB - COUNTED_BYTES
        pair.ask(b"/S/Send", frame_message(bytes(250 * KIB))[: 200 * KIB], ends=False)
        assert pair.transport.is_closed and pair.server.closed_for["memory-budget"] == 1
        assert budget.held[GRPC_CALLS] == 0
        await pair.settle()

    asyncio.run(work())


def test_connections_without_a_call_make_room_for_new_ones() -> None:
    async def work() -> None:
        server = RpcServer(METHODS, limits=ServerLimits(connection_count_max=3, connection_count_per_host_max=2))

        def connect(host: str) -> tuple[RpcConnection, FakeTransport]:
            connection, transport = RpcConnection(server), FakeTransport()
            transport._extra["peername"] = (host, 1)  # type: ignore[attr-defined]
            connection.connection_made(transport)
            return connection, transport

        first, second = connect("a"), connect("a")
        third = connect("a")
        assert [each[1].is_closed for each in (first, second, third)] == [True, False, False]
        server.called(second[0])
        server.called(third[0])
        fourth = connect("a")
        assert fourth[1].is_closed and server.closed_for["connection-count-per-host"] == 1
        other = connect("b")
        assert not other[1].is_closed
        assert connect("c")[1].is_closed is False and other[1].is_closed, "the one of all that has made no call"
        assert len(server.connections) == 3
        for each in list(server.connections):
            each.connection_lost(None)
        assert not server.connections and not server.budget.hosts["a"]
        await asyncio.sleep(0)

    asyncio.run(work())


def test_two_threads_inflate_and_small_data_needs_none() -> None:
    async def work() -> None:
        assert await inflated_by(lambda data, more: data + more, b"a", b"b") == b"ab"
        running = 0
        most = 0

        def slow(data: bytes) -> int:
            nonlocal running, most
            running += 1
            most = max(most, running)
            zlib.compress(data * 50)
            running -= 1
            return len(data)

        found = await asyncio.gather(*[inflated_by(slow, bytes(100 * KIB)) for _ in range(8)])
        assert found == [100 * KIB] * 8 and most <= THREADS

    asyncio.run(work())
