"""A topic that gets fewer queues on a real broker, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pymq.client import Admin, Message, MessageQueue, Producer, PullConsumer
from pymq.clock import ManualClock
from pymq.console.changes.shrink import GIVE_UP, STOP_READING, STOP_WRITING
from pymq.model.tables import SubscriptionGroupConfig
from pymq.operations.topic.resizing import SETTLE_S
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk
from tests.console.changes.test_topics import queues

PATH = "topics/orders/shrink"
FORM = "topics/orders/update"


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as servers:
        servers.create_topic("orders", queue_count=4)
        yield servers


async def send(desk: Desk, queue_id: int) -> None:
    async with Producer("P", namesrv=desk.broker.namesrv) as producer:
        await producer.send(Message("orders", b"x"), queue=MessageQueue("orders", "broker-a", queue_id))


async def read(desk: Desk, queue_id: int, offset: int) -> None:
    async with PullConsumer("billing", namesrv=desk.broker.namesrv) as consumer:
        await consumer.commit(MessageQueue("orders", "broker-a", queue_id), offset)


def test_queues_go_when_they_are_read_and_no_producer_writes_them(broker: TestBroker, tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(desk: Desk) -> None:
        await desk.form(FORM)
        async with Admin(broker.namesrv) as admin:
            await admin.groups.put(broker.address, SubscriptionGroupConfig(group_name="billing"))
        await send(desk, 3)
        await read(desk, 3, 0)
        head, body = await desk.browser.get(PATH)
        assert head.startswith(b"HTTP/1.1 200") and b"How many queues" in body
        page = await desk.browser.data(f"{PATH}?to=2")
        assert (page["messages"], page["quiet_ms"]) == (1, None)
        assert [(each["group"], each["unread"], each["waits"]) for each in page["groups"]] == [("billing", 1, True)]
        status, text = await desk.ask(PATH, to="2", step=STOP_READING)
        assert status == 422 and "still written" in text
        text = await desk.change(PATH, to="2", step=STOP_WRITING)
        assert "pymq topic shrink orders --to 2 --yes" in text and await queues(desk, "orders") == (2, 4)
        status, text = await desk.ask(PATH, to="2", step=STOP_READING)
        assert status == 422 and "billing 1" in text
        await read(desk, 3, 1)
        status, text = await desk.ask(PATH, to="2", step=STOP_READING)
        assert status == 422 and f"try again in {SETTLE_S:.0f} s" in text
        clock.advance(int(SETTLE_S * 1000) - 1)
        assert (await desk.ask(PATH, to="2", step=STOP_READING))[0] == 422
        clock.advance(1)
        assert (await desk.browser.data(f"{PATH}?to=2"))["quiet_ms"] == SETTLE_S * 1000
        await desk.change(PATH, to="2", step=STOP_READING)
        assert await queues(desk, "orders") == (2, 2)
        assert (await desk.ask(PATH, to="2", step=STOP_WRITING))[0] == 400, "it has them already"
        assert [line[0] for line in desk.audit()] == [f"topic shrink: {step}" for step in (STOP_WRITING, STOP_READING)]

    with_desk(broker, tmp_path, work, clock=clock)


def test_a_message_that_comes_late_begins_the_wait_again(broker: TestBroker, tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(desk: Desk) -> None:
        await desk.form(FORM)
        await desk.change(PATH, to="2", step=STOP_WRITING)
        clock.advance(int(SETTLE_S * 1000))
        await desk.change("topics/orders/update", write_queues="4")
        await send(desk, 3)
        await desk.change(PATH, to="2", step=STOP_WRITING)
        status, text = await desk.ask(PATH, to="2", step=STOP_READING)
        assert status == 422 and "are quiet for 0 s" in text
        assert await queues(desk, "orders") == (2, 4)

    with_desk(broker, tmp_path, work, clock=clock)


def test_a_shrink_is_given_up(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.form(FORM)
        assert (await desk.ask(PATH, to="2", step=GIVE_UP))[0] == 422, "nothing is begun"
        await desk.change(PATH, to="2", step=STOP_WRITING)
        _, plan, token = await desk.plan(PATH, to="2", step=GIVE_UP)
        assert (await desk.send(plan, token=token))[0] == 200
        assert await queues(desk, "orders") == (4, 4)

    with_desk(broker, tmp_path, work)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 400),
        ({"to": "0"}, 400),
        ({"to": "65536"}, 400),
        ({"to": "2", "step": "jump"}, 400),
        ({"to": "4"}, 400),
        ({"to": "9"}, 400),
    ],
)
def test_a_wrong_form_makes_no_plan(broker: TestBroker, tmp_path: Path, fields: dict[str, str], status: int) -> None:
    async def work(desk: Desk) -> None:
        found, text = await desk.send(PATH, token=await desk.form(FORM), **fields)
        assert found == status, text
        assert desk.audit() == []

    with_desk(broker, tmp_path, work)
