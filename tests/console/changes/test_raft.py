"""A real Raft group: handed over, and with other members."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pymq.client import Admin
from pymq.operations.raft.changes import status
from pymq.testing.broker import TestBroker
from tests.console.changes.desk import Desk, with_desk

STOP_TIMEOUT_S = 60.0


@pytest.fixture
def group(tmp_path: Path) -> Iterator[TestBroker]:
    """A Raft group of three processes behind one name server."""
    words = ["standalone", "--shards", "1", "--dir", str(tmp_path / "nodes"), "--namesrv-port", "0", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "pymq", *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            yield cast(TestBroker, SimpleNamespace(namesrv=ready["namesrv"]))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(STOP_TIMEOUT_S)


async def look(desk: Desk) -> dict[str, Any]:
    async with Admin(desk.broker.namesrv) as admin:
        (found,) = await status(admin, None)
        return found


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds: right after an election no node may say that it leads."""
    async with asyncio.timeout(STOP_TIMEOUT_S):
        while not await condition():  # noqa: ASYNC110 the condition is asked of other processes
            await asyncio.sleep(0.1)


async def led_by(desk: Desk, leader: str) -> dict[str, Any]:
    """Return the group once this node leads, "" for any."""
    found: dict[str, Any] = {}

    async def leads() -> bool:
        found.update(await look(desk))
        return bool(found["leader"]) and leader in ("", found["leader"])

    await until(leads)
    return found


async def changed(desk: Desk, path: str, end: str = "Done", confirm: str = "", **fields: str) -> tuple[str, str]:
    """Plan and carry out until the result has the text ``end``; return the plan and the result."""
    texts = ["", ""]

    async def is_changed() -> bool:
        status_code, texts[0] = await desk.ask(path, **fields)
        if status_code != 200:
            return False
        number = desk.plan_of(texts[0])
        assert number, texts[0]
        token = desk.token(texts[0].encode())
        if confirm:
            assert "Nothing is changed" in (await desk.send(number, token=token))[1]
        _, texts[1] = await desk.send(number, token=token, confirm=confirm)
        return end in texts[1]

    await until(is_changed)
    return texts[0], texts[1]


@pytest.mark.slow
def test_a_group_is_handed_over_and_loses_a_member(group: TestBroker, tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        before = await led_by(desk, "")
        name, leader = before["broker"], before["leader"]
        target = next(each["node"] for each in before["members"] if each["node"] != leader)
        planned, done = await changed(desk, f"raft/{name}/transfer", node=target)
        assert f"{leader} leads" in planned and f"pymq raft transfer {name} {target}" in planned
        assert f"{target} leads" in done
        await led_by(desk, target)
        status_code, _ = await desk.ask(f"raft/{name}/transfer", node=target)
        assert status_code in (422, 502), "it leads already, or is not known to lead yet"
        await changed(desk, f"raft/{name}/members", confirm=leader, action="remove", node=leader)
        members = {each["node"]: each["kind"] for each in (await led_by(desk, target))["members"]}
        assert members[leader] is None
        planned, refused = await changed(
            desk, f"raft/{name}/members", "has not introduced itself", action="add", node=leader
        )
        assert f"{leader} learner" in planned and "has not introduced itself" in planned
        assert "The cluster refused this" in refused
        results = [(action, result == "done") for action, _, result in desk.audit()]
        assert [action for action, is_done in results if is_done] == ["raft transfer", "raft remove"]
        assert results[-1] == ("raft add", False)

    with_desk(group, tmp_path, work)


@pytest.mark.parametrize("path", ["transfer", "members"])
def test_an_address_in_place_of_a_name_is_never_connected(tmp_path: Path, path: str) -> None:
    async def work(desk: Desk) -> None:
        with socket.create_server(("127.0.0.1", 0)) as trap:
            trap.setblocking(False)
            address = f"127.0.0.1%3A{trap.getsockname()[1]}"
            status_code, text = await desk.ask(f"raft/{address}/{path}", action="add", node="n1")
            assert status_code == 404 and "is registered" in text
            status_code, _ = await desk.ask(f"raft/broker-a/{path}", action="add", node="n1")
            assert status_code == 404, "it is in no group"
            with pytest.raises(BlockingIOError):
                trap.accept()

    with TestBroker() as broker:
        with_desk(broker, tmp_path, work)


@pytest.mark.parametrize("fields", [{}, {"node": ""}, {"node": "n" * 33}, {"node": "n1", "action": "drop"}])
def test_a_wrong_form_makes_no_plan(tmp_path: Path, fields: dict[str, str]) -> None:
    async def work(desk: Desk) -> None:
        assert (await desk.ask("raft/broker-a/members", **fields))[0] == 400
        assert desk.audit() == []

    with TestBroker() as broker:
        with_desk(broker, tmp_path, work)
