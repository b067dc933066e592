"""Values and settings of a real name server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pymq.client import Admin
from pymq.console.changes.values import VALUE_LENGTH_MAX
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk


@pytest.fixture
def broker() -> Iterator[TestBroker]:
    with TestBroker() as servers:
        yield servers


async def value(desk: Desk) -> str | None:
    async with Admin(desk.broker.namesrv) as admin:
        return await admin.namesrv.value("settings", "color")


async def set_value(desk: Desk, text: str) -> None:
    async with Admin(desk.broker.namesrv) as admin:
        await admin.namesrv.put_value("settings", "color", text)


def test_a_value_is_set_and_deleted(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        text, plan, token = await desk.plan("namesrv/values", namespace="settings", key="color", value="<b>blue</b>")
        assert "pymq namesrv kv set settings color" in text and "<b>blue" not in text
        assert await value(desk) is None
        assert (await desk.send(plan, token=token))[0] == 200
        assert await value(desk) == "<b>blue</b>"
        page = await desk.browser.data("namesrv?namespace=settings")
        assert page["values"] == [{"key": "color", "value": "<b>blue</b>"}]
        _, plan, token = await desk.plan("namesrv/values", namespace="settings", key="color", delete="on")
        assert "Nothing is changed" in (await desk.send(plan, token=token))[1]
        assert (await desk.send(plan, token=token, confirm="color"))[0] == 200
        assert await value(desk) is None
        assert desk.audit() == [(f"namesrv kv {word}", "value settings color", "done") for word in ("set", "delete")]

    with_desk(broker, tmp_path, work)


def test_a_value_that_someone_else_sets_stays_theirs(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        _, plan, token = await desk.plan("namesrv/values", namespace="settings", key="color", value="blue")
        await set_value(desk, "red")
        assert (await desk.send(plan, token=token))[0] == 409
        assert await value(desk) == "red"

    with_desk(broker, tmp_path, work)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, 400),
        ({"namespace": "settings", "key": "color"}, 400),
        ({"namespace": " ", "key": "color", "value": "x"}, 400),
        ({"namespace": "settings", "key": "color", "value": "x", "delete": "on"}, 400),
        ({"namespace": "settings", "key": "color", "value": "x" * (VALUE_LENGTH_MAX + 1)}, 400),
        ({"namespace": "settings", "key": "x" * 256, "value": "x"}, 400),
        ({"namespace": "settings", "key": "color", "delete": "on"}, 404),
    ],
)
def test_a_wrong_form_makes_no_plan(broker: TestBroker, tmp_path: Path, fields: dict[str, str], status: int) -> None:
    async def work(desk: Desk) -> None:
        found, text = await desk.ask("namesrv/values", **fields)
        assert found == status, text
        assert desk.audit() == []

    with_desk(broker, tmp_path, work)


def test_a_setting_of_the_name_servers_is_changed(broker: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        async def read() -> str:
            async with Admin(broker.namesrv) as admin:
                return (await admin.namesrv.config())["orderMessageEnable"]

        text, plan, token = await desk.plan("namesrv/settings", key="orderMessageEnable", value="true")
        assert "pymq config set orderMessageEnable=true --namesrv-server" in text
        assert await read() == "false"
        status, text = await desk.send(plan, token=token)
        assert status == 200, text
        assert await read() == "true"
        assert desk.audit() == [("config set", "the name servers", "done")]

    with_desk(broker, tmp_path, work)
