"""Changes attacked: by a stranger, by a user with rights elsewhere, and by a broker that lies meanwhile."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from pymq.client import Admin, Credentials, Message, MessageQueue, Producer, PullConsumer
from pymq.console.change_routes import CHANGES
from pymq.model.tables import SubscriptionGroupConfig
from pymq.operations.auth.users import rules, users
from pymq.operations.where import Where
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk
from tests.console.hostile.liar import Liar, truth
from tests.console.hostile.lies import LIES
from tests.console.hostile.site import FIELDS, address_of
from tests.console.secured import ADMINISTRATOR, USER, secured_broker

ALLOWED: Final = {"topics/{topic}/send", "messages/{topic}/{id}/send"}  # the user may send to this topic
STATUSES: Final = {200, 400, 403, 404, 409, 422, 502, 504}
LIES_TRIED: Final = ("announces 100 MB", "half a JSON", "nothing", "nulls", "negative numbers", "a refusal of 5 MB")


def confirm_of(text: str) -> str:
    """Return the name that the page of a plan wants typed."""
    return text.partition("<label>Type ")[2].partition(" to confirm")[0]


async def try_it(desk: Desk, route: str, token: str) -> int:
    """Send a form, and its plan if one is made; return the status of the last answer."""
    status, text = await desk.send(address_of(route), token=token, **FIELDS[route])
    if not desk.plan_of(text):
        return status
    return (await desk.send(desk.plan_of(text), token=token, confirm=confirm_of(text)))[0]


async def seen(broker: TestBroker) -> dict[str, Any]:
    """Return what changes could have changed."""
    async with Admin(broker.namesrv, credentials=Credentials(*ADMINISTRATOR)) as admin:
        everywhere = Where((), ())
        return {
            "users": await users(admin, everywhere, None),
            "rules": await rules(admin, everywhere),
            "topics": {name: str(await admin.topics.route(name)) for name in sorted(await admin.topics.names())},
            "groups": str(await admin.groups.all_configs()),
            "settings": (await admin.settings.read(broker.address)).values,
            "place": str(await admin.offsets.places("readers", "orders")),
        }


async def fill(broker: TestBroker, credentials: Credentials | None = None) -> None:
    """Let a group read a message of the topic."""
    async with Admin(broker.namesrv, credentials=credentials) as admin:
        await admin.groups.put(broker.address, SubscriptionGroupConfig(group_name="readers"))
    async with Producer("P", namesrv=broker.namesrv, credentials=credentials) as producer:
        await producer.send(Message("orders", b"x"), queue=MessageQueue("orders", "broker-a", 0))
    async with PullConsumer("readers", namesrv=broker.namesrv, credentials=credentials) as consumer:
        await consumer.commit(MessageQueue("orders", "broker-a", 0), 1)


def test_each_change_is_attacked() -> None:
    assert set(FIELDS) == set(CHANGES)


def test_a_stranger_and_a_user_with_rights_elsewhere_change_nothing(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await fill(desk.broker, Credentials(*ADMINISTRATOR))
        before = await seen(desk.broker)
        for route in CHANGES:
            head, _ = await desk.browser.get(address_of(route), {"token": "guessed", **FIELDS[route]})
            assert int(head.split()[1]) == 400, f"{route}: a stranger"
        await desk.browser.log_in(*USER)
        token = await desk.form("new/topic")
        for route in set(CHANGES) - ALLOWED:
            status = await try_it(desk, route, token)
            assert status in {403, 404}, f"{route}: {status}"
        assert await seen(desk.broker) == before
        assert "done" not in {result for _, _, result in desk.audit()}

    with secured_broker(tmp_path) as broker:
        with_desk(broker, tmp_path, work)


@pytest.mark.parametrize("name", LIES_TRIED)
def test_a_broker_that_lies_during_a_change_is_an_error_and_in_the_audit(tmp_path: Path, name: str) -> None:
    """The plan is made of the truth; from then on the broker lies."""

    async def work(desk: Desk) -> None:
        planned = 0
        for route in sorted(set(CHANGES) - {"new/user"}):
            liar.lie = truth
            token = await desk.form("new/topic")
            status, text = await desk.send(address_of(route), token=token, **FIELDS[route])
            if not desk.plan_of(text):
                assert status in STATUSES - {200}, route
                continue
            planned += 1
            liar.lie = LIES[name]
            status, text = await desk.send(desk.plan_of(text), token=token, confirm=confirm_of(text))
            assert status in STATUSES and "fault of the console" not in text, f"{route}: {text}"
        assert planned >= 8
        lines = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
        assert len(lines) == planned and all(line["result"] for line in lines)

    with TestBroker() as broker, Liar(broker.namesrv) as front, Liar(broker.address) as liar:
        front.others = {broker.address: liar.address}
        broker.create_topic("orders", queue_count=2)
        shown = cast(TestBroker, SimpleNamespace(namesrv=front.address, address=broker.address))
        asyncio.run(fill(broker))
        with_desk(shown, tmp_path, work)
