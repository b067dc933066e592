"""Samples and pages of a real broker, with users who may see different things."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from math import isnan
from typing import Any

import pytest

from pymq.client import Admin, Credentials, Message, Producer
from pymq.clock import ManualClock
from pymq.console.answers import Shell
from pymq.console.app import Console, make_app
from pymq.console.asking.clusters import Clusters
from pymq.console.clients import gatherer
from pymq.console.history import counted
from pymq.console.history.recorder import Recorder
from pymq.console.history.rings import CLUSTER, Kind, Measure, Subject, point_at
from pymq.console.people.log_in import LogIns
from pymq.console.people.sessions import Session, Sessions
from pymq.console.web.origins import Origins
from pymq.console.web.static_files import StaticFiles
from pymq.model.tables import TopicConfig
from pymq.testing.broker import TestBroker
from pymq.wire.bodies_auth import AclEntryInfo
from tests.console.asgi import Answer, asked
from tests.console.secured import settings_with_users

ADMIN = Credentials("admin", "admin-secret")
READER = Credentials("reader", "reader-secret")


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as found:
        found.create_topic("orders")
        found.create_topic("idle")
        yield found


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBroker]:
    """A broker with an administrator, and a user who may see one topic."""
    directory = tmp_path_factory.mktemp("secured")
    with TestBroker(**settings_with_users(directory)) as found:
        asyncio.run(_make_reader(found))
        yield found


async def _make_reader(broker: TestBroker) -> None:
    async with Admin(broker.namesrv, credentials=ADMIN) as admin:
        for topic in ("orders", "secret"):
            await admin.topics.put(broker.address, TopicConfig(topic_name=topic))
        await admin.auth.create_user(broker.address, "reader", "reader-secret")
        rule = AclEntryInfo(resource="Topic:orders", actions=["Get", "List"], decision="Allow")
        await admin.auth.put_acl(broker.address, "reader", [rule])


class World:
    """A console of one broker. Its clock is moved by hand, so samples need no waiting."""

    def __init__(self, broker: TestBroker, own: Credentials | None = None) -> None:
        self.broker = broker
        self.clock = ManualClock()
        self.recorder = Recorder(lambda: self._admin(own), self.clock, has_credentials=own is not None)
        self.sessions = Sessions(self.clock, 8082, ["prod"])
        self.clusters = Clusters({"prod": broker.namesrv}, self._admin_of, self.clock)
        shell = Shell(
            self.clusters,
            self.sessions,
            LogIns(self.sessions, None, self.clock),  # type: ignore[arg-type]
            self.clock,
            StaticFiles("pymq.console"),
            recorders={"prod": self.recorder},
            examine=self._examine,
        )
        self.app = make_app(Console(shell), Origins.of_listener("127.0.0.1", 8082, "http"))

    def _admin(self, credentials: Credentials | None) -> Admin:
        return Admin(self.broker.namesrv, is_partial=True, credentials=credentials)

    def _admin_of(self, context: str, session: Session | None) -> Admin:
        return self._admin(session.credentials if session is not None else None)

    async def _examine(self, context: str, session: Session | None, observe_ms: int) -> Any:
        own = session.credentials if session is not None else None
        return await gatherer([self.broker.namesrv], own, self.clock, observe_ms, ["broker-b"]).state()

    async def sample(self, rounds: int, *, sent: int = 0, credentials: Credentials | None = None) -> None:
        """Sample so often, each ten seconds, and send messages before each round."""
        async with Producer("traffic", namesrv=self.broker.namesrv, credentials=credentials) as producer:
            for _ in range(rounds):
                for number in range(sent):
                    await producer.send(Message("orders", str(number).encode()))
                await self.recorder.round()
                self.clock.advance(10_000)

    async def get(self, path: str, cookie: str = "", query: str = "") -> Answer:
        return await asked(self.app, f"/at/prod/{path}", query=query, headers={"Cookie": cookie})

    def log_in(self, credentials: Credentials) -> str:
        _, cookie = self.sessions.open(credentials.access_key, credentials, "127.0.0.1", "prod")
        return self.sessions.set_cookie("prod", cookie).partition(";")[0]

    def known(self, subject: Subject, measure: Measure) -> list[float]:
        points = self.recorder.rings.points(subject, measure, point_at(self.clock.monotonic_ms())) or []
        return [value for value in points if not isnan(value)]

    async def close(self) -> None:
        await self.recorder.close()
        await self.clusters.close()


def test_a_broker_is_sampled_and_shown(broker: TestBroker) -> None:
    async def work() -> None:
        world = World(broker)
        await world.sample(8, sent=20)
        orders = Subject(Kind.topic, "orders")
        assert world.known(orders, Measure.in_rate) == [2.0] * 4, "known since the second answer, each 30 s"
        assert world.known(Subject(Kind.topic, "idle"), Measure.in_rate) == [0.0] * 4
        assert world.known(CLUSTER, Measure.in_rate) == [2.0] * 7
        overview = (await world.get("")).text
        assert "Messages in <b>2</b> a second" in overview and 'topics/orders">orders</a>' in overview
        assert "Messages in <b>2</b> a second" in (await world.get("topics/orders")).text
        listed = json.loads((await world.get("topics", query="format=json&sort=in/s&order=down")).body)
        assert [(row["topic"], row["in_per_second"]) for row in listed["topics"]][:2] == [
            ("orders", 2.0),
            ("idle", 0.0),
        ]
        doctor = json.loads((await world.get("doctor", query="format=json")).body)
        assert [check["name"] for check in doctor["checks"] if not check["checked"]] == []
        found = {(one["check"], one["subject"]) for one in doctor["findings"]}
        assert found >= {("replication", "broker-a"), ("missing", "broker-b")}
        await world.close()

    asyncio.run(work())


def test_what_a_broker_counted_before_the_console_is_shown(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "SPAN_MIN_MS", 0)

    async def work() -> None:
        async with Producer("traffic", namesrv=broker.namesrv) as producer:
            await producer.send(Message("orders", b"x"))
        world = World(broker)
        await world.sample(1)  # which has no rates yet
        for path in ("", "topics/orders", "brokers/broker-a/0"):
            text = (await world.get(path)).text
            assert "What brokers counted themselves from" in text and "mean " in text, path
        record = json.loads((await world.get("topics/orders", query="format=json")).body)["lastHour"]
        assert record["countedByBrokers"]["in"]["mean"] > 0 and record["in"] == [None] * 60
        assert "counted themselves" not in (await world.get("topics/idle")).text, "nothing was counted"
        await world.close()

    asyncio.run(work())


def test_a_console_without_credentials_samples_nothing_of_a_cluster_with_users(secured: TestBroker) -> None:
    async def work() -> None:
        world = World(secured)
        await world.sample(3)
        assert not world.recorder.rings.count
        assert "refuses the console's own requests" in world.recorder.problem
        text = (await world.get("", world.log_in(ADMIN))).text
        assert "PYMQ_ACCESS_KEY" in text and "<svg" not in text
        await world.close()

    asyncio.run(work())


def test_each_person_sees_the_figures_of_what_that_person_may_see(secured: TestBroker) -> None:
    async def work() -> None:
        world = World(secured, ADMIN)
        await world.sample(8, sent=20, credentials=ADMIN)
        assert not world.recorder.problem
        admin, reader = world.log_in(ADMIN), world.log_in(READER)
        for path in ("", "topics/orders"):
            text = (await world.get(path, admin)).text
            assert "Messages in <b>2</b> a second" in text, path
        text = (await world.get("", reader)).text
        assert "<svg" not in text and "has no permission to access Cluster:DefaultCluster" in text
        answer = await world.get("topics/secret", reader)
        assert answer.status == 403 and "<svg" not in answer.text
        assert (await world.get("doctor", reader)).status == 403
        for path in ("", "topics/orders", "doctor"):
            answer = await world.get(path)
            assert answer.status == 303 and "/login" in (answer.header("location") or ""), path
        await world.close()

    asyncio.run(work())
