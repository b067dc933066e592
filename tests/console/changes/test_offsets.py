"""A move of a group's place on a real broker: a plan, the move, the way back, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from pymq.client import Admin, Message, MessageQueue, Producer
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk

TOPIC, GROUP = "orders", "billing"
RESET = f"groups/{GROUP}/reset"
DONE = ("offset move", "group billing", "done")


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as servers:
        servers.create_topic(TOPIC, queue_count=1)
        yield servers


async def place(desk: Desk) -> int | None:
    async with Admin(desk.broker.namesrv) as admin:
        (found,) = (await admin.offsets.places(GROUP, TOPIC)).values()
        return found.committed


async def move(desk: Desk, offset: int) -> None:
    async with Admin(desk.broker.namesrv) as admin:
        (queue,) = await admin.offsets.places(GROUP, TOPIC)
        await admin.offsets.move(GROUP, {MessageQueue(TOPIC, queue.broker_name, queue.queue_id): offset})


def at_seven_of_ten(
    broker: TestBroker, audit: Path, work: Callable[[Desk], Awaitable[None]], *, allow_changes: bool = True
) -> None:
    """Run ``work`` with a group that has read seven of ten messages."""

    async def begin(desk: Desk) -> None:
        async with Producer("P", namesrv=broker.namesrv) as producer:
            for number in range(10):
                await producer.send(Message(TOPIC, b"%d" % number))
        await move(desk, 7)
        await work(desk)

    with_desk(broker, audit, begin, allow_changes=allow_changes)


def test_a_group_is_moved_by_its_plan_and_back(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        text, path, token = await desk.plan(RESET, topic=TOPIC, kind="to", value="start")
        assert "7 read again" in text and "Nothing is changed yet." in text
        assert "pymq offset reset billing --to start --topic orders" in text
        assert await place(desk) == 7
        status, text = await desk.send(path, token=token)
        assert status == 200 and "Done." in text
        assert await place(desk) == 0 and desk.audit() == [DONE]
        (undo,) = re.findall(r'action="/at/default/(undo/[^"]+)"', text)
        status, text = await desk.send(undo, token=token)
        assert status == 200 and "7 skipped" in text and await place(desk) == 0
        back = desk.plan_of(text)
        assert back, text
        _, text = await desk.send(back, token=token, confirm=GROUP)
        assert await place(desk) == 7 and "undo/" not in text

    at_seven_of_ten(broker, tmp_path, work)


def test_messages_are_skipped_only_with_the_group_s_name(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        text, path, token = await desk.plan(RESET, topic=TOPIC, kind="skip", value="all")
        assert "3 skipped" in text and "Type billing to confirm" in text
        for typed in ("", "Billing", "orders"):
            status, text = await desk.send(path, token=token, confirm=typed)
            assert "Nothing is changed: type billing to confirm it." in text
        assert await place(desk) == 7 and desk.audit() == []
        assert (await desk.send(path, token=token, confirm=GROUP))[0] == 200
        assert await place(desk) == 10
        status, text = await desk.send(path, token=token, confirm=GROUP)
        assert status == 404 and "was used" in text

    at_seven_of_ten(broker, tmp_path, work)


def test_a_move_of_someone_else_is_a_conflict(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        _, path, token = await desk.plan(RESET, topic=TOPIC, kind="to", value="2")
        await move(desk, 5)
        status, text = await desk.send(path, token=token)
        assert status == 409 and "nothing is changed" in text
        assert await place(desk) == 5
        ((_, _, result),) = desk.audit()
        assert "was at 7 of 10" in result

    at_seven_of_ten(broker, tmp_path, work)


def test_a_form_of_another_session_changes_nothing(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        _, path, token = await desk.plan(RESET, topic=TOPIC, kind="to", value="start")
        own = desk.browser.cookie
        desk.browser.cookie = ""
        other = await desk.form(RESET)
        assert desk.browser.cookie not in ("", own)
        for given in (token, "", other + "x"):
            assert (await desk.send(path, token=given))[0] == 400
        assert (await desk.send(path, token=other))[0] == 404
        desk.browser.cookie = own
        assert (await desk.send(path))[0] == 400
        assert await place(desk) == 7

    at_seven_of_ten(broker, tmp_path, work)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"kind": "to", "value": "yesterday"}, 400),
        ({"kind": "skip", "value": "-1"}, 400),
        ({"kind": "skip", "value": "9" * 30}, 400),
        ({"kind": "copy", "value": "no_such_group"}, 404),
        ({"kind": "away", "value": "1"}, 400),
        ({"kind": "to"}, 400),
        ({"kind": "to", "value": "start", "topic": "a b"}, 400),
        ({"kind": "to", "value": "start", "topic": "no_such_topic"}, 404),
    ],
)
def test_a_wrong_form_makes_no_plan(broker: TestBroker, tmp_path: Path, fields: dict[str, str], status: int) -> None:
    async def work(desk: Desk) -> None:
        found, text = await desk.ask(RESET, **({"topic": TOPIC} | fields))
        assert found == status, text
        assert await place(desk) == 7

    at_seven_of_ten(broker, tmp_path, work)


def test_a_console_that_only_looks_has_no_such_route(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        for path in (RESET, "plans/x", "undo/x", "outcomes/x", "audit"):
            assert (await desk.browser.get(path))[0].startswith(b"HTTP/1.1 404")
            assert (await desk.send(path, token="x"))[0] == 404
        _, body = await desk.browser.get(f"groups/{GROUP}")
        assert b"Move its place" not in body and b"read-only" in body

    at_seven_of_ten(broker, tmp_path, work, allow_changes=False)
