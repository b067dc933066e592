"""Clients survive a restart of broker and name server at the same addresses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pymq.client import Message, Producer, PushConsumer
from pymq.errors import PymqError
from pymq.testing.standalone import StandaloneProcess
from tests.client.scenarios import Inbox, until
from tests.ports import free_port_block


@pytest.mark.slow
def test_a_restart_interrupts_clients_and_no_message_is_lost(tmp_path: Path) -> None:
    asyncio.run(_restart(tmp_path))


async def _restart(tmp_path: Path) -> None:
    namesrv_port, port = free_port_block(0, 0), free_port_block()
    servers = StandaloneProcess(tmp_path / "data", namesrv_port=namesrv_port, port=port)
    await asyncio.to_thread(servers.start)
    namesrv = servers.namesrv
    sent, inbox = set(), Inbox()
    consumer = PushConsumer("G", namesrv=namesrv, on_message=inbox, consume_from="first", retry_interval_s=0.05)
    consumer.subscribe("Restarted")
    try:
        async with Producer("P", namesrv=namesrv) as producer, consumer:

            async def send(body: Any) -> None:
                try:
                    await producer.send(Message("Restarted", body))
                    sent.add(body)
                except PymqError:
                    await asyncio.sleep(0.02)

            for n in range(50):
                await send(b"before-%d" % n)
            assert len(sent) == 50
            await until(lambda: len(inbox.messages) >= 50, "messages before the restart")
            await asyncio.to_thread(servers.stop)
            await send(b"while it is gone")
            assert len(sent) == 50
            servers = StandaloneProcess(tmp_path / "data", namesrv_port=namesrv_port, port=port)
            await asyncio.to_thread(servers.start)
            for n in range(200):
                await send(b"after-%d" % n)
                if len(sent) >= 100:
                    break
            assert len(sent) >= 100
            await until(lambda: set(inbox.bodies) >= sent, "messages after the restart")
            assert max(inbox.bodies.values()) <= 2, "at most the messages around the restart come twice"
    finally:
        await asyncio.to_thread(servers.stop)
