"""The console of a real RocketMQ 5.3.3 and 4.9.7: every page, and a log-in where it checks requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from urllib.parse import quote

import pytest

from pymq.client import Admin, Message, Producer, PullConsumer
from pymq.clock import SystemClock
from pymq.console.changes.dead_letters import TOPICS
from pymq.console.serve import running
from pymq.console.settings import ConsoleSettings
from pymq.errors import RefusedError
from pymq.model.tables import SubscriptionGroupConfig
from pymq.security.credentials import Credentials
from pymq.testing.broker import TestBroker
from tests.console.browser import DEADLINE_S, Browser
from tests.console.changes.desk import Desk, with_desk
from tests.console.changes.test_dead_letters import GROUP as DEAD_GROUP
from tests.console.changes.test_dead_letters import die, resent
from tests.interop.support.apache import Apache4Server, ApacheServer
from tests.interop.test_apache_auth import SETTINGS

pytestmark = pytest.mark.interop

TOPIC, GROUP = "console_orders", "console_billing"
ROOT = ("root", "root-secret")


def with_console(namesrv: str, work: Callable[[Browser], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running(ConsoleSettings({"default": (namesrv,)}, port=0), SystemClock()) as console:
            await work(Browser(console.url))

    asyncio.run(run())


async def fill(namesrv: str, broker: str, credentials: Credentials | None = None) -> None:
    """Send ten messages, of which a group has read four."""
    async with Admin(namesrv, credentials=credentials) as admin:
        await admin.groups.put(broker, SubscriptionGroupConfig(group_name=GROUP))
    async with Producer("console_seed", namesrv=namesrv, credentials=credentials) as producer:
        for number in range(10):
            await producer.send(Message(TOPIC, f'{{"id": {number}}}', tags="paid", keys=f"order-{number}"))
    async with PullConsumer(GROUP, namesrv=namesrv, credentials=credentials) as consumer:
        for queue in await consumer.queues(TOPIC):
            await consumer.commit(queue, await consumer.min_offset(queue) + 1)


async def until_it_has_figures(server: ApacheServer) -> None:
    """Wait: RocketMQ 4.9 counts each second, and fails to answer before the first count."""
    async with Admin(server.namesrv) as admin, asyncio.timeout(DEADLINE_S):
        while True:
            try:
                await admin.brokers.runtime_info(server.broker)
            except RefusedError:
                await asyncio.sleep(0.2)
            else:
                return


@pytest.fixture(scope="module", params=["5.3.3", "4.9.7"])
def either(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheServer]:
    """An Apache broker, new and old."""
    if request.param == "5.3.3":
        yield request.getfixturevalue("apache")
        return
    server = Apache4Server(tmp_path_factory.mktemp("apache4"))
    asyncio.run(until_it_has_figures(server))
    yield server
    server.stop()


def test_every_page_of_an_apache_broker_says_what_it_knows(either: ApacheServer) -> None:
    async def work(browser: Browser) -> None:
        await fill(either.namesrv, either.broker)
        (topic,) = (await browser.data(f"topics?q={TOPIC}"))["topics"]
        assert topic["stored"] == 10 and topic["last_ms"]
        (group,) = (await browser.data(f"groups?q={GROUP}"))["groups"]
        assert group["lag"] is not None and group["members"] == 0
        found = await browser.data(f"messages?topic={TOPIC}&q=order-7")
        (row,) = found["messages"]
        message = f"messages/{TOPIC}/{quote(row['id'], safe='')}"
        assert (await browser.data(message))["keys"] == "order-7"
        broker = (await browser.data("brokers"))["brokers"][0]
        settings = await browser.data(f"brokers/{quote(broker['broker'])}/0?q=flushDiskType")
        assert [(each["value"], each["origin"], each["default"]) for each in settings["settings"]] == [
            ("ASYNC_FLUSH", None, None)
        ]
        pages = [
            "",
            "brokers",
            f"brokers/{broker['broker']}/0",
            "topics",
            f"topics/{TOPIC}",
            "groups",
            f"groups/{GROUP}",
        ]
        pages += ["messages", f"messages?topic={TOPIC}", message, f"{message}?as=hex", f"{message}/trace", "clients"]
        pages += [f"topics/{TOPIC}/tail", "dlq", "doctor", "raft", "auth", "namesrv", "about", "brokers/differences"]
        for page in pages:
            answer = await browser.get(page)
            assert answer.status == 200, (page, answer.text)
            assert not re.search(r">\s*(None|nan|-1)\s*<", answer.text), page
        doctor = await browser.data("doctor")
        # Other tests share the broker, and leave groups that may have problems.
        others = set(doctor["groups"]) - {GROUP}
        problems = [each for each in doctor["findings"] if each["severity"] == "problem"]
        assert not [each for each in problems if not any(name in str(each) for name in others)], problems
        raft = await browser.get("raft")
        assert "No broker is in a Raft group." in raft.text

    with_console(either.namesrv, work)


def test_what_is_not_there_is_said(apache: ApacheServer) -> None:
    async def work(browser: Browser) -> None:
        for page in ("topics/no_such_topic", "groups/no_such_group", "brokers/no_such_broker/0"):
            answer = await browser.get(page)
            assert answer.status == 404 and page.split("/")[1] in answer.text

    with_console(apache.namesrv, work)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheServer]:
    """A RocketMQ 5.3.3 that checks its requests."""
    server = ApacheServer(tmp_path_factory.mktemp("secured"), SETTINGS)
    yield server
    server.stop()


def test_people_log_in_where_an_apache_broker_checks_requests(secured: ApacheServer) -> None:
    async def work(browser: Browser) -> None:
        await fill(secured.namesrv, secured.broker, Credentials(*ROOT))
        answer = await browser.get("topics")
        assert answer.status == 303 and b"login" in answer.head
        wrong = await browser.get("login", {"name": "root", "secret": "wrong"})
        assert wrong.status == 403 and "are not right" in wrong.text and not browser.cookie
        unknown = await browser.get("login", {"name": "ghost", "secret": "wrong"})
        assert unknown.status == 403 and "are not right" in unknown.text
        await browser.log_in(*ROOT)
        assert {each["user"] for each in (await browser.data("auth"))["users"]} == {"root", "servers"}
        (topic,) = (await browser.data(f"topics?q={TOPIC}"))["topics"]
        assert topic["stored"] == 10
        page = await browser.get(f"topics/{TOPIC}")
        assert page.status == 200 and "root-secret" not in page.text

    with_console(secured.namesrv, work)


def test_users_and_rules_are_changed_on_an_apache_broker(secured: ApacheServer, tmp_path: Path) -> None:
    secret = "secret-of-ada"

    async def work(desk: Desk) -> None:
        await desk.browser.log_in(*ROOT)
        assert secret not in await desk.change("new/user", user="ada", type="Normal", secret=secret)
        await desk.change("auth/ada/rule", resource="Topic:ada*", actions="Get, Pub", sources="10.0.0.0/8")
        await desk.change("auth/ada/rule", resource="Topic:ada*", actions="Get", effect="Deny")
        (rule,) = (await desk.browser.data("auth/ada"))["rules"]
        assert (rule["resource"], rule["actions"], rule["effect"]) == ("Topic:ada*", ["Get"], "Deny")
        await desk.change("auth/ada/update", type="Super", enabled="no", secret="another")
        users = {each["user"]: each for each in (await desk.browser.data("auth"))["users"]}
        assert (users["ada"]["type"], users["ada"]["enabled"]) == ("Super", False)
        await desk.change("auth/ada/rule/delete", confirm="Topic:ada*", resource="Topic:ada*")
        assert (await desk.browser.data("auth/ada"))["rules"] == []
        await desk.change("auth/ada/delete", confirm="ada")
        assert (await desk.browser.get("auth/ada")).status == 404
        assert {result for _, _, result in desk.audit()} == {"done"} and len(desk.audit()) == 6
        assert secret not in desk.audit_text()

    with_desk(_shown(secured), tmp_path, work)


def test_dead_letters_are_sent_again_and_deleted_on_an_apache_broker(either: ApacheServer, tmp_path: Path) -> None:
    shown = _shown(either)

    async def work(desk: Desk) -> None:
        for topic in ("orders", "bills"):
            await desk.change("new/topic", topic=topic, write_queues="1", cluster="DefaultCluster")
        await desk.change("new/group", group=DEAD_GROUP, cluster="DefaultCluster")
        await die(shown, "orders", "bills", "orders")
        letters = (await desk.browser.data(f"dlq/{DEAD_GROUP}"))["messages"]
        assert sorted(letter["body_begin"] for letter in letters) == ["letter 0", "letter 1", "letter 2"]
        text = await desk.change(f"dlq/{DEAD_GROUP}/resend", origin="orders", target=TOPICS)
        assert "Sent 2 of 2" in text and await resent(desk, "orders") == ["letter 0", "letter 2"]
        assert not await resent(desk, "bills")
        await desk.change(f"dlq/{DEAD_GROUP}/purge", confirm=DEAD_GROUP)
        assert (await desk.browser.data(f"dlq/{DEAD_GROUP}"))["messages"] == []
        assert [(action, result) for action, _, result in desk.audit()][-2:] == [
            ("dlq resend", "done"),
            ("dlq purge", "done"),
        ]

    with_desk(shown, tmp_path, work)


def test_changes_work_on_an_apache_broker(either: ApacheServer, tmp_path: Path) -> None:
    """Each by its plan: topics, groups, places, messages, settings, values, and a broker out of service and back."""
    topic, group = "console_changes", "console_changed"

    async def work(desk: Desk) -> None:
        await desk.change("new/topic", topic=topic, write_queues="4", cluster="DefaultCluster")
        await desk.change(f"topics/{topic}/update", write_queues="8", read_queues="8")
        await desk.change("new/group", group=group, cluster="DefaultCluster")
        await desk.change(f"topics/{topic}/send", body="hello", tag="paid", keys="k1")
        async with Admin(either.namesrv) as admin:
            (data,) = (await admin.topics.route(topic)).queue_datas
            assert (data.write_queue_nums, data.read_queue_nums) == (8, 8)
        async with PullConsumer(group, namesrv=either.namesrv) as consumer:
            for queue in await consumer.queues(topic):
                await consumer.commit(queue, await consumer.max_offset(queue))
        text = await desk.change(f"groups/{group}/reset", topic=topic, kind="to", value="start")
        assert "Take it back" in text
        async with Admin(either.namesrv) as admin:
            places = await admin.offsets.places(group, topic)
            assert {place.committed for place in places.values()} == {0}
        text = await desk.change(
            "brokers/broker-a/0/settings", key="flushCommitLogThoroughInterval", value="12000", kept="on"
        )
        assert "12000" in text
        await desk.change("namesrv/values", namespace="console", key="color", value="blue")
        await desk.change("namesrv/values", confirm="color", namespace="console", key="color", delete="on")
        await desk.change("brokers/broker-a/0/drain", confirm="broker-a", force="on")
        await desk.change("brokers/broker-a/0/undrain")
        status, text = await desk.ask("brokers/broker-a/0/promote")
        assert status == 422, text
        await desk.change(f"groups/{group}/delete", confirm=group)
        await desk.change(f"topics/{topic}/delete", confirm=topic)
        assert {result for _, _, result in desk.audit()} == {"done"}

    with_desk(_shown(either), tmp_path, work)


def _shown(server: ApacheServer) -> TestBroker:
    """Return what the desk knows of a broker."""
    return cast(TestBroker, SimpleNamespace(namesrv=server.namesrv, address=server.broker))
