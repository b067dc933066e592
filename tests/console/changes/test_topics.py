"""Topics made, changed and deleted on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pymq.client import Admin, Message, Producer
from pymq.console import answers
from pymq.errors import NotFoundError
from pymq.operations.topic import deletion
from pymq.testing.broker import TestBroker
from pymq.wire.codes import RequestCode
from tests.console.changes.desk import Desk, with_desk


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as servers:
        yield servers


async def queues(desk: Desk, topic: str) -> tuple[int, int] | None:
    async with Admin(desk.broker.namesrv) as admin:
        try:
            (data,) = (await admin.topics.route(topic)).queue_datas
        except NotFoundError:
            return None
        return data.write_queue_nums, data.read_queue_nums


def test_a_topic_is_made_changed_and_deleted(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        text = await desk.change("new/topic", topic="orders", write_queues="4", perm="RW", type="fifo")
        assert "pymq topic create orders --wq 4 --rq 4 --perm RW --type fifo" in text
        assert await queues(desk, "orders") == (4, 4)
        status, text = await desk.ask("new/topic", topic="orders")
        assert status == 502 and "exists already" in text
        text, _, _ = await desk.plan("topics/orders/update", write_queues="8", read_queues="8", perm="as it is")
        assert "4/4 RW- FIFO" in text and await queues(desk, "orders") == (4, 4)
        await desk.change("topics/orders/update", write_queues="8", read_queues="8", perm="as it is")
        assert await queues(desk, "orders") == (8, 8)
        async with Producer("P", namesrv=broker.namesrv) as producer:
            await producer.send(Message("orders", b"x", properties={"__SHARDINGKEY": "a"}))
        text, plan, token = await desk.plan("topics/orders/delete", retries="on")
        assert "Type orders to confirm" in text
        assert "Nothing is changed" in (await desk.send(plan, token=token))[1]
        assert (await desk.send(plan, token=token, confirm="orders"))[0] == 200
        assert await queues(desk, "orders") is None
        assert desk.audit() == [(f"topic {word}", "topic orders", "done") for word in ("create", "update", "delete")]

    with_desk(broker, tmp_path, work)


def test_spaces_around_the_cluster_do_not_count(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        for path, fields in (("new/topic", {"topic": "bills"}), ("new/group", {"group": "readers"})):
            text, _, _ = await desk.plan(path, cluster=" DefaultCluster ", **fields)
            assert "-c DefaultCluster" in text, path

    with_desk(broker, tmp_path, work)


def test_a_topic_that_someone_else_changes_is_a_conflict(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        broker.create_topic("orders", queue_count=4)
        _, plan, token = await desk.plan("topics/orders/update", write_queues="8", perm="as it is")
        async with Admin(broker.namesrv) as admin:
            await admin.topics.update("orders", await admin.topics.targets("orders"), write_queues=6)
        status, text = await desk.send(plan, token=token)
        assert status == 409 and "topic orders has changed" in text
        assert await queues(desk, "orders") == (6, 4)

    with_desk(broker, tmp_path, work)


def test_a_topic_that_is_made_again_is_not_deleted(
    broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor when that happens after the last look at it: the broker itself refuses."""

    async def send(body: bytes) -> None:
        async with Producer("P", namesrv=broker.namesrv) as producer:
            await producer.send(Message("orders", body))

    async def make_again() -> None:
        async with Admin(broker.namesrv) as admin:
            await admin.topics.delete("orders", await admin.topics.targets("orders"), everywhere=True)
        broker.create_topic("orders", queue_count=4)
        await send(b"new")

    async def work(desk: Desk) -> None:
        broker.create_topic("orders", queue_count=4)
        await send(b"former")
        _, plan, token = await desk.plan("topics/orders/delete")
        await make_again()
        status, text = await desk.send(plan, token=token, confirm="orders")
        assert status == 409 and "topic orders has changed" in text
        _, plan, token = await desk.plan("topics/orders/delete")
        delete = deletion.delete

        async def late(admin: Admin, planned: deletion.Deletion) -> list[str]:
            await make_again()
            return await delete(admin, planned)

        monkeypatch.setattr(deletion, "delete", late)
        status, text = await desk.send(plan, token=token, confirm="orders")
        assert status == 502 and "made again, after this deletion was planned" in text
        assert await queues(desk, "orders") == (4, 4)

    with_desk(broker, tmp_path, work)


def test_a_change_whose_time_is_over_is_not_known(
    broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(desk: Desk) -> None:
        _, plan, token = await desk.plan("new/topic", topic="orders")
        broker.drop_answer(requests=RequestCode.UPDATE_AND_CREATE_TOPIC, count=None)
        monkeypatch.setattr(answers, "PAGE_TIMEOUT_S", 0.5)
        status, text = await desk.send(plan, token=token)
        assert status == 504 and "What was done is not known" in text and "Load the page again" not in text
        assert await queues(desk, "orders") is not None, "it was done"
        ((_, _, result),) = desk.audit()
        assert result.startswith("what was done is not known")

    with_desk(broker, tmp_path, work)


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("new/topic", {}, 400),
        ("new/topic", {"topic": "a b"}, 400),
        ("new/topic", {"topic": "x" * 256}, 400),
        ("new/topic", {"topic": "orders", "write_queues": "0"}, 400),
        ("new/topic", {"topic": "orders", "type": "other"}, 400),
        ("new/topic", {"topic": "orders", "cluster": "nowhere"}, 404),
        ("topics/orders/update", {}, 400),
        ("topics/orders/update", {"write_queues": "65537"}, 400),
        ("topics/none/update", {"write_queues": "8"}, 404),
        ("topics/none/delete", {}, 404),
    ],
)
def test_a_wrong_form_makes_no_plan(
    broker: TestBroker, tmp_path: Path, path: str, fields: dict[str, str], status: int
) -> None:
    async def work(desk: Desk) -> None:
        found, text = await desk.ask(path, **fields)
        assert found == status, text
        assert desk.audit() == []

    with_desk(broker, tmp_path, work)
