"""Brokers on real sockets and directories: a start that waits for a slave, and the ways to end the wait."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.assembly.broker import Broker
from pymq.broker.replication.tail_recovery import tail_search
from pymq.client import Message, Producer
from pymq.errors import RefusedError
from tests.broker.assembly.test_broker import make_broker, name_server, until
from tests.broker.test_role_changes import is_following, running
from tests.ports import free_port_block

WAIT_MS = 300
PROMISING: dict[str, Any] = {"brokerRole": "SYNC_MASTER"}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_search, "WAIT_MS", WAIT_MS)


async def master_that_died(tmp_path: Path, namesrv: str) -> tuple[str, str]:
    """Make the directories ``dead``, of a master killed while its slave followed, and ``b``, of that slave.

    Return their addresses.
    """
    a = make_broker(tmp_path / "a", namesrv, listenPort=str(free_port_block()), **PROMISING)
    b = make_broker(tmp_path / "b", namesrv, brokerId="1", listenPort=str(free_port_block()))
    async with running(a, b), Producer("P", namesrv=namesrv) as producer:
        await until(lambda: is_following(b))
        assert (await producer.send(Message("T", b"1"))).status.value == "SEND_OK"
        shutil.copytree(tmp_path / "a", tmp_path / "dead")
        return a.address, b.address


def is_fenced(broker: Broker) -> bool:
    return broker.parts is not None and broker.parts.replication.tail_recovery.is_fenced


def restarted(directory: Path, namesrv: str, address: str, **settings: Any) -> Broker:
    return make_broker(directory, namesrv, listenPort=address.rpartition(":")[2], **settings)


def test_sends_wait_for_the_slave_that_was_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            ours, theirs = await master_that_died(tmp_path, namesrv.address)
            a = restarted(tmp_path / "dead", namesrv.address, ours, **PROMISING)
            b = restarted(tmp_path / "b", namesrv.address, theirs, brokerId="1")
            async with running(a), Producer("P", namesrv=namesrv.address) as producer:
                assert (
                    is_fenced(a)
                    and a.parts is not None
                    and f"slave 1 at {theirs}" in a.parts.replication.tail_recovery.fenced_for
                )
                with pytest.raises(RefusedError, match="nothing is stored without"):
                    await producer.send(Message("T", b"2"))
                async with running(b):
                    await until(lambda: is_following(b))
                    assert not is_fenced(a)
                    assert (await producer.send(Message("T", b"3"))).status.value == "SEND_OK"

    asyncio.run(scenario())


def test_an_operator_may_go_on_without_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            ours, _ = await master_that_died(tmp_path, namesrv.address)
            a = restarted(tmp_path / "dead", namesrv.address, ours, **PROMISING)
            async with running(a), Producer("P", namesrv=namesrv.address) as producer:
                assert is_fenced(a)
                a.config.broker_role = "ASYNC_MASTER"
                await until(lambda: a.parts is not None and not is_fenced(a) and a.switch and not a.switch.is_changing)
                assert a.config.broker_role == "ASYNC_MASTER"
                assert (await producer.send(Message("T", b"2"))).status.value == "SEND_OK"
                assert a.parts is not None and len(a.parts.replication.epoch_file.history.entries) == 2

    asyncio.run(scenario())


def test_a_waiting_start_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with name_server() as namesrv:
            ours, _ = await master_that_died(tmp_path, namesrv.address)
            monkeypatch.setattr(tail_search, "WAIT_MS", 60_000)
            a = restarted(tmp_path / "dead", namesrv.address, ours, **PROMISING)
            starting = asyncio.ensure_future(a.start())
            await until(lambda: a.recovery is not None)
            starting.cancel()
            await asyncio.wait([starting])
            await a.stop()
            assert starting.cancelled() and (tmp_path / "dead" / "abort").exists(), "the next start asks again"
            again = restarted(tmp_path / "dead", namesrv.address, ours)
            monkeypatch.setattr(tail_search, "WAIT_MS", 0)
            async with running(again):
                assert again.parts is not None and not is_fenced(again)

    asyncio.run(scenario())
