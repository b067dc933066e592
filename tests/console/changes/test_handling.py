"""One member handles one stored message, on a real broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from pymq.client import ConsumeResult, Message, Producer, PushConsumer, StoredMessage
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk
from tests.console.changes.test_sending import again, broker, only

__all__ = ["broker"]  # a fixture

TOPIC, GROUP = "orders", "billing"


class Member:
    """A member of the group that handles nothing by itself, and what it was given."""

    def __init__(self, namesrv: str) -> None:
        self.result = ConsumeResult.SUCCESS
        self.handled: list[bytes] = []
        self.consumer = PushConsumer(GROUP, namesrv=namesrv, on_message=self._handle, consume_from="last")
        self.consumer.subscribe(TOPIC, "nothing")

    def _handle(self, messages: list[StoredMessage]) -> ConsumeResult:
        self.handled += [message.content() for message in messages]
        return self.result


def with_member(
    broker: TestBroker, audit: Path, work: Callable[[Desk, Member, str], Awaitable[None]], *, shows_bodies: bool = True
) -> None:
    async def begin(desk: Desk) -> None:
        async with Producer("P", namesrv=broker.namesrv) as producer:
            await producer.send(Message(TOPIC, b"private", tags="paid"))
        path = again(await only(desk, TOPIC)).removesuffix("/send") + "/consume"
        member = Member(broker.namesrv)
        async with member.consumer:
            await work(desk, member, path)

    with_desk(broker, audit, begin, shows_bodies=shows_bodies)


def test_a_member_handles_a_message_and_says_how(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk, member: Member, path: str) -> None:
        client = member.consumer.client_id
        text, plan, token = await desk.plan(path, group=GROUP, member=client)
        assert client in text and not member.handled
        status, text = await desk.send(plan, token=token)
        assert status == 200 and "CR_SUCCESS" in text and member.handled == [b"private"]
        member.result = ConsumeResult.RECONSUME_LATER
        text = await desk.change(path, group=GROUP, member=client)
        assert "Done in part." in text and "CR_LATER" in text and len(member.handled) == 2
        assert [(action, subject) for action, subject, _ in desk.audit()] == [("group consume", f"group {GROUP}")] * 2
        assert [result for _, _, result in desk.audit()] == ["done", f"done in part: {client}: CR_LATER"]
        assert "private" not in desk.audit_text() and "paid" not in desk.audit_text()

    with_member(broker, tmp_path, work)


def test_a_member_that_has_gone_handles_nothing(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk, member: Member, path: str) -> None:
        _, plan, token = await desk.plan(path, group=GROUP, member=member.consumer.client_id)
        await member.consumer.stop()
        status, _ = await desk.send(plan, token=token)
        assert status == 404 and not member.handled
        assert len(desk.audit()) == 1 and desk.audit()[0][2] != "done"

    with_member(broker, tmp_path, work)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 400),
        ({"group": GROUP}, 400),
        ({"group": "a b", "member": "x"}, 400),
        ({"group": GROUP, "member": "nobody@1"}, 404),
        ({"group": "none", "member": "x"}, 404),
        ({"group": GROUP, "member": "x" * 256}, 400),
    ],
)
def test_a_wrong_form_makes_no_plan(broker: TestBroker, tmp_path: Path, fields: dict[str, str], status: int) -> None:
    async def work(desk: Desk, member: Member, path: str) -> None:
        found, text = await desk.ask(path, **fields)
        assert found == status, text
        token = await desk.form(path)
        assert (await desk.send(f"messages/{TOPIC}/7F01/consume", token=token, group=GROUP, member="x"))[0] == 400

    with_member(broker, tmp_path, work)
