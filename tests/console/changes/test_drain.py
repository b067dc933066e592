"""A real broker out of service for producers, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pymq.client import Admin
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk

PATH = "brokers/broker-a/0"


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as servers:
        servers.create_topic("orders", queue_count=2)
        yield servers


async def perm(desk: Desk) -> int:
    async with Admin(desk.broker.namesrv) as admin:
        (data,) = (await admin.topics.route("orders")).queue_datas
        return data.perm


def test_a_broker_is_drained_and_taken_back(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        page = await desk.browser.data(f"{PATH}/drain")
        assert (page["writable"], page["only_here"]) == (1, ["orders"]) and page["groups"] == []
        status, text = await desk.ask(f"{PATH}/drain")
        assert status == 422 and "no other broker is written for orders" in text
        _, plan, token = await desk.plan(f"{PATH}/drain", force="on")
        assert "Nothing is changed" in (await desk.send(plan, token=token, confirm="orders"))[1]
        assert await perm(desk) == 6
        assert (await desk.send(plan, token=token, confirm="broker-a"))[0] == 200
        assert await perm(desk) == 4
        text = await desk.change(f"{PATH}/undrain")
        assert "pymq broker undrain broker-a" in text and await perm(desk) == 6
        assert desk.audit() == [(f"broker {word}", "broker broker-a", "done") for word in ("drain", "undrain")]

    with_desk(broker, tmp_path, work)


def test_a_topic_made_meanwhile_is_a_conflict(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        _, plan, token = await desk.plan(f"{PATH}/drain", force="on")
        broker.create_topic("bills", queue_count=2)
        assert (await desk.send(plan, token=token, confirm="broker-a"))[0] == 409
        assert await perm(desk) == 6

    with_desk(broker, tmp_path, work)


@pytest.mark.parametrize("kind", ["drain", "undrain"])
def test_an_unknown_broker_is_not_found(broker: TestBroker, tmp_path: Path, kind: str) -> None:
    async def work(desk: Desk) -> None:
        for name in ("none", broker.address.replace(":", "%3A")):
            head, body = await desk.browser.get(f"brokers/{name}/0/{kind}")
            assert head.startswith(b"HTTP/1.1 404") and b"no broker" in body

    with_desk(broker, tmp_path, work)
