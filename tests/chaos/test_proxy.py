"""Each fault of the proxy does to the bytes what its name says, and nothing else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from tests.chaos.proxy import CUT, DELAY, HALVE, HALVE_AND_LOSE, TO_CLIENT, TO_SERVER, TRICKLE, Fault, Link
from tests.client.scenarios import until
from tests.ports import free_port_block

HOST = "127.0.0.1"
TEXT = b"one frame of some bytes"
Case = Callable[["Wire"], Awaitable[None]]


class Wire:
    """A client's connection through a link to a server that keeps what it got and answers on request."""

    def __init__(self) -> None:
        self.got = b""
        self.is_over = False  # at the server
        self.link: Link
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter
        self.server_writer: asyncio.StreamWriter

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.server_writer = writer
        while data := await reader.read(1024):
            self.got += data
        self.is_over = True

    def harm(self, kind: str, silent: str = TO_SERVER) -> Fault:
        """Apply a fault of this kind that silences this direction and harms the only connection."""
        faults = (Fault(kind, random.Random(seed)) for seed in range(100))
        fault = next(fault for fault in faults if fault._silent == silent and fault.touches(1))
        self.link.harm(fault)
        return fault


@asynccontextmanager
async def connected() -> AsyncIterator[Wire]:
    wire = Wire()
    server = await asyncio.start_server(wire.serve, HOST, 0)
    port = free_port_block(0, 0)
    wire.link = Link("tested", (HOST, port), (HOST, server.sockets[0].getsockname()[1]))
    await wire.link.start()
    wire.reader, wire.writer = await asyncio.open_connection(HOST, port)
    await until(lambda: hasattr(wire, "server_writer"), "the connection")
    try:
        yield wire
    finally:
        await wire.link.stop()
        server.close()
        for writer in (wire.writer, wire.server_writer):
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def run(case: Case) -> None:
    async def inner() -> None:
        async with connected() as wire:
            await case(wire)

    asyncio.run(inner())


def test_a_link_without_a_fault_passes_everything_on_both_ways() -> None:
    async def case(wire: Wire) -> None:
        wire.writer.write(TEXT)
        await until(lambda: wire.got == TEXT, "the text")
        wire.server_writer.write(TEXT[::-1])
        assert await wire.reader.readexactly(len(TEXT)) == TEXT[::-1]
        wire.server_writer.close()
        assert await wire.reader.read() == b"", "an end is passed on too"
        assert wire.link.connection_count == 1

    run(case)


def test_a_cut_passes_part_of_a_frame_and_ends_the_connection() -> None:
    async def case(wire: Wire) -> None:
        fault = wire.harm(CUT)
        wire.writer.write(TEXT)
        assert await wire.reader.read() == b""
        await until(lambda: wire.is_over, "the server's end")
        assert len(wire.got) < len(TEXT) and TEXT.startswith(wire.got)
        assert fault.felt.is_set()

    run(case)


def test_a_delay_changes_nothing_but_the_time() -> None:
    async def case(wire: Wire) -> None:
        fault = wire.harm(DELAY)
        fault._delay_s = 3600
        wire.writer.write(TEXT)
        await fault.felt.wait()
        assert wire.got == b""
        wire.link.heal()
        await until(lambda: wire.got == TEXT, "the text")

    run(case)


def test_trickled_bytes_are_all_there() -> None:
    async def case(wire: Wire) -> None:
        wire.harm(TRICKLE)
        wire.writer.write(TEXT)
        await until(lambda: 0 < len(wire.got) < len(TEXT), "some bytes")
        wire.link.heal()
        await until(lambda: wire.got == TEXT, "the others")

    run(case)


@pytest.mark.parametrize("silent", [TO_SERVER, TO_CLIENT])
def test_a_halved_connection_is_silent_one_way_and_goes_on_afterwards(silent: str) -> None:
    async def case(wire: Wire) -> None:
        fault = wire.harm(HALVE, silent)
        wire.writer.write(TEXT)
        wire.server_writer.write(TEXT)
        await fault.felt.wait()
        if silent == TO_SERVER:
            assert await wire.reader.readexactly(len(TEXT)) == TEXT and wire.got == b""
            wire.link.heal()
            await until(lambda: wire.got == TEXT, "what was held back")
        else:
            await until(lambda: wire.got == TEXT, "the direction that is well")
            wire.link.heal()
            assert await wire.reader.readexactly(len(TEXT)) == TEXT

    run(case)


def test_a_halved_connection_can_end_with_what_was_held_back_lost() -> None:
    async def case(wire: Wire) -> None:
        fault = wire.harm(HALVE_AND_LOSE)
        wire.writer.write(TEXT)
        await fault.felt.wait()
        wire.link.heal()
        assert await wire.reader.read() == b""
        assert wire.got == b""

    run(case)


def test_a_fault_can_touch_every_other_connection_only() -> None:
    async def case(wire: Wire) -> None:
        faults = [Fault(CUT, random.Random(seed)) for seed in range(100)]
        assert {(fault.touches(1), fault.touches(2)) for fault in faults} == {
            (True, True),
            (True, False),
            (False, True),
        }
        wire.link.harm(next(fault for fault in faults if not fault.touches(1)))
        wire.writer.write(TEXT)
        await until(lambda: wire.got == TEXT, "the text")

    run(case)


def test_a_server_that_is_not_there_ends_the_connection() -> None:
    async def inner() -> None:
        port, nobody = free_port_block(0, 0), free_port_block(0, 0)
        link = Link("tested", (HOST, port), (HOST, nobody))
        await link.start()
        reader, writer = await asyncio.open_connection(HOST, port)
        assert await reader.read() == b""
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        await link.stop()

    asyncio.run(inner())
