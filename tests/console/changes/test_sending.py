"""Messages sent by a form, and stored ones sent again, on a real broker."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from pymq.client import Admin, Message, Producer, StoredMessage
from pymq.client.outgoing import BODY_SIZE_MAX_BYTES
from pymq.console.web.bodies import FORM_BYTES_MAX
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk

TOPIC, COPY = "orders", "copies"
TOPICS = {TOPIC: 2, COPY: 1}  # with their numbers of queues
SEND = f"topics/{TOPIC}/send"
BODY = b"\xff\x00a body of bytes"


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as servers:
        for topic, queue_count in TOPICS.items():
            servers.create_topic(topic, queue_count=queue_count)
        yield servers


async def stored(desk: Desk, topic: str) -> list[StoredMessage]:
    """Return all messages of a topic."""
    async with Admin(desk.broker.namesrv) as admin:
        queues = await admin.topics.stats(topic)
    found: list[StoredMessage] = []
    async with desk.reader() as reader:
        for queue, at in queues.items():
            offset = at.min_offset
            while offset < at.max_offset:
                result = await reader.pull(queue, offset)
                found += result.messages()
                offset = max(result.next_offset, offset + 1)
    return found


async def only(desk: Desk, topic: str) -> StoredMessage:
    (found,) = await stored(desk, topic)
    return found


def again(message: StoredMessage) -> str:
    place = f"{message.broker_name}:{message.queue_id}:{message.queue_offset}"
    return f"messages/{message.topic}/{quote(place, safe='')}/send"


def shown_fields(text: str) -> dict[str, str]:
    """Return what stands in the fields of a form."""
    inputs = re.findall(r'<input type="\w+" name="(\w+)" value="([^"]*)"', text)
    areas = re.findall(r'<textarea name="(\w+)"[^>]*>\n(.*?)</textarea>', text, re.DOTALL)
    return {name: value.replace("&#34;", '"') for name, value in inputs + areas if name != "token"}


def with_one(
    broker: TestBroker, audit: Path, work: Callable[[Desk, StoredMessage], Awaitable[None]], **more: Any
) -> None:
    """Run ``work`` with one stored message, which has properties of its producer and of brokers."""

    async def begin(desk: Desk) -> None:
        async with Producer("P", namesrv=broker.namesrv, compress_above_bytes=8) as producer:
            properties = {"color": "crimson", "__SHARDINGKEY": "k"}
            await producer.send(Message(TOPIC, more.pop("body", BODY), tags="paid", keys="a b", properties=properties))
        await work(desk, await only(desk, TOPIC))

    with_desk(broker, audit, begin, **{name: value for name, value in more.items() if name != "body"})


def test_a_message_is_sent_as_a_form_says(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        fields = {"body": "two\r\nlines", "tag": "paid", "keys": "k1 k2", "properties": "color=crimson\r\nsize=a=b"}
        text, plan, token = await desk.plan(SEND, **fields, queue="1")
        assert "9 bytes" in text and "pymq send orders --tag paid --key k1 --key k2" in text
        assert not await stored(desk, TOPIC)
        status, text = await desk.send(plan, token=token)
        assert status == 200 and "SEND_OK" in text
        found = await only(desk, TOPIC)
        assert (found.content(), found.tags, found.keys, found.queue_id) == (b"two\nlines", "paid", "k1 k2", 1)
        assert (found.properties["color"], found.properties["size"]) == ("crimson", "a=b")
        assert f"/at/default/messages/{TOPIC}/broker-a%3A1%3A0" in text
        assert (await desk.send(plan, token=token))[0] == 404, "a plan is used once"
        assert len(await stored(desk, TOPIC)) == 1
        assert desk.audit() == [("message send", f"topic {TOPIC}", "done")]
        assert "lines" not in desk.audit_text() and "crimson" not in desk.audit_text()
        assert found.message_id in desk.audit_text()

    with_desk(broker, tmp_path, work)


def test_an_ordering_key_chooses_the_queue_and_a_delay_can_be_recalled(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        for _ in range(3):
            await desk.change(SEND, body="x", ordering_key="same")
        found = await stored(desk, TOPIC)
        assert len(found) == 3 and len({message.queue_id for message in found}) == 1
        assert {message.properties["__SHARDINGKEY"] for message in found} == {"same"}
        text = await desk.change(SEND, body="later", delay="1h")
        handle = re.findall(r"Recall handle</dt><dd>\s*([\w=-]+)", text)[0]
        async with Producer("P", namesrv=broker.namesrv) as producer:
            assert await producer.recall(TOPIC, handle)
        assert handle not in desk.audit_text()

    with_desk(broker, tmp_path, work)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "body"),
        ({"body": ""}, "body"),
        ({"body": "a\0b"}, "body"),
        ({"body": "x", "properties": "REAL_TOPIC=secret"}, "properties"),
        ({"body": "x", "properties": "DELAY=1"}, "properties"),
        ({"body": "x", "delay": "soon"}, "message"),
        ({"body": "x", "delay": "1h", "deliver_at": "2030-01-31T12:00"}, "message"),
        ({"body": "x", "delay_level": "19"}, "delay_level"),
        ({"body": "x", "delay_level": "1", "delay": "1h"}, "message"),
        ({"body": "x", "queue": "x"}, "message"),
        ({"body": "x", "queue": "0", "ordering_key": "k"}, "queue"),
        ({"body": "x", "ordering_key": "k", "properties": "__SHARDINGKEY=other"}, "ordering_key"),
        ({"body": "x", "tag": "a\x01b\x02c\x01d"}, "message"),
    ],
)
def test_a_wrong_form_sends_nothing(broker: TestBroker, tmp_path: Path, fields: dict[str, str], name: str) -> None:
    async def work(desk: Desk) -> None:
        status, text = await desk.ask(SEND, **fields)
        assert status == 400 and f"{name}: " in text, text
        assert not await stored(desk, TOPIC)

    with_desk(broker, tmp_path, work)


def test_a_topic_that_is_not_there_gets_no_message(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        assert (await desk.ask("topics/none/send", body="x"))[0] == 404
        assert (await desk.ask(SEND, body="x", queue="7"))[0] == 404
        _, plan, token = await desk.plan(SEND, body="x")
        async with Admin(broker.namesrv) as admin:
            await admin.topics.delete(TOPIC, await admin.topics.targets(TOPIC), everywhere=True)
        status, text = await desk.send(plan, token=token)
        assert status == 409 and "was deleted since the plan was made" in text
        async with Admin(broker.namesrv) as admin:
            assert TOPIC not in await admin.topics.names(), "no send makes it again"
        assert [result.partition(" since")[0] for _, _, result in desk.audit()] == [f"topic {TOPIC} was deleted"]

    with_desk(broker, tmp_path, work)


def test_a_time_is_the_same_in_a_terminal_of_another_zone(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        text, _, _ = await desk.plan(SEND, body="x", deliver_at="2030-01-31T12:00")
        assert "2030-01-31T12:00:00" in text and "--deliver-at 1896091200000" in text
        text, _, _ = await desk.plan(SEND, body="-x", delay="90m", properties="a=b c")
        assert "pymq send orders --property &#39;a=b c&#39; --delay 90m -- -x" in text

    with_desk(broker, tmp_path, work)


def test_the_largest_form_and_one_byte_more(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        token = await desk.form(SEND)
        room = FORM_BYTES_MAX - len(urlencode({"token": token, "body": ""}))
        assert (await desk.send(SEND, token=token, body="x" * (room + 1)))[0] == 413
        status, text = await desk.send(SEND, token=token, body="x" * room)
        assert status == 200 and f"{room:,} bytes" in text and "@FILE" in text
        assert len(text) < 20_000, "a plan shows the begin of a body"

    with_desk(broker, tmp_path, work)


def test_a_body_that_inflates_beyond_a_body_is_not_sent_again(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        async with Producer("P", namesrv=broker.namesrv, body_size_max_bytes=2 * BODY_SIZE_MAX_BYTES) as producer:
            await producer.send(Message(TOPIC, b"x" * (BODY_SIZE_MAX_BYTES + 1)))
        bomb = await only(desk, TOPIC)
        assert bomb.size_bytes < 100_000
        head, text = await desk.browser.get(again(bomb))
        assert head.startswith(b"HTTP/1.1 400") and b"can&#39;t be sent again" in text

    with_desk(broker, tmp_path, work)


@pytest.mark.parametrize("body", [BODY, b"text\r\nof two lines", b"x" * 60_000], ids=["bytes", "text", "long"])
def test_a_message_is_sent_again_as_it_was(broker: TestBroker, tmp_path: Path, body: bytes) -> None:
    async def work(desk: Desk, first: StoredMessage) -> None:
        _, page = await desk.browser.get(again(first).removesuffix("/send"))
        assert again(first).encode() in page
        _, form = await desk.browser.get(again(first))
        fields = shown_fields(form.decode()) | {"topic": COPY}
        assert ("body" in fields) == (body.startswith(b"text"))
        await desk.change(again(first), **{name: text.replace("\n", "\r\n") for name, text in fields.items()})
        copy = await only(desk, COPY)
        assert copy.content() == body and (copy.tags, copy.keys) == ("paid", "a b")
        own = {"color": "crimson", "__SHARDINGKEY": "k"}
        assert {name: copy.properties.get(name) for name in own} == own
        assert copy.message_id != first.message_id
        assert desk.audit() == [("message send again", f"topic {COPY}", "done")]
        assert "crimson" not in desk.audit_text() and "two lines" not in desk.audit_text()

    with_one(broker, tmp_path, work, body=body)


def test_what_brokers_wrote_is_not_sent_again(broker: TestBroker, tmp_path: Path) -> None:
    """A dead letter, sent again to a topic, begins there as new."""

    async def work(desk: Desk) -> None:
        broker.create_topic("%DLQ%billing", queue_count=1)
        async with Producer("P", namesrv=broker.namesrv) as producer:
            sent = await producer.send(Message(TOPIC, b"first", tags="t", properties={"color": "crimson"}))
            first = await only(desk, TOPIC)
            reserved = {"RETRY_TOPIC": TOPIC, "DLQ_ORIGIN_TOPIC": TOPIC, "REAL_TOPIC": "x", "PYMQ_RESEND": "1"}
            await producer.send_copy(first, "%DLQ%billing", first.properties | reserved)
        letter = await only(desk, "%DLQ%billing")
        await desk.change(again(letter).replace("%DLQ", "%25DLQ").replace("%billing", "%25billing"), topic=COPY)
        copy = await only(desk, COPY)
        assert set(copy.properties) - {"UNIQ_KEY", "WAIT", "MSG_REGION", "TRACE_ON", "CLUSTER"} == {"TAGS", "color"}
        assert copy.message_id != sent.message_id

    with_desk(broker, tmp_path, work)


def test_an_edited_message_keeps_what_was_not_edited(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk, first: StoredMessage) -> None:
        text, plan, token = await desk.plan(again(first), topic=COPY, tag="new", keys="a b", properties="size=<b>")
        assert "size=&lt;b&gt;" in text and "color=crimson" in text, "before and after"
        assert (await desk.send(plan, token=token))[0] == 200
        copy = await only(desk, COPY)
        assert (copy.content(), copy.tags, copy.properties["size"]) == (BODY, "new", "<b>")
        assert "color" not in copy.properties
        await desk.change(again(copy), topic=COPY, body="new body")
        assert [message.content() for message in await stored(desk, COPY)] == [BODY, b"new body"]

    with_one(broker, tmp_path, work)


def test_a_form_by_an_id_leads_to_the_place(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk, first: StoredMessage) -> None:
        for name in (first.message_id, first.offset_message_id):
            head, _ = await desk.browser.get(f"messages/{TOPIC}/{name}/send")
            assert head.startswith(b"HTTP/1.1 303") and again(first).encode() in head
            assert (await desk.ask(again(first), topic=COPY))[0] == 200
            token = await desk.form(again(first))
            assert (await desk.send(f"messages/{TOPIC}/{name}/send", token=token, topic=COPY))[0] == 400

    with_one(broker, tmp_path, work)


def test_another_message_at_the_place_is_a_conflict(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk, first: StoredMessage) -> None:
        plans = [await desk.plan(again(first), topic=COPY) for _ in range(2)]
        async with Admin(broker.namesrv) as admin, Producer("P", namesrv=broker.namesrv) as producer:
            await admin.topics.delete(TOPIC, await admin.topics.targets(TOPIC), everywhere=True)
            broker.create_topic(TOPIC, queue_count=2)
            _, plan, token = plans[0]
            status, text = await desk.send(plan, token=token)
            assert status == 409 and "gone since the plan" in text, text
            for _ in range(2):
                await producer.send(Message(TOPIC, b"another"))
        _, plan, token = plans[1]
        status, text = await desk.send(plan, token=token)
        assert status == 409 and "another message" in text, text
        assert not await stored(desk, COPY)
        assert len(desk.audit()) == 2 and all("nothing is sent" in result for _, _, result in desk.audit())

    with_one(broker, tmp_path, work)


def test_without_bodies_a_message_is_sent_again_and_never_shown(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk, first: StoredMessage) -> None:
        _, form = await desk.browser.get(again(first))
        assert shown_fields(form.decode()) == {"topic": TOPIC}
        for field in ("body", "tag", "keys", "properties"):
            status, text = await desk.ask(again(first), **{"topic": COPY, field: "x=y"})
            assert status == 403 and "--no-bodies" in text
        text, plan, token = await desk.plan(again(first), topic=COPY)
        status, done = await desk.send(plan, token=token)
        assert status == 200
        for shown in (text, done):
            assert "paid" not in shown and "crimson" not in shown and "a body of bytes" not in shown
        assert (await only(desk, COPY)).content() == BODY

    with_one(broker, tmp_path, work, shows_bodies=False)


@pytest.mark.parametrize(
    ("fields", "status"),
    [({}, 400), ({"topic": "a b"}, 400), ({"topic": "none"}, 404), ({"topic": COPY, "body": ""}, 400)],
)
def test_a_wrong_form_sends_nothing_again(
    broker: TestBroker, tmp_path: Path, fields: dict[str, str], status: int
) -> None:
    async def work(desk: Desk, first: StoredMessage) -> None:
        found, text = await desk.ask(again(first), **fields)
        assert found == status, text
        assert len(await stored(desk, TOPIC)) == 1 and not await stored(desk, COPY)

    with_one(broker, tmp_path, work)
