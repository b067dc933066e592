"""A move of a group's place on a real broker: a plan, the move, the way back, and what is refused."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pymq.client import Admin, Message, MessageQueue, Producer
from pymq.clock import SystemClock
from pymq.console.serve import ConsoleSettings, running
from pymq.testing.broker import TestBroker
from tests.console.messages.test_with_broker import Browser

TOPIC, GROUP = "orders", "billing"
RESET = f"groups/{GROUP}/reset"


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as servers:
        servers.create_topic(TOPIC, queue_count=1)
        yield servers


class Desk:
    """A browser that fills in forms, and what the broker has."""

    def __init__(self, browser: Browser, broker: TestBroker, audit: Path) -> None:
        self.browser = browser
        self._broker = broker
        self._audit = audit

    async def form(self) -> str:
        """Open the form, and return its token."""
        head, body = await self.browser.get(RESET)
        assert head.startswith(b"HTTP/1.1 200"), body
        if found := re.search(rb"set-cookie: ([^;]+)", head):
            self.browser.cookie = found[1].decode()
        return self.token(body)

    @staticmethod
    def token(body: bytes) -> str:
        return re.findall(r'name="token" value="([^"]+)"', body.decode())[0]

    async def plan(self, value: str, kind: str = "to") -> tuple[str, str, str]:
        """Return the text, the address and the token of a new plan."""
        token = await self.form()
        head, body = await self.browser.get(RESET, {"token": token, "topic": TOPIC, "kind": kind, "value": value})
        assert head.startswith(b"HTTP/1.1 200"), body
        (path,) = re.findall(r'action="/at/default/(plans/[^"]+)"', body.decode())
        return body.decode(), path, self.token(body)

    async def place(self) -> int | None:
        async with Admin(self._broker.namesrv) as admin:
            (place,) = (await admin.offsets.places(GROUP, TOPIC)).values()
            return place.committed

    async def move(self, offset: int) -> None:
        async with Admin(self._broker.namesrv) as admin:
            (queue,) = await admin.offsets.places(GROUP, TOPIC)
            await admin.offsets.move(GROUP, {MessageQueue(TOPIC, queue.broker_name, queue.queue_id): offset})

    def audit(self) -> list[tuple[str, str]]:
        """Return subject and result of each attempt."""
        file = self._audit / "audit.log"
        lines = map(json.loads, file.read_text().splitlines()) if file.exists() else ()
        return [(line["subject"], line["result"]) for line in lines]


def with_desk(
    broker: TestBroker, audit: Path, work: Callable[[Desk], Awaitable[None]], *, allow_changes: bool = True
) -> None:
    @asynccontextmanager
    async def desk() -> AsyncIterator[Desk]:
        settings = ConsoleSettings(
            {"default": (broker.namesrv,)}, port=0, allow_changes=allow_changes, audit_directory=str(audit)
        )
        async with running(settings, SystemClock()) as console:
            yield Desk(Browser(console.url), broker, audit)

    async def run() -> None:
        async with Producer("P", namesrv=broker.namesrv) as producer:
            for number in range(10):
                await producer.send(Message(TOPIC, b"%d" % number))
        async with desk() as found:
            await found.move(7)
            await work(found)

    asyncio.run(run())


def test_a_group_is_moved_by_its_plan_and_back(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        text, path, token = await desk.plan("start")
        assert "7 read again" in text and "Nothing is changed yet." in text
        assert "pymq offset reset billing --to start --topic orders" in text
        assert await desk.place() == 7
        head, body = await desk.browser.get(path, {"token": token})
        assert head.startswith(b"HTTP/1.1 200") and b"Done." in body
        assert await desk.place() == 0 and desk.audit() == [("group billing", "done")]
        (undo,) = re.findall(r'action="/at/default/(undo/[^"]+)"', body.decode())
        head, body = await desk.browser.get(undo, {"token": token})
        assert head.startswith(b"HTTP/1.1 200") and b"7 skipped" in body and await desk.place() == 0
        (back,) = re.findall(r'action="/at/default/(plans/[^"]+)"', body.decode())
        head, body = await desk.browser.get(back, {"token": token, "confirm": GROUP})
        assert await desk.place() == 7 and b"undo/" not in body

    with_desk(broker, tmp_path, work)


def test_messages_are_skipped_only_with_the_group_s_name(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        text, path, token = await desk.plan("all", "skip")
        assert "3 skipped" in text and "Type billing to confirm" in text
        for typed in ("", "Billing", "orders"):
            head, body = await desk.browser.get(path, {"token": token, "confirm": typed})
            assert head.startswith(b"HTTP/1.1 400") and b"type billing" in body
        assert await desk.place() == 7 and desk.audit() == []
        head, _ = await desk.browser.get(path, {"token": token, "confirm": GROUP})
        assert head.startswith(b"HTTP/1.1 200") and await desk.place() == 10
        head, body = await desk.browser.get(path, {"token": token, "confirm": GROUP})
        assert head.startswith(b"HTTP/1.1 404") and b"was used" in body

    with_desk(broker, tmp_path, work)


def test_a_move_of_someone_else_is_a_conflict(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        _, path, token = await desk.plan("2")
        await desk.move(5)
        head, body = await desk.browser.get(path, {"token": token})
        assert head.startswith(b"HTTP/1.1 409") and b"nothing is changed" in body
        assert await desk.place() == 5
        ((_, result),) = desk.audit()
        assert "was at 7 of 10" in result

    with_desk(broker, tmp_path, work)


def test_a_form_of_another_session_changes_nothing(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        _, path, token = await desk.plan("start")
        own = desk.browser.cookie
        desk.browser.cookie = ""
        other = await desk.form()
        assert desk.browser.cookie not in ("", own)
        for given in (token, "", other + "x"):
            head, _ = await desk.browser.get(path, {"token": given})
            assert head.startswith(b"HTTP/1.1 400"), head
        head, _ = await desk.browser.get(path, {"token": other})
        assert head.startswith(b"HTTP/1.1 404")
        desk.browser.cookie = own
        assert (await desk.browser.get(path, {}))[0].startswith(b"HTTP/1.1 400")
        assert await desk.place() == 7

    with_desk(broker, tmp_path, work)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"kind": "to", "value": "yesterday"}, b"400"),
        ({"kind": "skip", "value": "-1"}, b"400"),
        ({"kind": "skip", "value": "9" * 30}, b"400"),
        ({"kind": "copy", "value": "no_such_group"}, b"404"),
        ({"kind": "away", "value": "1"}, b"400"),
        ({"kind": "to"}, b"400"),
        ({"kind": "to", "value": "start", "topic": "a b"}, b"400"),
        ({"kind": "to", "value": "start", "topic": "no_such_topic"}, b"404"),
    ],
)
def test_a_wrong_form_makes_no_plan(broker: TestBroker, tmp_path: Path, fields: dict[str, str], status: bytes) -> None:
    async def work(desk: Desk) -> None:
        token = await desk.form()
        head, body = await desk.browser.get(RESET, {"token": token, "topic": TOPIC} | fields)
        assert head.startswith(b"HTTP/1.1 " + status), body
        assert await desk.place() == 7

    with_desk(broker, tmp_path, work)


def test_a_console_that_only_looks_has_no_such_route(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        for path in (RESET, "plans/x", "undo/x"):
            assert (await desk.browser.get(path))[0].startswith(b"HTTP/1.1 404")
            assert (await desk.browser.get(path, {"token": "x"}))[0].startswith(b"HTTP/1.1 404")
        _, body = await desk.browser.get(f"groups/{GROUP}")
        assert b"Move its place" not in body and b"read-only" in body

    with_desk(broker, tmp_path, work, allow_changes=False)
