"""Closing a client while it connects leaves no open connection."""

from __future__ import annotations

import asyncio

import pytest

from pymq.clock import SystemClock
from pymq.errors import UnreachableError
from pymq.net.client import RemotingClient
from pymq.wire.command import request


@pytest.mark.parametrize("turns", range(8))
def test_close_at_each_turn_of_the_loop_while_connecting(turns: int) -> None:
    async def scenario() -> None:
        handlers: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            handlers.add(task)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        client = RemotingClient(clock=SystemClock())
        asking = asyncio.create_task(client.invoke(f"{host}:{port}", request(105)))
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.close()
        with pytest.raises((UnreachableError, asyncio.CancelledError)):
            await asyncio.wait_for(asking, 5)
        server.close()
        await asyncio.wait_for(asyncio.gather(*handlers), 5)  # each ends when its connection does

    asyncio.run(scenario())
