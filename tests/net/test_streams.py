"""Streams over real sockets, on asyncio's loop and on uvloop: bytes, write buffers, ends, requests to peers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from pymq.clock import SystemClock
from pymq.net.client import RemotingClient
from pymq.net.memory_budget import HA_STREAMS, MIB, MemoryBudget
from pymq.net.streams import WRITE_HIGH_BYTES, SocketNetwork, SocketStream, StreamServer
from pymq.wire.command import Command, request
from pymq.wire.reply import Reply
from pymq.wire.streams import Stream
from tests.client.fake_broker import FakeServer

ECHO, SILENT = 901, 902
WAIT_S = 20


class Handler:
    """Records every event; a test can wait for each kind."""

    def __init__(self, changed: asyncio.Event | None = None) -> None:
        """``changed`` is set with each event; handlers that a test waits for together share it."""
        self.stream: Any = None
        self.data = bytearray()
        self.why: str | None = None
        self.writable_count = 0
        self.changed = changed or asyncio.Event()

    def opened(self, stream: Stream) -> None:
        self.stream = stream
        self.changed.set()

    def received(self, data: bytes) -> None:
        self.data += data
        self.changed.set()

    def writable(self) -> None:
        self.writable_count += 1
        self.changed.set()

    def closed(self, why: str) -> None:
        assert self.why is None, "closed twice"
        self.why = why
        self.changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                await self.changed.wait()
                self.changed.clear()


class Pair:
    """Both ends of one connection."""

    def __init__(self, network: SocketNetwork, server: StreamServer, here: Handler, there: Handler) -> None:
        self.network, self.server, self.here, self.there = network, server, here, there

    @property
    def ours(self) -> SocketStream:
        assert self.here.stream is not None
        return self.here.stream

    @property
    def theirs(self) -> SocketStream:
        assert self.there.stream is not None
        return self.there.stream


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    def run_on_loop(scenario: Callable[[], Awaitable[None]]) -> None:
        factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(scenario())  # type: ignore[arg-type]

    return run_on_loop


async def connected(budget: MemoryBudget | None = None) -> Pair:
    here = Handler()
    accepted: list[Handler] = []

    def accept() -> Handler:
        accepted.append(Handler(here.changed))
        return accepted[-1]

    server = StreamServer(accept, budget or MemoryBudget())
    port = await server.start("127.0.0.1", 0)
    network = SocketNetwork(RemotingClient(clock=SystemClock()))
    network.connect(f"127.0.0.1:{port}", here)
    await here.until(lambda: here.stream)
    assert here.stream is not None
    here.stream.write(b"!")  # the server accepts after the client has connected
    await here.until(lambda: accepted and accepted[0].data)
    accepted[0].data.clear()
    return Pair(network, server, here, accepted[0])


async def eventually(condition: Callable[[], object]) -> None:
    """Wait for what no handler is told of."""
    async with asyncio.timeout(WAIT_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


UNREAD_BYTES = 4 * MIB  # more than the sockets' buffers take


def test_what_the_peer_of_an_accepted_stream_has_not_read_counts(run: Any) -> None:
    async def scenario() -> None:
        budget = MemoryBudget()
        pair = await connected(budget)
        pair.ours._transport.pause_reading()
        pair.theirs.write(bytes(UNREAD_BYTES))
        assert 0 < budget.held[HA_STREAMS] == budget.total_bytes <= UNREAD_BYTES
        pair.ours.write(bytes(UNREAD_BYTES))
        assert budget.held[HA_STREAMS] <= UNREAD_BYTES, "the stream that was opened here counts nothing"
        pair.ours._transport.resume_reading()
        await pair.here.until(lambda: len(pair.here.data) == UNREAD_BYTES)
        await eventually(lambda: pair.theirs.held_bytes() == 0)
        assert budget.total_bytes == 0
        pair.network.close()
        pair.server.stop()

    run(scenario)


def test_over_the_budget_a_stream_that_is_not_read_is_closed(run: Any) -> None:
    async def scenario() -> None:
        budget = MemoryBudget(MIB)
        pair = await connected(budget)
        pair.ours._transport.pause_reading()
        pair.theirs.write(bytes(UNREAD_BYTES))
        assert budget.closed_count == 1 and budget.total_bytes == 0
        await pair.there.until(lambda: pair.there.why)
        pair.theirs.write(b"late")
        pair.network.close()
        pair.server.stop()
        assert budget.total_bytes == 0

    run(scenario)


def test_bytes_go_both_ways(run: Any) -> None:
    async def scenario() -> None:
        pair = await connected()
        pair.ours.write(b"hello")
        pair.ours.write(memoryview(b"-world-")[1:6])
        await pair.there.until(lambda: len(pair.there.data) == 10)
        pair.theirs.write(b"back")
        await pair.here.until(lambda: len(pair.here.data) == 4)
        assert (bytes(pair.there.data), bytes(pair.here.data)) == (b"helloworld", b"back")
        assert pair.theirs.peer_address.startswith("127.0.0.1:")
        pair.server.stop()
        await pair.here.until(lambda: pair.here.why)

    run(scenario)


def test_small_writes_leave_at_once(run: Any) -> None:
    async def scenario() -> None:
        pair = await connected()
        for stream in (pair.ours, pair.theirs):
            assert stream._transport is not None
            endpoint = stream._transport.get_extra_info("socket")
            assert endpoint.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        pair.server.stop()
        await pair.here.until(lambda: pair.here.why)

    run(scenario)


def test_each_want_writable_gets_one_callback(run: Any) -> None:
    async def scenario() -> None:
        pair = await connected()
        pair.ours.want_writable()
        assert pair.here.writable_count == 0, "never within the call"
        pair.ours.want_writable()
        await pair.here.until(lambda: pair.here.writable_count)
        pair.ours.write(b"x")
        await pair.there.until(lambda: pair.there.data)
        assert pair.here.writable_count == 1
        pair.server.stop()
        await pair.here.until(lambda: pair.here.why)

    run(scenario)


def test_a_write_waits_for_a_slow_peer(run: Any) -> None:
    async def scenario() -> None:
        pair = await connected()
        assert pair.theirs._transport is not None
        pair.theirs._transport.pause_reading()
        sent = 0
        while pair.ours.unsent_bytes <= WRITE_HIGH_BYTES:
            pair.ours.write(bytes(WRITE_HIGH_BYTES // 2))
            sent += WRITE_HIGH_BYTES // 2
            await asyncio.sleep(0)
        pair.ours.want_writable()
        for _ in range(5):
            await asyncio.sleep(0)
        assert pair.here.writable_count == 0
        pair.theirs._transport.resume_reading()
        await pair.here.until(lambda: pair.here.writable_count)
        await pair.there.until(lambda: len(pair.there.data) == sent)
        assert pair.ours.unsent_bytes == 0
        pair.server.stop()
        await pair.here.until(lambda: pair.here.why)

    run(scenario)


def test_a_close_sends_what_was_written_before(run: Any) -> None:
    async def scenario() -> None:
        pair = await connected()
        pair.ours.write(b"x" * 300_000)
        pair.ours.close()
        pair.ours.write(b"dropped")
        await pair.here.until(lambda: pair.here.why)
        await pair.there.until(lambda: pair.there.why)
        assert bytes(pair.there.data) == b"x" * 300_000
        assert (pair.here.why, pair.there.why) == ("it was closed here", "the peer closed it")
        pair.server.stop()

    run(scenario)


def test_a_peer_that_reads_nothing_does_not_keep_a_closed_stream(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymq.net.streams.CLOSE_TIMEOUT_S", 0.01)

    async def scenario() -> None:
        pair = await connected()
        assert pair.theirs._transport is not None
        pair.theirs._transport.pause_reading()
        while not pair.ours.unsent_bytes:
            pair.ours.write(bytes(WRITE_HIGH_BYTES))
            await asyncio.sleep(0)
        pair.ours.close()
        await pair.here.until(lambda: pair.here.why)
        pair.server.stop()
        await pair.there.until(lambda: pair.there.why)

    run(scenario)


@pytest.mark.parametrize(
    ("address", "text"), [("127.0.0.1:1", "is a broker running there"), ("nonsense", "write host:port")]
)
def test_a_failed_connect_is_reported(run: Any, address: str, text: str) -> None:
    async def scenario() -> None:
        handler = Handler()
        SocketNetwork(RemotingClient(clock=SystemClock())).connect(address, handler)
        assert handler.why is None, "later, not within the call"
        await handler.until(lambda: handler.why)
        assert handler.why is not None and text in handler.why
        assert handler.stream is None

    run(scenario)


def test_an_ask_yields_the_answer_or_the_reason(run: Any) -> None:
    async def scenario() -> None:
        server = await FakeServer().start()
        server.on(ECHO, lambda command: Reply(code=7, body=command.body))
        server.on(SILENT, lambda command: None)
        client = RemotingClient(clock=SystemClock())
        network = SocketNetwork(client)
        answers: asyncio.Queue[Command | str] = asyncio.Queue()
        network.ask(server.address, request(ECHO, body=b"question"), answers.put_nowait, 5000)
        answer = await answers.get()
        assert isinstance(answer, Command) and (answer.code, answer.body) == (7, b"question")
        network.ask("127.0.0.1:1", request(ECHO), answers.put_nowait, 5000)
        refused = await answers.get()
        assert isinstance(refused, str) and "127.0.0.1:1" in refused
        # With an open connection a request needs no task.
        tasks = asyncio.all_tasks()
        network.ask(server.address, request(ECHO, body=b"again"), answers.put_nowait, 5000)
        assert asyncio.all_tasks() == tasks
        again = await answers.get()
        assert isinstance(again, Command) and again.body == b"again"
        network.ask(server.address, request(SILENT), answers.put_nowait, 1)
        late = await answers.get()
        assert isinstance(late, str) and "in time" in late
        network.ask(server.address, request(ECHO, body=b"unread"), answers.put_nowait, 5000)
        network.close()
        await client.close()
        assert answers.empty()
        await server.stop()

    run(scenario)


def test_a_closed_network_delivers_no_answers(run: Any) -> None:
    async def scenario() -> None:
        pair = await connected()
        answers: list[Command | str] = []
        pair.network.ask("127.0.0.1:1", request(ECHO), answers.append, 5000)
        pair.network.close()
        await pair.here.until(lambda: pair.here.why)
        assert answers == []
        pair.server.stop()

    run(scenario)


def test_closing_the_network_ends_a_pending_connect(run: Any) -> None:
    async def scenario() -> None:
        server = StreamServer(Handler, MemoryBudget())
        port = await server.start("127.0.0.1", 0)
        network, handler = SocketNetwork(RemotingClient(clock=SystemClock())), Handler()
        network.connect(f"127.0.0.1:{port}", handler)
        network.close()
        await handler.until(lambda: handler.why)
        assert handler.stream is None
        server.stop()

    run(scenario)
