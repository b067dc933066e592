"""A real slave that becomes the master by a plan."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pymq.client import Message, Producer
from pymq.testing.broker import TestBroker
from tests.cli.brokers import Brokers
from tests.console.changes.desk import Desk, with_desk


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path) as brokers:
        brokers.start("a", "--id", "0")
        brokers.start("b", "--id", "1")
        yield brokers


async def send(group: Brokers, body: bytes) -> None:
    async with Producer("P", namesrv=group.namesrv) as producer:
        await producer.send(Message("T", body))


@pytest.mark.slow
def test_a_slave_changes_places_with_its_master(group: Brokers, tmp_path: Path, capsys: Any) -> None:
    group.wait_for(capsys, a=0, b=1)
    asyncio.run(send(group, b"before"))

    async def work(desk: Desk) -> None:
        text, plan, token = await desk.plan("brokers/broker-a/1/promote")
        assert "steps down" in text and f"pymq broker promote {group.addresses['b']} --yes" in text
        assert "Nothing is changed" in (await desk.send(plan, token=token))[1]
        status, text = await desk.send(plan, token=token, confirm="broker-a")
        assert status == 200 and group.addresses["b"] in text, text
        assert desk.audit() == [("broker promote", "broker broker-a", "done")]

    with_desk(cast(TestBroker, SimpleNamespace(namesrv=group.namesrv)), tmp_path / "audit", work)
    group.wait_for(capsys, b=0, a=1)
    asyncio.run(send(group, b"after"))
    assert sorted(group.bodies(capsys, "T")) == ["after", "before"]


@pytest.mark.slow
def test_a_risk_is_said_and_a_master_that_came_back_is_a_conflict(group: Brokers, tmp_path: Path, capsys: Any) -> None:
    group.wait_for(capsys, a=0, b=1)

    async def work(desk: Desk) -> None:
        group.kill("a")
        status, text = await desk.ask("brokers/broker-a/1/promote")
        assert status == 422 and "does not answer" in text
        text, plan, token = await desk.plan("brokers/broker-a/1/promote", force="on")
        assert "does not answer" in text
        await asyncio.to_thread(group.start, "a")
        await asyncio.to_thread(group.wait_for, capsys, a=0, b=1)
        status, text = await desk.send(plan, token=token, confirm="broker-a")
        assert status == 409, text

    with_desk(cast(TestBroker, SimpleNamespace(namesrv=group.namesrv)), tmp_path / "audit", work)


def test_only_a_registered_broker_is_promoted(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        for path in ("brokers/none/1/promote", "brokers/broker-a/7/promote", "brokers/127.0.0.1%3A9/1/promote"):
            assert (await desk.ask(path))[0] == 404
        status, text = await desk.ask("brokers/broker-a/0/promote")
        assert status == 422 and "master" in text

    with TestBroker() as broker:
        with_desk(broker, tmp_path, work)
