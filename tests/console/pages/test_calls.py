"""How often pages with many rows ask a real broker: few times for a page, and never once for each row of a list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from pymq.client import Message, MessageQueue, Producer, PullConsumer
from pymq.client.admin import Admin
from pymq.clock import SystemClock
from pymq.console.answers import Shell
from pymq.console.app import Console, make_app
from pymq.console.asking.clusters import Clusters
from pymq.console.people.log_in import LogIns
from pymq.console.people.sessions import Session, Sessions
from pymq.console.web.origins import Origins
from pymq.console.web.static_files import StaticFiles
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.testing.broker import TestBroker
from tests.console.asgi import Answer, asked

TOPIC_COUNT = 60
QUEUE_COUNT = 4
SHOWN = 20
CALLS_OF_A_BROKER = 3
CALLS_OF_QUEUES = 4  # the chosen topic and its retry topics


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    """A broker with a group that is behind in each queue of many topics."""
    with TestBroker() as found:
        asyncio.run(_fill(found))
        yield found


async def _fill(broker: TestBroker) -> None:
    names = [f"t{number:03}" for number in range(TOPIC_COUNT)]
    async with Admin(broker.namesrv) as admin:
        for name in names:
            config = TopicConfig(topic_name=name, read_queue_nums=QUEUE_COUNT, write_queue_nums=QUEUE_COUNT)
            await admin.topics.put(broker.address, config)
        await admin.groups.put(broker.address, SubscriptionGroupConfig(group_name="g"))
        broker_name = (await admin.cluster.masters())[0].name
    async with (
        Producer("traffic", namesrv=broker.namesrv) as producer,
        PullConsumer("g", namesrv=broker.namesrv) as consumer,
    ):
        for name in names:
            for queue_id in range(QUEUE_COUNT):
                queue = MessageQueue(name, broker_name, queue_id)
                await producer.send(Message(name, b"x"), queue=queue)
                await consumer.commit(queue, 0)


class Calls:
    """A console whose requests to brokers are counted."""

    def __init__(self, broker: TestBroker) -> None:
        self.codes: list[int] = []
        clock = SystemClock()
        sessions = Sessions(clock, 8082, ["prod"])

        def admin_of(context: str, session: Session | None) -> Admin:
            admin = Admin(broker.namesrv, is_partial=True)
            connection = admin._connection
            ask = type(connection).ask_broker

            async def counted(address: str, code: int, *parts: Any) -> Any:
                self.codes.append(code)
                return await ask(connection, address, code, *parts)

            connection.ask_broker = counted  # type: ignore[method-assign, assignment]
            return admin

        self.clusters = Clusters({"prod": broker.namesrv}, admin_of, clock)
        log_ins = LogIns(sessions, None, clock)  # type: ignore[arg-type]
        shell = Shell(self.clusters, sessions, log_ins, clock, StaticFiles("pymq.console"))
        self.app = make_app(Console(shell), Origins.of_listener("127.0.0.1", 8082, "http"))

    async def get(self, path: str, query: str = "") -> Answer:
        self.codes.clear()
        answer = await asked(self.app, f"/at/prod/{path}", query=query)
        assert answer.status == 200, answer.text
        return answer


def run(broker: TestBroker, work: Callable[[Calls], Awaitable[None]]) -> None:
    async def main() -> None:
        calls = Calls(broker)
        try:
            await work(calls)
        finally:
            await calls.clusters.close()

    asyncio.run(main())


def test_a_group_asks_for_what_it_shows(broker: TestBroker) -> None:
    async def work(calls: Calls) -> None:
        found = json.loads((await calls.get("groups/g", "format=json")).body)
        assert 0 < len(calls.codes) <= CALLS_OF_A_BROKER + SHOWN + CALLS_OF_QUEUES
        assert [row["topic"] for row in found["progress"]] == [f"t{number:03}" for number in range(SHOWN)]
        assert all(row["lag"] == QUEUE_COUNT and row["lag_ms"] is not None for row in found["progress"])
        assert [(row["topic"], row["lag"]) for row in found["queues"]] == [("t000", 1)] * QUEUE_COUNT
        assert found["lists"]["progress"]["total"] == TOPIC_COUNT
        await calls.get("groups/g")
        assert not calls.codes, "kept answers are taken"
        found = json.loads((await calls.get("groups/g", "progress-page=3&topic=t059&format=json")).body)
        assert found["progress"][-1]["topic"] == found["queues"][0]["topic"] == "t059"

    run(broker, work)


@pytest.mark.parametrize(
    ("path", "calls_max"),
    [("topics", 3), ("groups", 3), ("clients", 4), ("brokers", 3), ("topics/t000", 5), ("raft", 3)],
)
def test_a_page_asks_a_broker_a_few_times(broker: TestBroker, path: str, calls_max: int) -> None:
    async def work(calls: Calls) -> None:
        await calls.get(path)
        assert 0 < len(calls.codes) <= calls_max, calls.codes

    run(broker, work)
