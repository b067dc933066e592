"""A server under its memory budget, over real loopback sockets."""

from __future__ import annotations

import asyncio

from pymq.clock import ManualClock
from pymq.net.limits import ServerLimits
from pymq.net.memory_budget import CLIENT_TABLES, UNFINISHED_FRAMES, UNREAD_ANSWERS, MemoryBudget
from pymq.net.rounds import PROMPT_FRAMES_MAX
from pymq.net.writing import left_to_send
from pymq.wire.command import Command, encode_command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply
from tests.net.test_server import ECHO, LATER, Client, Fixture, run, until

KIB = 1024
LARGE_BYTES = ServerLimits().write_pause_bytes + 1  # no further request of the connection is served before it is read


def begin_frame(client: Client, received_bytes: int) -> None:
    """Send the first ``received_bytes`` of a frame of 16 MiB."""
    client.writer.write((16 * KIB * KIB).to_bytes(4, "big") + bytes(received_bytes - 4))


def test_the_largest_unfinished_frame_is_closed_when_all_exceed_the_budget() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        small, large, honest = [await fixture.connect(port) for _ in range(3)]
        begin_frame(small, 100 * KIB)
        begin_frame(large, 300 * KIB)
        held = fixture.server.budget.held
        await until(lambda: held[UNFINISHED_FRAMES] == 400 * KIB)
        small.writer.write(bytes(101 * KIB))
        await until(lambda: fixture.server.closed_for["memory-budget"] == 1)
        assert await large.receive() is None
        honest.send(Command(ECHO, opaque=7))
        assert (answer := await honest.receive()) is not None and answer.opaque == 7
        assert held[UNFINISHED_FRAMES] == 201 * KIB
        small.writer.close()
        await until(lambda: fixture.server.budget.total_bytes == 0)

    run(body, Fixture(budget=MemoryBudget(500 * KIB)))


def test_a_finished_frame_counts_no_more() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        raw = encode_command(Command(ECHO, opaque=1, body=bytes(100 * KIB)))
        client.writer.write(raw[:-1])
        await until(lambda: fixture.server.budget.held[UNFINISHED_FRAMES] == len(raw) - 1)
        client.writer.write(raw[-1:] + raw[:3])
        assert (answer := await client.receive()) is not None and len(answer.body) == 100 * KIB
        await until(lambda: fixture.server.budget.held[UNFINISHED_FRAMES] == 3)

    run(body)


def test_answers_count_until_the_peer_has_read_them() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        asked = 40
        for number in range(asked):
            client.send(Command(ECHO, opaque=number, body=bytes(512 * KIB)))
        (connection,) = fixture.server.connections
        await until(lambda: connection.is_behind)
        assert connection.held_bytes() >= fixture.server.budget.held[UNREAD_ANSWERS] >= 512 * KIB
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(asked):
            assert await client.receive() is not None
        await until(lambda: connection.held_bytes() == 0)
        assert fixture.server.budget.total_bytes == 0 and not connection.is_behind

    run(body)


def test_a_peer_that_reads_nothing_is_closed_when_there_is_no_room() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(40):
            client.send(Command(ECHO, opaque=number, body=bytes(512 * KIB)))
        (connection,) = fixture.server.connections
        await until(lambda: connection.is_behind)
        await asyncio.sleep(0)
        now_ms = clock.monotonic_ms()
        connection.sweep(now_ms)
        connection.sweep(now_ms + 1_000)
        connection.sweep(now_ms + 2_000)
        assert not connection.closed, "there is room"
        fixture.server.budget.limit_bytes = fixture.server.budget.total_bytes
        connection.sweep(now_ms + 2_001)
        assert connection.closed and fixture.server.closed_for["unread-answers"] == 1
        await until(lambda: not fixture.server.connections)
        assert fixture.server.budget.total_bytes == fixture.server.budget.closing_bytes == 0

    clock = ManualClock()
    run(body, Fixture(clock=clock))


def test_what_parts_keep_for_a_connection_counts_until_its_end() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        await until(lambda: bool(fixture.server.connections))
        (connection,) = fixture.server.connections
        fixture.server.budget.hold_for(connection, CLIENT_TABLES, 1000)
        assert connection.held_bytes() == 1000
        client.writer.close()
        await until(lambda: fixture.server.budget.total_bytes == 0)

    run(body)


def test_while_memory_becomes_free_only_clients_of_small_answers_are_served() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        small, large, new = [await fixture.connect(port) for _ in range(3)]
        for client, size_bytes in ((small, 100), (large, 100 * KIB)):
            client.send(Command(ECHO, opaque=1, body=bytes(size_bytes)))
            assert await client.receive() is not None
        budget = fixture.server.budget
        budget.closing_bytes = 1
        for client in (large, new, small):
            client.send(Command(ECHO, opaque=2))
        assert (answer := await small.receive()) is not None and answer.opaque == 2
        await until(lambda: fixture.server.rounds.resting_count == 2)
        small.send(Command(ECHO, opaque=3, body=bytes(100 * KIB)))
        assert await small.receive() is not None, "a round makes one large answer more"
        small.send(Command(ECHO, opaque=4))
        await until(lambda: fixture.server.rounds.resting_count == 3)
        budget.closing_bytes = 0
        for client, opaque in ((large, 2), (new, 2), (small, 4)):
            assert (answer := await client.receive()) is not None and answer.opaque == opaque

    run(body)


def test_answers_to_resting_connections_count_before_the_next_one_is_served() -> None:
    """They were written at the turn's end, so that one round made answers of the size of the whole budget."""
    counted: list[int] = []

    class Large(Fixture):
        def _later(self, request: Command, header: object, peer: Peer) -> Reply:
            counted.append(self.server.budget.held[UNREAD_ANSWERS])
            return Reply(body=bytes(LARGE_BYTES))

    async def body(fixture: Fixture, port: int) -> None:
        clients = [await fixture.connect(port) for _ in range(4)]
        fixture.server.budget.closing_bytes = 1
        for client in clients:
            client.send(*[Command(LATER)] * (PROMPT_FRAMES_MAX + 1))
        await until(lambda: fixture.server.rounds.resting_count == 4)
        assert not counted
        for client in clients:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        fixture.server.budget.closing_bytes = 0
        await until(lambda: len(counted) >= 4)

    run(body, Large())
    assert [size_bytes // LARGE_BYTES for size_bytes in counted[:4]] == [0, 1, 2, 3]


def test_what_a_peer_takes_from_the_system_s_buffer_counts() -> None:
    async def body(fixture: Fixture, port: int) -> None:
        client = await fixture.connect(port)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(20):
            client.send(Command(ECHO, opaque=number, body=bytes(KIB * KIB)))
        await until(lambda: any(connection.is_behind for connection in fixture.server.connections))
        (connection,) = fixture.server.connections
        transport = connection._transport
        assert transport is not None
        await until(lambda: left_to_send(transport) > transport.get_write_buffer_size())
        before = left_to_send(transport)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await until(lambda: left_to_send(transport) < before)

    run(body)
