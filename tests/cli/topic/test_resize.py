"""``pymq topic shrink`` and ``expand`` against a real server: no group loses what it has not read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pymq.client import PushConsumer
from pymq.client.admin import Admin
from pymq.client.admin.asking import BrokerTarget
from pymq.client.admin.draining import Draining, GroupLeft, Mode
from pymq.errors import EXIT_OK, EXIT_REFUSED, EXIT_USAGE
from pymq.model.message import MessageQueue
from pymq.model.tables import TopicConfig
from pymq.operations.topic import resizing as topic_resize_work
from pymq.operations.topic.resizing import Shrinking, plan_record, waiting_text
from pymq.testing.standalone import StandaloneProcess
from tests.cli.conftest import Pymq
from tests.client.scenarios import Inbox, until

SENT = 40


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_resize_work, "LOOK_S", 0.05)


@pytest.fixture
def topic(pymq: Pymq, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield a topic with 40 messages in four queues."""
    name = f"resize-{request.node.name[-40:]}".replace("[", "-").replace("]", "")
    assert pymq("topic", "create", name, "--wq", "4").code == EXIT_OK
    assert pymq("send", name, stdin="".join(f"m{number}\n" for number in range(SENT))).code == EXIT_OK
    yield name
    pymq("topic", "delete", name, "--yes")


def place(pymq: Pymq, group: str, topic: str, where: str) -> None:
    assert pymq("offset", "reset", group, "--topic", topic, "--to", where, "--yes").code == EXIT_OK


def queues(pymq: Pymq, topic: str) -> tuple[int, int]:
    [record] = pymq("topic", "route", topic, "-o", "json").json()
    return record["read_queues"], record["write_queues"]


def queues_of(state: Draining) -> list[tuple[int, int]]:
    return [(config.read_queue_nums, config.write_queue_nums) for _, config in state.brokers]


def test_without_yes_the_plan_is_shown_and_nothing_is_changed(pymq: Pymq, topic: str) -> None:
    place(pymq, "shrink-plan", topic, "start")
    for extra in ([], ["--yes", "--dry-run"]):
        outcome = pymq("topic", "shrink", topic, "--to", "2", *extra)
        assert outcome.code == EXIT_OK and "nothing is changed" in outcome.err
        assert "write 2" in outcome.out and "queues 2 and above: 20" in outcome.out
    plan = pymq("topic", "shrink", topic, "--to", "2", "-o", "json").json()
    assert plan["groups"] == [{"group": "shrink-plan", "mode": "offline", "unread": 20, "waits": True}]
    assert (plan["applied"], plan["messages"], queues(pymq, topic)) == (False, 20, (4, 4))


def test_it_waits_for_a_group_and_ends_when_that_has_read(pymq: Pymq, server: StandaloneProcess, topic: str) -> None:
    place(pymq, "shrink-wait", topic, "start")

    async def story() -> None:
        shown: list[Draining] = []
        inbox = Inbox()
        async with Admin(server.namesrv) as admin:
            shrinking = Shrinking(admin, topic, 2, [], without=[], settle_s=0)
            running = asyncio.create_task(shrinking.run(shown.append, is_forced=False))
            await until(lambda: shown, "the first state")
            assert [left.unread for left in shown[0].awaited()] == [20] and not running.done()
            assert queues_of(await shrinking.look()) == [(4, 2)]
            consumer = PushConsumer("shrink-wait", namesrv=server.namesrv, on_message=inbox, commit_interval_s=0.2)
            consumer.subscribe(topic)
            async with consumer:
                last = await running
            assert queues_of(last) == [(2, 2)] and len(inbox.bodies) == SENT
            assert shown[-1].awaited() == []

    asyncio.run(story())


def test_an_interrupted_shrink_goes_on(pymq: Pymq, topic: str) -> None:
    assert pymq("topic", "update", topic, "--wq", "2").code == EXIT_OK
    place(pymq, "shrink-again", topic, "end")
    outcome = pymq("topic", "shrink", topic, "--to", "2", "--yes", "--settle", "0")
    assert outcome.code == EXIT_OK and f"{topic} has 2 queues on broker-a" in outcome.out
    assert queues(pymq, topic) == (2, 2)


def test_a_group_may_be_left_out_and_force_does_not_wait(pymq: Pymq, topic: str) -> None:
    place(pymq, "shrink-old", topic, "start")
    outcome = pymq("topic", "shrink", topic, "--to", "3", "--yes", "--settle", "0", "--without", "shrink-old")
    assert outcome.code == EXIT_OK and queues(pymq, topic) == (3, 3)
    assert pymq("topic", "shrink", topic, "--to", "2", "--yes", "--force").code == EXIT_OK
    assert queues(pymq, topic) == (2, 2)


def test_fewer_read_queues_are_refused_while_a_group_has_to_read_them(pymq: Pymq, topic: str) -> None:
    place(pymq, "shrink-hidden", topic, "start")
    outcome = pymq("topic", "update", topic, "--wq", "2", "--rq", "2")
    assert outcome.code == EXIT_REFUSED and queues(pymq, topic) == (4, 4)
    assert "shrink-hidden 20" in outcome.err and f"pymq topic shrink {topic} --to 2" in outcome.err
    assert pymq("topic", "update", topic, "--wq", "2", "--rq", "2", "--force").code == EXIT_OK
    assert queues(pymq, topic) == (2, 2)


def test_expand_and_shrink_name_each_other(pymq: Pymq, topic: str) -> None:
    outcome = pymq("topic", "shrink", topic, "--to", "8", "--yes")
    assert outcome.code == EXIT_USAGE and f"pymq topic expand {topic} --to 8" in outcome.err
    [record] = pymq("topic", "expand", topic, "--to", "8", "-o", "json").json()
    assert (record["read_queues"], record["write_queues"], record["before"]) == (8, 8, "4/4")
    outcome = pymq("topic", "expand", topic, "--to", "4")
    assert outcome.code == EXIT_USAGE and f"pymq topic shrink {topic} --to 4" in outcome.err
    outcome = pymq("topic", "shrink", topic, "--to", "8", "--yes")
    assert outcome.code == EXIT_USAGE and "nothing to do" in outcome.err


def test_a_group_that_broadcasts_is_shown_and_not_awaited() -> None:
    target = BrokerTarget("broker-a", "c", "127.0.0.1:1")
    groups = [
        GroupLeft("all", Mode.BROADCAST, 0),
        GroupLeft("off", Mode.OFFLINE, 3),
        GroupLeft("on", Mode.ONLINE, 1200),
    ]
    config = TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=2)
    state = Draining("T", 2, [(target, config)], {MessageQueue("T", "broker-a", 3): 9}, 9, groups)
    assert [left.group for left in state.awaited()] == ["off", "on"]
    assert [left.group for left in state.awaited(["off"])] == ["on"]
    assert (state.written, state.read) == ([], [target])
    assert waiting_text(state, []) == "unread in queues 2 and above: off 3 (offline), on 1,200"
    assert [entry["unread"] for entry in plan_record(state, [])["groups"]] == [None, 3, 1200]
