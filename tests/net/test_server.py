"""The listening side over real loopback sockets: frames, turns, late answers, asks, caps."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from pymq.clock import ManualClock, SystemClock
from pymq.errors import ProtocolViolation
from pymq.net.limits import ServerLimits
from pymq.net.memory_budget import UNFINISHED_FRAMES, MemoryBudget
from pymq.net.rounds import PIECE_BYTES, PIECE_BYTES_MIN, READ_S_PER_BYTE, ROUND_S, SLICE_S
from pymq.net.server import Connection, Server
from pymq.net.server_hooks import ServerHooks
from pymq.net.writing import JOINED_BYTES_MAX
from pymq.wire.access import any_user
from pymq.wire.codes import ResponseCode
from pymq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Command, decode_command, encode_command
from pymq.wire.dispatch import Dispatcher, Peer, Route
from pymq.wire.framing import FrameBuffer
from pymq.wire.reply import Reply

ECHO = 500
LATER = 501
BROKEN = 502


class Client:
    """A raw socket that speaks frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._frames = FrameBuffer()
        self._ready: list[Command] = []

    def send(self, *commands: Command) -> None:
        self.writer.write(b"".join(encode_command(command) for command in commands))

    async def receive(self) -> Command | None:
        """Return the next frame; None when the server closed."""
        while not self._ready:
            data = await asyncio.wait_for(self.reader.read(65536), 5)
            if not data:
                return None
            self._ready = [decode_command(payload) for payload in self._frames.feed(data)]
        return self._ready.pop(0)


class Fixture:
    def __init__(
        self,
        limits: ServerLimits | None = None,
        clock: ManualClock | None = None,
        budget: MemoryBudget | None = None,
    ) -> None:
        self.turns = 0
        self.parked: list[tuple[Peer, Command]] = []
        self.gone: list[Connection] = []
        self.clients: list[Client] = []
        routes = [
            Route(ECHO, None, lambda request, header, peer: Reply(body=request.body), any_user()),
            Route(LATER, None, self._later, any_user()),
            Route(BROKEN, None, self._broken, any_user()),
        ]
        self.server = Server(
            Dispatcher(routes, "test server"),
            clock=clock or SystemClock(),
            limits=limits or ServerLimits(),
            hooks=ServerHooks(on_turn_end=self._turn, on_disconnect=self.gone.append),
            budget=budget,
        )

    def _turn(self) -> None:
        self.turns += 1

    def _later(self, request: Command, header: object, peer: Peer) -> Reply | None:
        self.parked.append((peer, request))
        return None

    def _broken(self, request: Command, header: object, peer: Peer) -> Reply:
        raise RuntimeError("a bug")

    async def connect(self, port: int) -> Client:
        self.clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
        return self.clients[-1]


def run(body: Callable[[Fixture, int], Awaitable[None]], fixture: Fixture | None = None) -> Fixture:
    fixture = fixture or Fixture()

    async def main() -> None:
        port = await fixture.server.start("127.0.0.1", 0)
        try:
            await body(fixture, port)
        finally:
            for client in fixture.clients:
                client.writer.transport.abort()
            await fixture.server.stop()
            await until(lambda: not fixture.server.connections)

    asyncio.run(main())
    return fixture


async def until(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 5
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "the condition did not come true within 5 s"
        await asyncio.sleep(0.001)


def test_requests_are_answered_with_their_opaque_and_in_one_turn() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.send(*(Command(ECHO, opaque=i, body=b"%d" % i) for i in range(50)))
        answers = [await client.receive() for _ in range(50)]
        assert [(a.opaque, a.body) for a in answers if a] == [(i, b"%d" % i) for i in range(50)]
        assert 1 <= fixture.turns < 50

    run(body)


def test_a_partial_frame_ends_no_turn() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        await until(lambda: bool(fixture.server.connections))
        (connection,) = fixture.server.connections
        frame = encode_command(Command(ECHO, opaque=1))
        connection.data_received(frame[:5])
        await asyncio.sleep(0)
        assert fixture.turns == 0
        connection.data_received(frame[5:])
        assert await client.receive() is not None
        assert fixture.turns == 1

    run(body)


def test_a_failing_turn_end_holds_no_answer_back() -> None:
    failures = []

    class Failing(Fixture):
        def _turn(self) -> None:
            failures.append(True)
            raise RuntimeError("a bug")

    async def body(fixture: Fixture, port: int) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        client = await fixture.connect(port)
        for opaque in (1, 2):
            client.send(Command(ECHO, opaque=opaque))
            answer = await client.receive()
            assert answer is not None and answer.opaque == opaque
        fixture.server._on_turn_end = None  # stopping ends a turn too

    run(body, Failing())
    assert len(failures) >= 2


def test_a_one_way_request_gets_no_answer_even_on_error() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.send(Command(BROKEN, opaque=1, flag=FLAG_ONEWAY), Command(999, opaque=2, flag=FLAG_ONEWAY))
        client.send(Command(ECHO, opaque=3))
        answer = await client.receive()
        assert answer is not None and answer.opaque == 3

    run(body)


def test_an_unknown_code_and_a_broken_handler_answer_with_their_names() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.send(Command(200050, opaque=1), Command(BROKEN, opaque=2))
        unknown, broken = await client.receive(), await client.receive()
        assert unknown is not None and unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert "200050" in (unknown.remark or "")
        assert broken is not None and broken.code == ResponseCode.SYSTEM_ERROR and "a bug" in (broken.remark or "")

    run(body)


def test_a_late_answer_reaches_the_client() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.send(Command(LATER, opaque=9))
        await until(lambda: bool(fixture.parked))
        peer, request = fixture.parked[0]
        peer.answer(request, Reply(body=b"at last"))
        answer = await client.receive()
        assert answer is not None and (answer.opaque, answer.body) == (9, b"at last")

    run(body)


@pytest.mark.parametrize("size", [10, JOINED_BYTES_MAX, 5 * JOINED_BYTES_MAX])
def test_answers_of_one_turn_arrive_whole_and_in_order_at_any_size(size: int) -> None:
    bodies = [bytes([number]) * size for number in range(5)]

    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.send(*(Command(LATER, opaque=number) for number in range(5)))
        await until(lambda: len(fixture.parked) == 5)
        for (peer, request), each in zip(fixture.parked, bodies, strict=True):
            peer.answer(request, Reply(body=each))
        answers = [await client.receive() for _ in bodies]
        assert [(a.opaque, a.body) for a in answers if a] == list(enumerate(bodies))

    run(body)


def test_the_server_can_ask_its_client() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.send(Command(LATER, opaque=1))
        await until(lambda: bool(fixture.parked))
        got: list[Command | None] = []
        fixture.parked[0][0].ask(Command(307), got.append, 10_000)
        asked = await client.receive()
        assert asked is not None and asked.code == 307
        client.send(Command(0, opaque=asked.opaque, flag=FLAG_RESPONSE, body=b"info"))
        await until(lambda: bool(got))
        assert got[0] is not None and got[0].body == b"info"

    run(body)


def test_an_ask_returns_none_on_disconnect_or_timeout() -> None:
    clock = ManualClock()
    fixture = Fixture(clock=clock)

    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.send(Command(LATER, opaque=1))
        await until(lambda: bool(fixture.parked))
        got: list[Command | None] = []
        peer = fixture.parked[0][0]
        peer.ask(Command(307), got.append, 50)
        clock.advance(51)
        fixture.server._sweep()
        assert got == [None]
        peer.ask(Command(307), got.append, 50_000)
        client.writer.close()
        await until(lambda: len(got) == 2)
        assert got == [None, None]
        await until(lambda: bool(fixture.gone))

    run(body, fixture)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\xff\xff\xff\xff", "frame-length"),
        (b"\x00\x00\x00\x03abc", "frame-length"),
        (b"\x01\x00\x00\x01", "frame-length"),
        (b"\x16\x03\x01\x02\x00", "tls-hello"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x09abcd", "header-length"),
        (b"\x00\x00\x00\x08\x07\x00\x00\x04abcd", "serialize-type"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x04abcd", "json-header"),
    ],
)
def test_a_broken_frame_closes_its_connection_only(raw: bytes, reason: str) -> None:
    async def body(fixture: Fixture, port: int) -> None:
        bad, good = await fixture.connect(port), await fixture.connect(port)
        bad.writer.write(raw)
        try:
            assert await bad.receive() is None
        except ConnectionResetError:
            pass
        good.send(Command(ECHO, opaque=1))
        assert await good.receive() is not None
        assert fixture.server.bad_frames == {reason: 1}

    run(body)


def test_connection_caps() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        first = await fixture.connect(port)
        first.send(Command(ECHO, opaque=1))
        assert await first.receive() is not None
        second = await fixture.connect(port)
        try:
            assert await second.receive() is None
        except ConnectionResetError:
            pass
        assert fixture.server.closed_for["connection-count-per-host"] == 1
        first.writer.close()
        await until(lambda: not fixture.server.connections)
        third = await fixture.connect(port)
        third.send(Command(ECHO, opaque=1))
        assert await third.receive() is not None

    run(body, Fixture(ServerLimits(connection_count_per_host_max=1)))


def test_a_client_that_reads_nothing_costs_bounded_memory_and_is_closed() -> None:
    limits = ServerLimits(write_pause_bytes=64 * 1024, write_buffer_max_bytes=256 * 1024)

    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(Command(LATER, opaque=1))
        await until(lambda: bool(fixture.parked))
        peer, request = fixture.parked[0]

        def flood() -> bool:
            peer.answer(request, Reply(body=bytes(100_000)))
            return peer.closed

        await until(flood)
        assert fixture.server.closed_for["unread-answers"] == 1

    run(body, Fixture(limits))


def test_a_connection_made_while_the_loop_is_blocked_is_not_idle() -> None:
    clock = ManualClock()

    async def body(fixture: Fixture, port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)):  # the system accepts it, the loop cannot yet
            clock.advance(ServerLimits().idle_close_ms + 1)
            fixture.server.note_time()
            await until(lambda: len(fixture.server.connections) == 1)
            fixture.server._sweep()
            assert fixture.server.closed_for == {}
            clock.advance(ServerLimits().idle_close_ms + 1)
            fixture.server._sweep()
            assert fixture.server.closed_for == {"idle": 1}

    run(body, Fixture(clock=clock))


def test_idle_and_dripping_connections_are_closed() -> None:
    clock = ManualClock()

    async def body(fixture: Fixture, port: int) -> None:
        _, dripping = await fixture.connect(port), await fixture.connect(port)
        await until(lambda: len(fixture.server.connections) == 2)
        fixture.server._sweep()
        dripping.writer.write(b"\x00\x00\x00\x40\x00")
        await until(lambda: any(c._frames.pending_size_bytes for c in fixture.server.connections))
        clock.advance(30_001)
        fixture.server._sweep()
        assert fixture.server.closed_for == {"slow-frame": 1}
        clock.advance(90_000)
        fixture.server._sweep()
        assert fixture.server.closed_for == {"slow-frame": 1, "idle": 1}

    run(body, Fixture(clock=clock))


def test_broken_frames_of_one_host_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(Dispatcher([], "test server"), clock=ManualClock())
    connection = Connection(server)
    for port in range(30):
        connection.address = f"10.0.0.9:{port}"
        server.report_violation(connection, ProtocolViolation("frame-size", f"a frame of {port} bytes"))
    assert [record.message for record in caplog.records] == ["closing 10.0.0.9:0: a frame of 0 bytes"]
    assert server.bad_frames["frame-size"] == 30


def test_a_long_read_is_counted_under_its_request_and_a_long_end_of_a_turn_as_such(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fixture = Fixture()

    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.send(Command(ECHO, opaque=1))
        await client.receive()
        turns = fixture.server.turns
        # Every look takes long. The times go on from those that the server has seen.
        turns.now_s = itertools.count(time.perf_counter() + 1, 0.2).__next__
        turns._cpu_s = itertools.count(time.thread_time() + 1, 0.2).__next__
        client.send(Command(10, opaque=2))
        await client.receive()
        await until(lambda: turns.long_turns.keys() >= {"SEND_MESSAGE", "end of a turn"})

    run(body, fixture)
    assert "SEND_MESSAGE (1 frames) from 127.0.0.1:" in caplog.text


class Slow:
    """Makes each request of a server take ``work_s`` by the turn watch's clock, which nothing else moves."""

    def __init__(self, fixture: Fixture, work_s: float) -> None:
        self.now_s = 0.0
        self.served: list[str] = []  # the ports that requests came from
        fixture.server.turns.now_s = lambda: self.now_s
        dispatch = fixture.server.dispatcher.dispatch

        def slowly(peer: Peer, command: Command) -> Reply | None:
            self.now_s += work_s
            self.served.append(peer.address.rpartition(":")[2])
            return dispatch(peer, command)

        fixture.server.dispatcher.dispatch = slowly  # type: ignore[method-assign]


def test_a_connection_that_pours_in_one_way_requests_does_not_keep_others_waiting() -> None:
    fixture = Fixture()
    slow = Slow(fixture, SLICE_S / 4)

    async def body(fixture: Fixture, port: int) -> None:
        flood, other = await fixture.connect(port), await fixture.connect(port)
        flood.send(*[Command(ECHO, opaque=1, flag=FLAG_ONEWAY)] * 300)
        await until(lambda: len(slow.served) > 0)
        served = len(slow.served)
        other.send(Command(ECHO, opaque=2))
        await other.receive()
        assert len(slow.served) - served < 50
        flood.send(Command(ECHO, opaque=3))
        assert (await flood.receive() or Command(0)).opaque == 3
        assert len(slow.served) == 302  # all of the flood, in its order, before what followed it

    run(body, fixture)
    assert fixture.server.turns.longest_s <= 2 * SLICE_S


def test_connections_that_pour_in_requests_take_turns() -> None:
    fixture = Fixture()
    slow = Slow(fixture, SLICE_S / 4)

    async def body(fixture: Fixture, port: int) -> None:
        floods = [await fixture.connect(port) for _ in range(4)]
        for flood in floods:
            flood.send(*[Command(ECHO, opaque=1, flag=FLAG_ONEWAY)] * 100)
        for flood in floods:
            flood.send(Command(ECHO, opaque=2))
        for flood in floods:
            await flood.receive()

    run(body, fixture)
    assert len(slow.served) == 404
    # Halfway, no connection is more than a few slices ahead of another.
    counts = Counter(slow.served[:200])
    assert len(counts) == 4 and max(counts.values()) - min(counts.values()) <= 20


def test_a_connection_that_ends_while_it_rests_is_forgotten() -> None:
    fixture = Fixture()
    slow = Slow(fixture, SLICE_S)

    async def body(fixture: Fixture, port: int) -> None:
        flood, other = await fixture.connect(port), await fixture.connect(port)
        flood.send(*[Command(ECHO, opaque=1)] * 200)
        await until(lambda: len(slow.served) > 0)
        flood.writer.transport.abort()
        await until(lambda: len(fixture.server.connections) == 1)
        other.send(Command(ECHO, opaque=2))
        assert await other.receive()
        assert not fixture.server.rounds.resting_count

    run(body, fixture)


def test_connections_in_the_midst_of_a_frame_take_turns_once_the_loop_has_read_for_long() -> None:
    raw = encode_command(Command(ECHO, opaque=1, body=bytes(64 * 1024)))

    async def body(fixture: Fixture, port: int) -> None:
        rounds = fixture.server.rounds
        large, idle, other = [await fixture.connect(port) for _ in range(3)]
        for client in (idle, other):
            client.send(Command(ECHO))
            await client.receive()
        large.writer.write(raw[:PIECE_BYTES_MIN])
        await until(lambda: fixture.server.budget.held[UNFINISHED_FRAMES] == PIECE_BYTES_MIN)
        rested: set[tuple[int, int]] = set()
        rest = rounds.rest
        rounds.rest = lambda *of, **how: (rested.add((id(of[0]), how["piece_bytes"])), rest(*of, **how))[1]  # type: ignore[method-assign]
        other.send(Command(ECHO, opaque=2))
        answer = asyncio.ensure_future(other.receive())
        while not answer.done():
            rounds.read_s = 2 * ROUND_S  # also in a later round, if the bytes come late
            await asyncio.sleep(0)
        assert (answer.result() or Command(0)).opaque == 2
        assert {piece_bytes for _, piece_bytes in rested} == {0, PIECE_BYTES}
        assert len({connection for connection, _ in rested}) == 2, (
            "the one that sent, the one with a frame; not the idle one"
        )
        large.writer.write(raw[PIECE_BYTES_MIN:])
        assert (await large.receive() or Command(0)).opaque == 1

    run(body)


def test_bytes_count_as_time_of_the_loop() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.writer.write((1 << 20).to_bytes(4, "big") + bytes(100_000))
        await until(lambda: fixture.server.budget.held[UNFINISHED_FRAMES] == 100_004)
        assert fixture.server.rounds.read_s > 100_004 * READ_S_PER_BYTE

    run(body)
