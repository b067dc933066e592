"""Dead letters sent again and deleted by forms, on a real broker and on brokers that fail."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from pymq.client import Admin, Message, MessageQueue, Producer
from pymq.client.consumer_settings import TO_DEAD_LETTERS
from pymq.console.changes import dead_letters
from pymq.model.ids import decode_offset_id
from pymq.model.names import dlq_topic, retry_topic
from pymq.model.tables import PERM_READ, SubscriptionGroupConfig, TopicConfig
from pymq.operations import dead_letters as operations
from pymq.operations.pace import Pace
from pymq.testing.broker import TestBroker
from pymq.wire.codes import RequestCode
from pymq.wire.headers.send import ConsumerSendMsgBackHeader
from tests.console.changes.desk import Desk, with_desk
from tests.console.changes.test_sending import stored

GROUP = "billing"
LETTERS = dlq_topic(GROUP)
TOPICS = {"orders": 2, "bills": 1, LETTERS: 1, retry_topic(GROUP): 1}  # with their numbers of queues
RESEND, PURGE = f"dlq/{GROUP}/resend", f"dlq/{GROUP}/purge"
TO_TOPICS = {"target": dead_letters.TOPICS}


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as servers:
        for topic, queue_count in TOPICS.items():
            servers.create_topic(topic, queue_count=queue_count)
        yield servers


async def die(broker: TestBroker, *origins: str) -> None:
    """Make a message of each of these topics a dead letter, as a consumer does that gives up; "" makes one of none."""
    async with Producer("P", namesrv=broker.namesrv) as producer, Admin(broker.namesrv) as admin:
        for number, origin in enumerate(origins):
            body = b"letter %d" % number
            if not origin:
                await producer.send(Message(LETTERS, body))
                continue
            sent = await producer.send(Message(origin, body, tags="t", properties={"color": "crimson"}))
            header = ConsumerSendMsgBackHeader(
                offset=decode_offset_id(sent.offset_message_id)[2],
                group=GROUP,
                delay_level=TO_DEAD_LETTERS,
                origin_msg_id=sent.message_id,
                origin_topic=origin,
            )
            await admin._connection.ask_broker(broker.address, RequestCode.CONSUMER_SEND_MSG_BACK, header)


async def close_to_writes(broker: TestBroker, topic: str) -> None:
    async with Admin(broker.namesrv) as admin:
        await admin.topics.put(broker.address, TopicConfig(topic_name=topic, perm=PERM_READ))


def with_letters(broker: TestBroker, audit: Path, origins: list[str], work: Callable[[Desk], Awaitable[None]]) -> None:
    async def begin(desk: Desk) -> None:
        async with Admin(broker.namesrv) as admin:
            await admin.groups.put(broker.address, SubscriptionGroupConfig(group_name=GROUP))
        await die(broker, *origins)
        await work(desk)

    with_desk(broker, audit, begin)


async def resent(desk: Desk, topic: str) -> list[str]:
    """Return the bodies of messages that came to a topic a second time."""
    seen: set[str] = set()
    found = []
    for message in await stored(desk, topic):
        if message.message_id in seen:
            found.append(message.content().decode())
        seen.add(message.message_id)
    return sorted(found)


def places(*offsets: int) -> str:
    return "&".join(f"chosen={quote(f'broker-a:0:{offset}', safe='')}" for offset in offsets)


async def apply(desk: Desk, path: str, fields: list[tuple[str, str]]) -> str:
    """Plan with fields of which some are given several times, carry it out, and return the result."""
    status, text = await desk.send_all(path, fields)
    assert status == 200, text
    plan = desk.plan_of(text)
    assert plan, text
    status, text = await desk.send(plan, token=desk.token(text.encode()))
    assert status == 200, text
    return text


def hidden(text: str) -> list[tuple[str, str]]:
    """Return what the form of a page says before anybody fills it in."""
    form = text.partition("<main")[2]
    fields = re.findall(r'<input type="\w+" name="(\w+)" value="([^"]*)"', form)
    chosen = re.findall(r'<select name="(\w+)">.*?<option selected>([^<]+)</option>', form, re.DOTALL)
    return [(name, value) for name, value in fields + chosen]


def test_chosen_letters_go_to_their_group_with_their_ids(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        _, page = await desk.browser.get(f"dlq/{GROUP}")
        assert page.decode().count('form="choosing" name="chosen"') == 3 and b'id="choosing"' in page
        _, form = await desk.browser.get(f"{RESEND}?{places(0, 2)}")
        assert b"Chosen dead letters: 2." in form
        fields = hidden(form.decode())
        assert [value for name, value in fields if name == "chosen"] == ["broker-a:0:0", "broker-a:0:2"]
        text = await apply(desk, RESEND, fields)
        assert "Sent 2 of 2" in text and "Go on" not in text
        again = await stored(desk, retry_topic(GROUP))
        assert [message.content() for message in again] == [b"letter 0", b"letter 2"]
        letters = await stored(desk, LETTERS)
        assert len(letters) == 3, "they stay"
        assert [message.message_id for message in again] == [letters[0].message_id, letters[2].message_id]
        assert [message.properties["RETRY_TOPIC"] for message in again] == ["orders", "bills"]
        assert desk.audit() == [("dlq resend", f"group {GROUP}", "done")]
        assert letters[0].message_id in desk.audit_text()
        assert "crimson" not in desk.audit_text() and "letter 0" not in desk.audit_text()

    with_letters(broker, tmp_path, ["orders", "orders", "bills"], work)


def test_letters_by_filter_go_to_their_topics_and_the_plan_says_how_many(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        text, plan, token = await desk.plan(RESEND, origin="orders", rate="100", **TO_TOPICS)
        assert "Dead letters: 2" in text and "handled twice" in text and "At most 100 are sent a second" in text
        assert "pymq dlq resend billing --origin orders --max 100 --to-topic" in text
        assert not await resent(desk, "orders"), "a plan sends nothing"
        assert (await desk.send(plan, token=token))[0] == 200
        assert await resent(desk, "orders") == ["letter 0", "letter 2"] and not await resent(desk, "bills")
        second = (await stored(desk, LETTERS))[1]
        text = await desk.change(RESEND, id=second.properties["ORIGIN_MESSAGE_ID"], **TO_TOPICS)
        assert await resent(desk, "bills") == ["letter 1"] and "Sent 1 of 1" in text
        assert (await desk.ask(RESEND, **{"from": "-1h", "to": "-30m"}))[1].count("None matches here.") == 1

    with_letters(broker, tmp_path, ["orders", "bills", "orders"], work)


def test_steps_go_on_until_all_are_sent_and_later_letters_stay(
    broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters that die while the steps go on are not sent, or a group that fails would get them for ever."""
    monkeypatch.setattr(dead_letters, "STEP_MAX", 2)

    async def work(desk: Desk) -> None:
        text = await desk.change(RESEND, **TO_TOPICS)
        assert "3 were not: this is one step" not in text
        sent = 0
        await die(broker, "orders")
        while following := re.findall(r'<a rel="next" href="/at/default/([^"]+)"', text):
            sent += 1
            assert sent < 9
            head, form = await desk.browser.get(following[0].replace("&amp;", "&"))
            assert head.startswith(b"HTTP/1.1 200"), form
            text = await apply(desk, RESEND, hidden(form.decode()))
        assert await resent(desk, "orders") == [f"letter {number}" for number in range(5)]

    with_letters(broker, tmp_path, ["orders"] * 5, work)


def test_a_step_ends_in_time_and_what_is_left_goes_on(
    broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "AT_ONCE", 2)

    async def work(desk: Desk) -> None:
        _, plan, token = await desk.plan(RESEND, **TO_TOPICS)
        begun = 0
        now_ms = dead_letters._Resending._is_late

        def late(self: dead_letters._Resending) -> bool:
            nonlocal begun
            begun += 1
            return begun > 1

        monkeypatch.setattr(dead_letters._Resending, "_is_late", late)
        status, text = await desk.send(plan, token=token)
        assert status == 200 and "Sent 2 of 5" in text and "3 letters: one step begins to send" in text
        monkeypatch.setattr(dead_letters._Resending, "_is_late", now_ms)
        (following,) = re.findall(r'<a rel="next" href="/at/default/([^"]+)"', text)
        _, form = await desk.browser.get(following.replace("&amp;", "&"))
        assert "Sent 3 of 3" in await apply(desk, RESEND, hidden(form.decode()))
        assert await resent(desk, "orders") == [f"letter {number}" for number in range(5)]
        assert "in part" in desk.audit()[0][2]

    with_letters(broker, tmp_path, ["orders"] * 5, work)


def test_a_letter_that_can_t_be_sent_hides_no_other(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await close_to_writes(broker, "bills")
        text, plan, token = await desk.plan(RESEND, **TO_TOPICS)
        assert "1 can&#39;t be sent again" in text and "no property says which topic it came from" in text
        status, text = await desk.send(plan, token=token)
        assert status == 200 and "Done in part." in text and "Sent 2 of 4" in text
        assert "Change it" not in text and text.count(">failed<") == 2
        assert await resent(desk, "orders") == ["letter 0", "letter 3"]
        (line,) = desk.audit()
        assert line[2].startswith("done in part: ") and "no property says" in line[2]

    with_letters(broker, tmp_path, ["orders", "", "bills", "orders"], work)


def test_a_rate_is_held_from_the_first_letter_on(
    broker: TestBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks: list[int] = []

    class Noting(Pace):
        async def wait(self, count: int = 1) -> None:
            chunks.append(count)

    monkeypatch.setattr(dead_letters, "Pace", Noting)

    async def work(desk: Desk) -> None:
        text = await desk.change(RESEND, rate="1", **TO_TOPICS)
        assert "Sent 4 of 4" in text, "as many as a step has time for"
        await desk.change(RESEND, rate="3", **TO_TOPICS)
        await desk.change(RESEND, **TO_TOPICS)
        assert chunks == [1, 1, 1, 1, 3, 3, 3, 8, 1]

    with_letters(broker, tmp_path, ["orders"] * 9, work)


def test_letters_that_are_sent_at_once_have_so_many_bytes() -> None:
    queue, most = MessageQueue(LETTERS, "broker-a", 0), dead_letters.BYTES_AT_ONCE
    sizes = [most, 1, most - 1, 1, 1, 2 * most, 1, *[0] * 9]
    letters = [
        dead_letters.Letter(queue, at, "", None, "orders", "orders", size_bytes=size) for at, size in enumerate(sizes)
    ]
    chunks = dead_letters._chunks(letters, range(len(letters)), 8)
    assert [[sizes[at] for at in chunk] for chunk in chunks] == [
        *([most], [1, most - 1], [1, 1], [2 * most]),
        *([1, *[0] * 7], [0, 0]),
    ]
    assert list(dead_letters._chunks(letters, [], 8)) == []


def test_letters_that_were_deleted_since_are_a_conflict(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        plans = [await desk.plan(RESEND, **TO_TOPICS) for _ in range(3)]

        async def refused(number: int) -> str:
            _, plan, token = plans[number]
            status, text = await desk.send(plan, token=token)
            assert status in (200, 409), text
            return text

        async with Admin(broker.namesrv) as admin:
            await operations.purge(admin, GROUP)
        assert "deleted since it was made: nothing is sent" in await refused(0)
        broker.create_topic(LETTERS, queue_count=1)
        assert "deleted since it was made: nothing is sent" in await refused(1)
        await die(broker, "orders", "orders")
        assert "another message is at its place now" in await refused(2)
        assert not await resent(desk, "orders")

    with_letters(broker, tmp_path, ["orders", "orders"], work)


def test_all_letters_of_a_group_are_deleted_with_its_name(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        text, plan, token = await desk.plan(PURGE)
        assert "Type billing to confirm" in text and ">2<" in re.sub(r"\s", "", text)
        assert "Nothing is changed" in (await desk.send(plan, token=token, confirm="other"))[1]
        await die(broker, "orders")
        assert (await desk.send(plan, token=token, confirm=GROUP))[0] == 409, "one more would go, unseen"
        _, plan, token = await desk.plan(PURGE)
        assert (await desk.send(plan, token=token, confirm=GROUP))[0] == 200
        async with Admin(broker.namesrv) as admin:
            assert LETTERS not in await admin.topics.names()
        assert [result for _, _, result in desk.audit()][1:] == ["done"]

    with_letters(broker, tmp_path, ["orders", "orders"], work)


@pytest.mark.parametrize(
    ("path", "fields", "status", "name"),
    [
        (RESEND, [("chosen", "x")], 400, "chosen"),
        (RESEND, [("chosen", f"{'b' * 400}:0:0")], 400, "chosen"),
        (RESEND, [("chosen", f"broker-a:0:{at}") for at in range(51)], 400, "chosen"),
        (RESEND, [("rate", "0")], 400, "rate"),
        (RESEND, [("rate", "1001")], 400, "rate"),
        (RESEND, [("count", "101")], 400, "count"),
        (RESEND, [("target", "elsewhere")], 400, "target"),
        (RESEND, [("from", "yesterday")], 400, "from"),
        (RESEND, [("at", "x")], 400, "at"),
        (RESEND, [("until", "x")], 400, "until"),
        ("dlq/none/resend", [], 404, ""),
        ("dlq/none/purge", [], 404, ""),
    ],
)
def test_a_wrong_form_makes_no_plan(
    broker: TestBroker, tmp_path: Path, path: str, fields: list[tuple[str, str]], status: int, name: str
) -> None:
    async def work(desk: Desk) -> None:
        token = await desk.form(path)
        found, text = await desk.send_all(path, [("token", token), *fields])
        assert found == status and (not name or f"{name}: " in text), text

    with_desk(broker, tmp_path, work)


def test_a_chosen_letter_that_is_not_there_hides_no_other(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        token = await desk.form(RESEND)
        fields = [("chosen", f"{name}:0") for name in ("broker-a:7", "no-broker:0", "broker-a:0")]
        text = await apply(desk, RESEND, [("token", token), *fields])
        assert "Sent 1 of 3" in text and text.count(">failed<") == 2
        assert [message.content() for message in await stored(desk, retry_topic(GROUP))] == [b"letter 0"]

    with_letters(broker, tmp_path, ["orders"], work)
