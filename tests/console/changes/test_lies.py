"""Sends through a broker that lies, hangs or goes away between a plan and its change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pymq.client import Admin, Message, Producer
from pymq.clock import SystemClock
from pymq.console.changes import dead_letters
from pymq.console.pages.page import PAGE_TIMEOUT_S
from pymq.console.serve import running
from pymq.console.settings import ConsoleSettings
from pymq.model.names import retry_topic
from pymq.model.tables import SubscriptionGroupConfig
from pymq.testing.broker import TestBroker
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.command import Command, encode_command
from tests.console.browser import Browser
from tests.console.changes.desk import Desk
from tests.console.changes.test_dead_letters import GROUP, LETTERS, RESEND, die
from tests.console.changes.test_sending import again, only, stored
from tests.console.hostile.liar import Liar, Lie, Say, truth

LATE_S = 8.0  # of an answer on a busy machine
SENDS = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE, RequestCode.SEND_BATCH_MESSAGE}


@dataclass
class Between:
    """A desk whose console meets the broker behind a liar."""

    desk: Desk
    liar: Liar

    async def apply(self, plan: str, token: str, lie: Lie) -> tuple[int, str]:
        self.liar.lie = lie
        begun_s = time.monotonic()
        try:
            return await self.desk.send(plan, token=token)
        finally:
            assert time.monotonic() - begun_s < PAGE_TIMEOUT_S + LATE_S
            self.liar.lie = truth


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as servers:
        for topic in ("orders", "copies", LETTERS, retry_topic(GROUP)):
            servers.create_topic(topic, queue_count=1)
        yield servers


def with_liar(broker: TestBroker, audit: Path, work: Callable[[Between], Awaitable[None]]) -> None:
    async def run() -> None:
        with Liar(broker.namesrv) as namesrv, Liar(broker.address) as liar:
            namesrv.others = {broker.address: liar.address}
            settings = ConsoleSettings(
                {"default": (namesrv.address,)}, port=0, allow_changes=True, audit_directory=str(audit)
            )
            async with running(settings, SystemClock()) as console:
                await work(Between(Desk(Browser(console.url), broker, audit), liar))

    asyncio.run(run())


def of_sends(lie: Lie) -> Lie:
    """Return a lie about sends alone."""

    async def told(request: Command, answer: Command, say: Say) -> None:
        await (lie if request.code in SENDS else truth)(request, answer, say)

    return told


async def never(request: Command, answer: Command, say: Say) -> None:
    await asyncio.Event().wait()


async def refused(request: Command, answer: Command, say: Say) -> None:
    remark = "<b>no</b> \u202e\x1b[31m"
    await say(encode_command(Command(ResponseCode.SYSTEM_ERROR, opaque=answer.opaque, flag=1, remark=remark)))


async def another_message(request: Command, answer: Command, say: Say) -> None:
    """Answer pulls with messages whose bodies are others."""
    answer.body = answer.body.replace(b"first", b"worst")
    await say(encode_command(answer))


@pytest.mark.parametrize(
    ("lie", "statuses"),
    [pytest.param(never, {502, 504}, id="silent", marks=pytest.mark.slow), pytest.param(refused, {502}, id="refuses")],
)
def test_a_send_that_fails_is_said_and_in_the_audit(
    broker: TestBroker, tmp_path: Path, lie: Lie, statuses: set[int]
) -> None:
    async def work(between: Between) -> None:
        _, plan, token = await between.desk.plan("topics/orders/send", body="first")
        status, text = await between.apply(plan, token, of_sends(lie))
        assert status in statuses and "Done" not in text
        assert "<b>no" not in text and "\u202e" not in text and "\x1b" not in text
        ((_, _, result),) = between.desk.audit()
        assert result != "done" and "\x1b" not in result
        assert (await between.desk.send(plan, token=token))[0] == 404, "it may have been sent: nothing sends it again"

    with_liar(broker, tmp_path, work)


def test_a_message_that_becomes_another_is_not_sent(broker: TestBroker, tmp_path: Path) -> None:
    async def work(between: Between) -> None:
        async with Producer("P", namesrv=broker.namesrv) as producer:
            await producer.send(Message("orders", b"first"))
        form = again(await only(between.desk, "orders"))
        _, plan, token = await between.desk.plan(form, topic="copies")
        status, text = await between.apply(plan, token, another_message)
        assert status in (404, 409), text
        assert not await stored(between.desk, "copies") and between.desk.audit()[0][2] != "done"

    with_liar(broker, tmp_path, work)


@pytest.mark.parametrize("lie", [never, refused], ids=["silent", "refuses"])
def test_dead_letters_that_fail_are_named_each_within_the_time_of_a_page(
    broker: TestBroker, tmp_path: Path, lie: Lie, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = iter([False, True])  # after the first letters that are sent at once
    monkeypatch.setattr(dead_letters._Resending, "_is_late", lambda self: next(late))
    if lie is never:
        monkeypatch.setattr(dead_letters, "END_TIME_MAX_MS", 1_000)

    async def work(between: Between) -> None:
        async with Admin(broker.namesrv) as admin:
            await admin.groups.put(broker.address, SubscriptionGroupConfig(group_name=GROUP))
        await die(broker, *["orders"] * 10)
        _, plan, token = await between.desk.plan(RESEND)
        status, text = await between.apply(plan, token, of_sends(lie))
        assert status == 200 and "Sent 0 of 10" in text, text
        failed, untried = (text.count(f'data-name="Result">{result}<') for result in ("failed", "not tried"))
        assert (failed, untried) == (dead_letters.AT_ONCE, 10 - dead_letters.AT_ONCE)
        assert ("it may have been sent" in text) == (lie is never)
        assert "<b>no<" not in text and "\u202e" not in text
        assert "done in part" in between.desk.audit()[0][2]

    with_liar(broker, tmp_path, work)
