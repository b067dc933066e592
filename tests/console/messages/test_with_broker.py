"""The pages about messages from a real console with a real broker: found, followed, traced, downloaded, dead."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from pymq.client import Admin, Credentials, Message, Producer
from pymq.clock import SystemClock
from pymq.console.messages import tail as tail_module
from pymq.console.serve import running
from pymq.console.settings import ConsoleSettings
from pymq.model.names import dlq_topic
from pymq.model.tables import TopicConfig
from pymq.operations.message.reading import READER_GROUP
from pymq.testing.broker import TestBroker
from pymq.wire.bodies_auth import AclEntryInfo
from tests.console.browser import Browser
from tests.console.secured import settings_with_users


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker(traceTopicEnable="true") as servers:
        servers.create_topic("orders")
        servers.create_topic(dlq_topic("billing"), 1)
        yield servers


@asynccontextmanager
async def console(broker: TestBroker, *, shows_bodies: bool = True) -> AsyncIterator[Browser]:
    settings = ConsoleSettings({"default": (broker.namesrv,)}, port=0, shows_bodies=shows_bodies)
    async with running(settings, SystemClock()) as running_console:
        yield Browser(running_console.url)


def test_a_message_is_found_by_key_in_its_topic_with_its_page_trace_and_body(broker: TestBroker) -> None:
    async def work() -> None:
        async with (
            Producer("P", namesrv=broker.namesrv, compress_above_bytes=100) as producer,
            console(broker) as browser,
        ):
            for number in range(30):
                body = json.dumps({"id": number, "pad": "x" * 200}).encode()
                message = Message("orders", body, tags="paid", keys=f"order-{number}", properties={"color": "red"})
                await producer.send(message)
            (row,) = (await browser.data("messages?topic=orders&q=order-17"))["messages"]
            assert row["keys"] == "order-17" and row["body_begin"].startswith('{"id": 17')
            path = f"messages/orders/{quote(row['id'], safe='')}"
            for found in (await browser.data(path), await browser.data(f"messages/orders/{row['message_id']}")):
                assert found["body"]["id"] == 17 and found["properties"]["color"] == "red" and not found["missing"]
            found = await browser.data(f"messages?q={found['offset_message_id']}")
            assert [each["keys"] for each in found["messages"]] == ["order-17"]
            head, body = await browser.get(f"{path}/body")
            assert json.loads(body)["id"] == 17 and b"attachment" in head and b"octet-stream" in head
            events = (await browser.data(f"{path}/trace"))["events"]
            assert [event["event"] for event in events] == ["stored"]
            for query, count in (
                ("json=id+%3E+20", 9),
                ("tag=none", 0),
                ("sql=color+%3D+%27red%27", 30),
                ("text=%22id%22%3A+3", 1),
            ):
                found = await browser.data(f"messages?topic=orders&{query}")
                if query.startswith("text"):
                    assert all('"id": 3' in each["body_begin"] for each in found["messages"])
                else:
                    assert len(found["messages"]) == count, query
                assert found["scanned"] == found["of"] == 30 and found["position"] is None

    asyncio.run(work())


def test_a_page_of_a_message_that_is_not_there_is_not_found(broker: TestBroker) -> None:
    async def work() -> None:
        async with console(broker) as browser:
            for path in ("messages/orders/broker-a%3A0%3A99999", "messages/none/7F01", "messages/orders/7F01"):
                head, _ = await browser.get(path)
                assert head.startswith(b"HTTP/1.1 404"), path

    asyncio.run(work())


def test_dead_letters_are_listed(broker: TestBroker) -> None:
    async def work() -> None:
        async with Producer("P", namesrv=broker.namesrv) as producer, console(broker) as browser:
            await producer.send(Message(dlq_topic("billing"), b"dead"))
            groups = (await browser.data("dlq"))["groups"]
            assert [(record["group"], record["messages"]) for record in groups] == [("billing", 1)]
            (letter,) = (await browser.data("dlq/billing"))["messages"]
            assert letter["body_begin"] == "dead" and letter["origin_topic"] is None
            assert (await browser.data("dlq/other"))["messages"] == []

    asyncio.run(work())


def test_new_messages_come_through_the_stream_until_the_console_stops(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "ROUND_S", 0.05)

    async def work() -> None:
        async with Producer("P", namesrv=broker.namesrv) as producer:
            async with console(broker) as browser:
                reader, writer = await browser.open("topics/orders/tail/events?text=needle")
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
                assert b"text/event-stream" in head and b"no-store" in head
                await reader.readuntil(b"event: round")  # it has begun, so that the next message is new
                await producer.send(Message("orders", b"hay"))
                await producer.send(Message("orders", b"a needle"))
                line = await asyncio.wait_for(reader.readuntil(b'"body_begin": "a needle"'), 10)
                assert b"hay" not in line
            rest = await asyncio.wait_for(reader.read(), 10)
            assert b"event: end" in rest and b"the console stops" in rest
            writer.close()
        async with Admin(broker.namesrv) as admin:
            assert "TOOLS_CONSUMER" not in await admin.topics.groups("orders"), "a tail commits nothing"

    asyncio.run(work())


def test_without_bodies_no_answer_has_any(broker: TestBroker) -> None:
    async def work() -> None:
        async with Producer("P", namesrv=broker.namesrv) as producer, console(broker, shows_bodies=False) as browser:
            sent = await producer.send(
                Message("orders", b"secret-body", tags="secret-tag", keys="secret-key", properties={"a": "secret-a"})
            )
            place = f"messages/orders/{sent.message_id}"
            pages = (place, f"{place}/trace", "messages?topic=orders", "messages?topic=orders&q=secret-key", "dlq")
            for path in pages:
                for form in ("html", "json"):
                    head, body = await browser.get(f"{path}{'&' if '?' in path else '?'}format={form}")
                    assert head.startswith(b"HTTP/1.1 200"), (path, head)
                    assert b"secret" not in body.replace(b"secret-key", b"", 5 if "secret-key" in path else 0), path
            for path in (
                f"{place}/body",
                "topics/orders/tail",
                "topics/orders/tail/events",
                "messages?topic=orders&text=secret",
            ):
                head, body = await browser.get(path)
                assert head.startswith(b"HTTP/1.1 403") and b"secret-body" not in body, path

    asyncio.run(work())


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[TestBroker]:
    """A broker with an administrator, and a user who may read one topic."""
    with TestBroker(**settings_with_users(tmp_path)) as found:
        asyncio.run(_make_reader(found))
        yield found


async def _make_reader(broker: TestBroker) -> None:
    administrator = Credentials("admin", "admin-secret")
    async with (
        Admin(broker.namesrv, credentials=administrator) as admin,
        Producer("P", namesrv=broker.namesrv, credentials=administrator) as producer,
    ):
        for topic in ("orders", "secret"):
            await admin.topics.put(broker.address, TopicConfig(topic_name=topic))
            await producer.send(Message(topic, b"first of " + topic.encode(), keys="k"))
        await admin.auth.create_user(broker.address, "reader", "reader-secret")
        rules = [("Topic:orders", ["Get", "Sub"]), (f"Group:{READER_GROUP}", ["Sub"])]
        for resource, actions in rules:
            rule = AclEntryInfo(resource=resource, actions=actions, decision="Allow")
            await admin.auth.put_acl(broker.address, "reader", [rule])


def test_a_person_with_rights_to_one_topic_uses_its_pages_and_the_stream_ends_with_the_session(
    secured: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "ROUND_S", 0.05)

    async def work() -> None:
        async with console(secured) as browser:
            head, _ = await browser.get("messages?topic=orders")
            assert head.startswith(b"HTTP/1.1 303") and b"/login" in head
            await browser.log_in("reader", "reader-secret")
            (row,) = (await browser.data("messages?topic=orders"))["messages"]
            found = await browser.data(f"messages/orders/{quote(row['id'], safe='')}")
            assert found["body"] == "first of orders"
            assert (await browser.data("messages?topic=orders&q=k"))["messages"] == [row]
            for path in (
                "messages?topic=secret",
                "messages/secret/broker-a%3A0%3A0",
                "topics/secret/tail/events",
            ):
                head, body = await browser.get(path)
                assert head.startswith(b"HTTP/1.1 403"), (path, head, body)
                assert b"no permission" in body and b"first of secret" not in body
            reader, writer = await browser.open("topics/orders/tail/events")
            await asyncio.wait_for(reader.readuntil(b"event: round"), 10)
            await browser.log_out()
            rest = await asyncio.wait_for(reader.read(), 10)
            assert b"you are logged out" in rest
            writer.close()

    asyncio.run(work())
