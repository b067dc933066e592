"""PeerClient: one-way requests that find a connection or are dropped."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.clock import SystemClock
from pymq.net import client as net_client
from pymq.net.in_process import open_connection
from pymq.net.peer_client import PeerClient
from pymq.wire.command import request
from tests.client.fake_broker import NO_ANSWER, FakeServer

TOLD = 903


def test_drop_ends_an_attempt_to_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    """What begins while a machine is away would last for the time-out, also after the machine is back."""

    async def main() -> None:
        server = await FakeServer().start()
        server.on(TOLD, lambda command: NO_ANSWER)
        client = PeerClient(clock=SystemClock())
        refused: list[str] = []
        client.on_refused = refused.append
        is_away, is_opening = True, asyncio.Event()

        async def opens_when_there(*args: Any) -> Any:
            if is_away:
                is_opening.set()
                await asyncio.Event().wait()
            return await open_connection(*args)

        monkeypatch.setattr(net_client, "open_connection", opens_when_there)
        try:
            assert not client.has_room(server.address)
            await is_opening.wait()
            is_away = False
            assert not client.tell(server.address, request(TOLD))  # the attempt goes on: the request is lost
            attempt = client._connecting[server.address]
            client.drop(server.address)
            await asyncio.wait([attempt], timeout=net_client.CONNECT_TIMEOUT_S / 2)
            assert attempt.cancelled()
            assert not client.has_room(server.address)
            await client._connecting[server.address]
            assert client.tell(server.address, request(TOLD))
            assert refused == []
        finally:
            await client.close()
            await server.stop()

    asyncio.run(main())
