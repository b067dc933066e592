"""Users and rules changed on a real broker that checks them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pymq.client import Admin, Credentials
from pymq.operations.auth.users import rules, users
from pymq.operations.where import Where
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk
from tests.console.secured import ADMINISTRATOR, USER, secured_broker

EVERYWHERE = Where((), ())
SECRET = "a-secret-of-billing"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[TestBroker]:
    with secured_broker(tmp_path) as servers:
        yield servers


async def known(desk: Desk) -> dict[str, tuple[str, bool]]:
    async with Admin(desk.broker.namesrv, credentials=Credentials(*ADMINISTRATOR)) as admin:
        return {each["user"]: (each["type"], each["enabled"]) for each in await users(admin, EVERYWHERE, None)}


async def rules_of(desk: Desk, name: str) -> list[dict[str, Any]]:
    async with Admin(desk.broker.namesrv, credentials=Credentials(*ADMINISTRATOR)) as admin:
        return await rules(admin, EVERYWHERE, name)


def test_a_user_is_made_changed_and_deleted_and_no_secret_is_shown(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.browser.log_in(*ADMINISTRATOR)
        text, plan, token = await desk.plan("new/user", user="billing", type="Normal", secret=SECRET)
        assert "pymq auth user create billing --secret-from file:FILE" in text and SECRET not in text
        assert "billing" not in await known(desk)
        status, text = await desk.send(plan, token=token)
        assert status == 200 and SECRET not in text
        assert (await known(desk))["billing"] == ("Normal", True)
        async with Admin(broker.namesrv, credentials=Credentials("billing", SECRET)) as admin:
            assert await admin.topics.names() is not None
        status, text = await desk.ask("new/user", user="billing", secret=SECRET)
        assert status >= 400 and "already" in text and SECRET not in text
        text = await desk.change("auth/billing/update", type="Super", enabled="no", secret="another")
        assert "Normal, enabled" in text and (await known(desk))["billing"] == ("Super", False)
        text = await desk.change("auth/billing/delete", confirm="billing")
        assert "Super, disabled" in text and "billing" not in await known(desk)
        assert desk.audit() == [
            (f"auth user {word}", "user billing", "done") for word in ("create", "update", "delete")
        ]
        assert SECRET not in (tmp_path / "audit.log").read_text()

    with_desk(broker, tmp_path, work)


def test_a_rule_is_given_replaced_and_taken_away(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.browser.log_in(*ADMINISTRATOR)
        text = await desk.change("auth/reader/rule", resource="Topic:bills*", actions="Pub, Sub", sources="10.0.0.0/8")
        assert "-a Pub -a Sub --from 10.0.0.0/8" in text and "acl create reader" in text
        (rule,) = [each for each in await rules_of(desk, "reader") if each["resource"] == "Topic:bills*"]
        assert (rule["actions"], rule["sources"], rule["effect"]) == (["Pub", "Sub"], ["10.0.0.0/8"], "Allow")
        text = await desk.change("auth/reader/rule", resource="Topic:bills*", actions="Get", effect="Deny")
        assert "Allow Pub, Sub from 10.0.0.0/8" in text and "acl update reader" in text
        page = await desk.browser.data("auth/reader")
        assert [(each["resource"], each["effect"]) for each in page["rules"]] == [
            ("Topic:bills*", "Deny"),
            ("Topic:orders", "Allow"),
        ]
        _, plan, token = await desk.plan("auth/reader/rule/delete", resource="Topic:bills*")
        assert "Nothing is changed" in (await desk.send(plan, token=token, confirm="reader"))[1]
        assert (await desk.send(plan, token=token, confirm="Topic:bills*"))[0] == 200
        assert [each["resource"] for each in await rules_of(desk, "reader")] == ["Topic:orders"]

    with_desk(broker, tmp_path, work)


def test_a_user_that_someone_else_changes_is_a_conflict(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.browser.log_in(*ADMINISTRATOR)
        _, user_plan, token = await desk.plan("auth/reader/update", type="Super")
        _, rule_plan, _ = await desk.plan("auth/reader/rule", resource="Topic:orders", actions="Sub")
        async with Admin(broker.namesrv, credentials=Credentials(*ADMINISTRATOR)) as admin:
            await admin.auth.update_user(broker.address, "reader", status="disable")
            await admin.auth.delete_acl(broker.address, "reader", resource="Topic:orders")
        assert (await desk.send(user_plan, token=token))[0] == 409
        assert (await desk.send(rule_plan, token=token))[0] == 409
        assert (await known(desk))["reader"] == ("Normal", False) and await rules_of(desk, "reader") == []

    with_desk(broker, tmp_path, work)


def test_a_user_with_rights_to_a_topic_changes_no_user(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        await desk.browser.log_in(*USER)
        for path, fields in (
            ("new/user", {"user": "mine", "secret": SECRET, "type": "Super"}),
            ("auth/reader/update", {"type": "Super"}),
            ("auth/admin/delete", {}),
            ("auth/reader/rule", {"resource": "*", "actions": "All"}),
        ):
            status, text = await desk.ask(path, **fields)
            assert status == 403 and "has no permission" in text
        assert await known(desk) == {"admin": ("Super", True), "reader": ("Normal", True)}

    with_desk(broker, tmp_path, work)


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        ("new/user", {"secret": "x"}, 400),
        ("new/user", {"user": " ", "secret": "x"}, 400),
        ("new/user", {"user": "billing", "secret": ""}, 400),
        ("new/user", {"user": "billing", "secret": "x" * 256}, 400),
        ("new/user", {"user": "billing", "secret": "x", "type": "Root"}, 400),
        ("auth/nobody/update", {"type": "Super"}, 404),
        ("auth/reader/update", {}, 400),
        ("auth/nobody/delete", {}, 404),
        ("auth/reader/rule", {"resource": "orders", "actions": "Pub"}, 400),
        ("auth/reader/rule", {"resource": "Topic:a", "actions": "Fly"}, 400),
        ("auth/reader/rule", {"resource": "Topic:a", "actions": "Pub", "sources": "10.0.0.0/99"}, 400),
        ("auth/reader/rule", {"resource": "Topic:a", "actions": ","}, 400),
        ("auth/reader/rule/delete", {"resource": "Topic:none"}, 404),
        ("auth/reader/rule/delete", {"resource": ""}, 400),
    ],
)
def test_a_wrong_form_makes_no_plan(
    broker: TestBroker, tmp_path: Path, path: str, fields: dict[str, str], status: int
) -> None:
    async def work(desk: Desk) -> None:
        await desk.browser.log_in(*ADMINISTRATOR)
        found, text = await desk.ask(path, **fields)
        assert found == status, text
        assert desk.audit() == []

    with_desk(broker, tmp_path, work)
