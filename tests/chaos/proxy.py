"""A TCP proxy that harms what passes: cuts connections inside a frame, delays, silences one direction, trickles bytes.

A `Link` listens at the address that the peers know, and passes everything to the real server. At any time
it has at most one `Fault`, which touches all its connections, those opened meanwhile too.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final

CHUNK_BYTES = 64 * 1024
TRICKLE_PAUSE_S = 0.001
DELAY_MAX_S = 0.3

CUT, DELAY, HALVE, HALVE_AND_LOSE, TRICKLE = "cut", "delay", "halve", "halve-and-lose", "trickle"
KINDS: Final = (CUT, DELAY, HALVE, HALVE_AND_LOSE, TRICKLE)
TO_SERVER, TO_CLIENT = "to the server", "to the client"


class ConnectionCut(Exception):
    """The fault wants this connection to be gone."""


class Fault:
    """Harms a link until `end` is called; ``felt`` is set once bytes have met it.

    It touches all connections, or every other one: then one slave goes on where another can't.
    """

    def __init__(self, kind: str, rng: random.Random) -> None:
        assert kind in KINDS, kind
        self.kind = kind
        self.felt = asyncio.Event()
        self._rng = rng
        self._silent = rng.choice((TO_SERVER, TO_CLIENT))
        self._delay_s = rng.uniform(0.02, DELAY_MAX_S)
        self._remainders = rng.choice(((0, 1), (0,), (1,)))
        self._over = asyncio.Event()

    def end(self) -> None:
        """End the fault. What it held back goes on, unless its kind loses that."""
        self._over.set()

    def touches(self, number: int) -> bool:
        """Return whether it harms the link's connection of this number."""
        return number % 2 in self._remainders

    async def pass_on(self, data: bytes, writer: asyncio.StreamWriter, direction: str) -> None:
        """Write ``data`` as a link with this fault would. Raises ConnectionCut when it would not."""
        if self.kind in (HALVE, HALVE_AND_LOSE) and direction != self._silent:
            writer.write(data)
            return
        self.felt.set()
        if self.kind == CUT:
            writer.write(data[: self._rng.randrange(len(data))])
            raise ConnectionCut
        if self.kind == TRICKLE:
            data = await self._trickle(data, writer)
        elif self.kind == DELAY:
            await self._wait(self._delay_s)
        else:
            await self._over.wait()
            if self.kind == HALVE_AND_LOSE:
                raise ConnectionCut
        writer.write(data)

    async def _trickle(self, data: bytes, writer: asyncio.StreamWriter) -> bytes:
        """Write byte by byte while the fault lasts. Return the rest."""
        sent = 0
        while sent < len(data) and not self._over.is_set():
            if writer.is_closing():
                raise ConnectionCut
            writer.write(data[sent : sent + 1])
            sent += 1
            await self._wait(TRICKLE_PAUSE_S)
        return data[sent:]

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)


class Link:
    """One address through which a server is reached. Addresses are (host, port)."""

    def __init__(self, name: str, listen: tuple[str, int], target: tuple[str, int]) -> None:
        self.name = name
        self.connection_count = 0  # all connections so far
        self._listen = listen
        self._target = target
        self._fault: Fault | None = None
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        """Begin to listen. Raises OSError when the address is taken."""
        self._server = await asyncio.start_server(self._accepted, *self._listen)

    async def stop(self) -> None:
        """Stop listening, and cut the open connections."""
        if self._server is not None:
            self._server.close()
        self.heal()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._open, return_exceptions=True)

    def harm(self, fault: Fault) -> None:
        """Apply ``fault`` from now on, and end the one before it."""
        self.heal()
        self._fault = fault

    def heal(self) -> None:
        """End the fault, if there is one."""
        fault, self._fault = self._fault, None
        if fault is not None:
            fault.end()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        task = asyncio.ensure_future(self._serve(reader, writer, self.connection_count))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        """Serve one connection until either direction ends."""
        self._writers.add(writer)
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            await self._closed(writer)
            return
        self._writers.add(server_writer)
        pumps = [
            asyncio.ensure_future(self._pump(number, reader, server_writer, TO_SERVER)),
            asyncio.ensure_future(self._pump(number, server_reader, writer, TO_CLIENT)),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await asyncio.gather(self._closed(writer), self._closed(server_writer))

    async def _closed(self, writer: asyncio.StreamWriter) -> None:
        """Send what was written, then close the connection."""
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        self._writers.discard(writer)

    async def _pump(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str
    ) -> None:
        with suppress(OSError, ConnectionCut):
            while data := await reader.read(CHUNK_BYTES):
                fault = self._fault
                if fault is None or not fault.touches(number):
                    writer.write(data)
                else:
                    await fault.pass_on(data, writer, direction)
                await writer.drain()
