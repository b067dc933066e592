"""Changes of messages by people with few rights, or none, on a broker that checks users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from pymq.client import Admin, Credentials
from pymq.model.tables import TopicConfig
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk
from tests.console.messages.test_with_broker import secured

__all__ = ["secured"]  # a fixture

READABLE, SECRET = "messages/orders/broker-a%3A{}%3A0/send", "messages/secret/broker-a%3A{}%3A0/send"


async def make_letters(broker: TestBroker) -> None:
    async with Admin(broker.namesrv, credentials=Credentials("admin", "admin-secret")) as admin:
        await admin.topics.put(broker.address, TopicConfig(topic_name="%DLQ%billing"))


def as_reader(broker: TestBroker, audit: Path, work: Callable[[Desk], Awaitable[None]]) -> None:
    """Run ``work`` as a user who may read one topic, and no other."""

    async def begin(desk: Desk) -> None:
        await make_letters(broker)
        await desk.browser.log_in("reader", "reader-secret")
        await work(desk)

    with_desk(broker, audit, begin)


async def readable(desk: Desk) -> str:
    """Return the form of the message that the user may read."""
    (row,) = (await desk.browser.data("messages?topic=orders"))["messages"]
    return READABLE.format(row["queue"])


def test_who_may_only_read_sends_nothing_and_the_audit_knows_it(secured: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        form = await readable(desk)
        for path, fields in (("topics/orders/send", {"body": "x"}), (form, {"topic": "orders"})):
            _, plan, token = await desk.plan(path, **fields)
            status, text = await desk.send(plan, token=token)
            assert status == 403 and "no permission" in text and "Topic:orders" in text, text
        assert len((await desk.browser.data("messages?topic=orders"))["messages"]) == 1
        assert [action for action, _, _ in desk.audit()] == ["message send", "message send again"]
        assert all("no permission" in result for _, _, result in desk.audit())
        assert '"person": "reader"' in desk.audit_text() and "reader-secret" not in desk.audit_text()

    as_reader(secured, tmp_path, work)


def test_what_one_may_not_read_is_neither_sent_nor_shown(secured: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        token = await desk.form(await readable(desk))
        for queue in range(8):
            path = SECRET.format(queue)
            head, body = await desk.browser.get(path)
            assert head.startswith(b"HTTP/1.1 403") and b"first of secret" not in body
            status, text = await desk.send(path, token=token, topic="orders")
            assert status == 403 and "first of secret" not in text
        head, body = await desk.browser.get("messages/export?topic=secret")
        assert head.startswith(b"HTTP/1.1 403") and b"first of secret" not in body
        for path in ("dlq/billing/resend", "dlq/billing/purge"):
            status, text = await desk.ask(path)
            assert status == 403 and "no permission" in text, text

    as_reader(secured, tmp_path, work)


def test_a_stranger_changes_nothing(secured: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await make_letters(secured)
        for path in ("dlq/billing/resend", "dlq/billing/purge"):
            head, _ = await desk.browser.get(path, {"token": await desk.form(path)})
            assert head.startswith(b"HTTP/1.1 303") and b"/login" in head
        assert not desk.audit()
        # Name servers answer anybody, so that there is a plan. The broker refuses what it would do.
        _, plan, token = await desk.plan("topics/orders/send", body="x")
        head, _ = await desk.browser.get(plan, {"token": token})
        assert head.startswith(b"HTTP/1.1 303") and b"/login" in head
        assert [(action, "done" in result) for action, _, result in desk.audit()] == [("message send", False)]
        head, _ = await desk.browser.get("messages/export?topic=orders")
        assert head.startswith(b"HTTP/1.1 303") and b"/login" in head

    with_desk(secured, tmp_path, work)
