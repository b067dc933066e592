"""Settings of a real broker, changed and taken back."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pymq.client import Admin
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk

PATH = "brokers/broker-a/0/settings"


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as servers:
        yield servers


async def setting(desk: Desk, key: str) -> str:
    async with Admin(desk.broker.namesrv) as admin:
        return (await admin.settings.read(desk.broker.address)).values[key]


async def set_it(desk: Desk, key: str, value: str) -> None:
    async with Admin(desk.broker.namesrv) as admin:
        await admin.settings.change(desk.broker.address, {key: value})


def test_a_setting_is_changed_and_taken_back(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        before = await setting(desk, "maxTopics")
        text, plan, token = await desk.plan(PATH, key="maxTopics", value="777")
        assert before in text and "pymq config set maxTopics=777 -b broker-a:0" in text
        assert await setting(desk, "maxTopics") == before
        assert (await desk.send(plan, token=token))[0] == 200
        assert await setting(desk, "maxTopics") == "777"
        await desk.change(PATH, key="maxTopics", back="on")
        assert await setting(desk, "maxTopics") == before
        assert desk.audit() == [("config set", "broker broker-a:0", "done")] * 2

    with_desk(broker, tmp_path, work)


def test_a_setting_that_someone_else_changes_stays_theirs(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        _, plan, token = await desk.plan(PATH, key="maxTopics", value="777")
        await set_it(desk, "maxTopics", "555")
        status, text = await desk.send(plan, token=token)
        assert status == 422 and "nothing is changed" in text
        assert await setting(desk, "maxTopics") == "555"

    with_desk(broker, tmp_path, work)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "key: "),
        ({"key": "maxTopic", "value": "1"}, "did you mean maxTopics"),
        ({"key": "listenPort", "value": "1"}, "at run time"),
        ({"key": "maxTopics", "value": "x" * 5000}, "at most 4,096"),
    ],
)
def test_what_can_not_be_changed_makes_no_plan(
    broker: TestBroker, tmp_path: Path, fields: dict[str, str], text: str
) -> None:
    async def work(desk: Desk) -> None:
        status, found = await desk.ask(PATH, **fields)
        assert 400 <= status < 503 and text in found
        assert desk.audit() == []

    with_desk(broker, tmp_path, work)


@pytest.mark.parametrize("number", ["1", "9" * 5000])
def test_an_address_in_place_of_a_name_is_never_connected(broker: TestBroker, tmp_path: Path, number: str) -> None:
    async def work(desk: Desk) -> None:
        with socket.create_server(("127.0.0.1", 0)) as trap:
            trap.setblocking(False)
            port = str(trap.getsockname()[1])
            for at in (f"127.0.0.1/{port}", f"127.0.0.1%3A{port}/0", f"127.0.0.1/{number}"):
                status, text = await desk.ask(f"brokers/{at}/settings", key="maxTopics", value="1")
                assert status in (404, 400) and "127.0.0.1" in text
            with pytest.raises(BlockingIOError):
                trap.accept()

    with_desk(broker, tmp_path, work)
