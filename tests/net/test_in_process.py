"""Connections without a socket: they carry what a socket carries, and hold back a writer whose bytes nobody takes."""

from __future__ import annotations

import asyncio
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.errors import UnreachableError
from pymq.net.client import RemotingClient
from pymq.net.in_process import open_connection
from pymq.net.limits import ServerLimits
from pymq.net.server import Connection, Server
from pymq.wire.command import Command
from pymq.wire.dispatch import Dispatcher, Peer
from pymq.wire.reply import Reply

HIGH_BYTES = 100


class Side(asyncio.Protocol):
    """Keeps what it received, and says whether it may write."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.received = b""
        self.may_write = True
        self.lost = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=HIGH_BYTES)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def pause_writing(self) -> None:
        self.may_write = False

    def resume_writing(self) -> None:
        self.may_write = True

    def connection_lost(self, error: Exception | None) -> None:
        self.lost += 1


async def connected() -> tuple[Side, Side]:
    far = Side()
    _, near = await open_connection(lambda: far, Side, "", 0, None)
    return near, far


async def rounds() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


@given(st.lists(st.binary(max_size=50)))
@settings(max_examples=30, deadline=None)
def test_bytes_come_in_order_and_before_the_end(pieces: list[bytes]) -> None:
    async def main() -> None:
        near, far = await connected()
        for piece in pieces:
            near.transport.write(piece)
        near.transport.close()
        await rounds()
        assert (far.received, near.lost, far.lost) == (b"".join(pieces), 1, 1)

    asyncio.run(main())


def test_a_writer_waits_beyond_its_limit_until_the_other_side_reads() -> None:
    async def main() -> None:
        near, far = await connected()
        far.transport.pause_reading()
        near.transport.write(bytes(HIGH_BYTES))
        assert near.may_write
        near.transport.write(b"1")
        await rounds()
        assert (near.may_write, far.received) == (False, b"")
        far.transport.resume_reading()
        await rounds()
        assert (near.may_write, len(far.received)) == (True, HIGH_BYTES + 1)

    asyncio.run(main())


def test_an_abort_discards_what_was_not_taken() -> None:
    async def main() -> None:
        near, far = await connected()
        near.transport.write(b"lost")
        near.transport.abort()
        await rounds()
        assert (far.received, near.lost, far.lost) == (b"", 1, 1)

    asyncio.run(main())


class Echo(Dispatcher):
    """Answers with what it was asked."""

    def __init__(self) -> None:
        super().__init__([], "test")

    def dispatch(self, peer: Peer, command: Command) -> Reply | None:
        return Reply(command.code % 3, command.ext.get("remark"), dict(command.ext), command.body)


@given(
    st.lists(st.tuples(st.integers(0, 9999), st.dictionaries(st.sampled_from("abc"), st.text(max_size=9)), st.binary()))
)
@settings(max_examples=15, deadline=None)
def test_a_server_answers_as_over_a_socket(asked: list[tuple[int, dict[str, str], bytes]]) -> None:
    async def main() -> None:
        clock = ManualClock()
        server = Server(Echo(), clock=clock)
        address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
        by_socket, in_process = RemotingClient(clock=clock), RemotingClient(clock=clock)
        in_process.in_process[address] = lambda: Connection(server)
        answers = []
        for client in (by_socket, in_process):
            commands = [Command(code, ext=dict(ext), body=body) for code, ext, body in asked]
            found = await asyncio.gather(*[client.invoke(address, each) for each in commands])
            answers.append([(each.code, each.remark, each.ext, bytes(each.body)) for each in found])
        assert answers[0] == answers[1]
        assert len(server.connections) == (2 if asked else 0)
        await by_socket.close()
        await in_process.close()
        await server.stop()

    asyncio.run(main())


def test_a_full_server_refuses_a_connection_without_a_socket() -> None:
    async def main() -> None:
        clock = ManualClock()
        server = Server(Echo(), clock=clock, limits=ServerLimits(connection_count_max=0))
        address = f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
        client = RemotingClient(clock=clock)
        client.in_process[address] = lambda: Connection(server)
        try:
            await client.invoke(address, Command(1))
        except UnreachableError:
            assert server.closed_for["connection-count"] == 1
        else:
            raise AssertionError("the server took it")
        finally:
            await client.close()
            await server.stop()

    asyncio.run(main())
