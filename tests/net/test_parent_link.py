"""A worker's answers to its parent, over real pipes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

from pymq.net.parent_link import INPUT_MAX_BYTES, ParentLink, answer_head


async def large() -> AsyncIterator[bytes]:
    for _ in range(64):
        yield b"x" * 16_384


async def small() -> AsyncIterator[bytes]:
    yield b"y"


async def reader_of(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(fd, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


def test_requests_are_answered_in_whole_whatever_pieces_they_come_in() -> None:
    async def run() -> None:
        read_end, write_end = os.pipe()
        link = ParentLink({"large": large, "small": small}, write_end)
        link.take(b"x" * 3 * INPUT_MAX_BYTES)
        link.take(b"\nnothing\n\xff\nlar")
        link.take(b"ge\nsmall\n")  # the second one comes too early
        reader = await reader_of(read_end)
        assert await reader.readline() == answer_head(64 * 16_384)
        assert await reader.readexactly(64 * 16_384) == b"x" * 64 * 16_384
        link.take(b"small\n")
        assert await reader.readline() == answer_head(1) and await reader.readexactly(1) == b"y"
        link.take(b"large\n")
        await link.close()
        os.close(write_end)
        assert await reader.read() in (b"", answer_head(64 * 16_384))

    asyncio.run(run())


def test_a_parent_that_reads_nothing_holds_nobody_up() -> None:
    async def run() -> None:
        read_end, write_end = os.pipe()
        link = ParentLink({"large": large}, write_end)
        link.take(b"large\n")
        assert link._answering is not None
        await link._answering
        await link.close()
        os.close(read_end)
        os.close(write_end)

    asyncio.run(run())
