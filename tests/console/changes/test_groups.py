"""Groups made, changed and deleted on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pymq.client import Admin
from pymq.model.tables import SubscriptionGroupConfig
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as servers:
        yield servers


async def config(desk: Desk) -> SubscriptionGroupConfig | None:
    async with Admin(desk.broker.namesrv) as admin:
        return await admin.groups.config(desk.broker.address, "billing")


def test_a_group_is_made_changed_and_deleted(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.change("new/group", group="billing", retry_max="3", ordered="on")
        found = await config(desk)
        assert found is not None and (found.retry_max_times, found.consume_message_orderly) == (3, True)
        await desk.change("groups/billing/update", enabled="no", retry_max="5", ordered="as it is")
        found = await config(desk)
        assert found is not None and (found.retry_max_times, found.consume_enable) == (5, False)
        text, plan, token = await desk.plan("groups/billing/delete", topics="on", offsets="on")
        assert "Type billing to confirm" in text
        assert "Nothing is changed" in (await desk.send(plan, token=token, confirm="billings"))[1]
        assert (await desk.send(plan, token=token, confirm="billing"))[0] == 200
        assert await config(desk) is None
        assert [action for action, _, _ in desk.audit()] == ["group create", "group update", "group delete"]

    with_desk(broker, tmp_path, work)


def test_a_group_that_someone_else_changes_is_a_conflict(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.change("new/group", group="billing")
        _, plan, token = await desk.plan("groups/billing/update", enabled="no", ordered="as it is")
        async with Admin(broker.namesrv) as admin:
            await admin.groups.put(broker.address, SubscriptionGroupConfig(group_name="billing", retry_max_times=2))
        status, text = await desk.send(plan, token=token)
        assert status == 409 and "group billing has changed" in text
        found = await config(desk)
        assert found is not None and found.consume_enable

    with_desk(broker, tmp_path, work)


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("new/group", {}, 400),
        ("new/group", {"group": "a b"}, 400),
        ("new/group", {"group": "billing", "retry_max": "x"}, 400),
        ("groups/billing/update", {}, 400),
        ("groups/billing/update", {"enabled": "maybe"}, 400),
        ("groups/billing/update", {"enabled": "no"}, 404),
        ("groups/billing/delete", {}, 404),
    ],
)
def test_a_wrong_form_makes_no_plan(
    broker: TestBroker, tmp_path: Path, path: str, fields: dict[str, str], status: int
) -> None:
    async def work(desk: Desk) -> None:
        found, text = await desk.ask(path, **fields)
        assert found == status, text

    with_desk(broker, tmp_path, work)
