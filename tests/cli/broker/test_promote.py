"""Manual failover with real processes: a live master, a dead one, one that comes back, two at once."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pymq.client import Message, Producer
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_UNREACHABLE, EXIT_USAGE, PymqError
from tests.cli.brokers import DEADLINE_S, POLL_S, Brokers
from tests.cli.schemas import assert_documented

pytestmark = pytest.mark.timeout(600)  # starts many processes, one after the other
Capture = Any
RETRY_S = 0.01  # without a pause, sends that fail at once would take all the time of the others


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path) as brokers:
        yield brokers


def send(group: Brokers, *bodies: str) -> None:
    for body in bodies:
        assert group.run("send", "T", body) == EXIT_OK


class Load:
    """Sends one message after the other; ``acknowledged`` holds those whose send was answered with OK."""

    def __init__(self, namesrv: str) -> None:
        self._namesrv = namesrv
        self._is_over = False
        self.acknowledged: list[str] = []

    async def run(self) -> None:
        number = 0
        async with Producer("P", namesrv=self._namesrv) as producer:
            while not self._is_over:
                number += 1
                try:
                    result = await producer.send(Message("T", b"%d" % number), timeout_s=2)
                except PymqError:
                    await asyncio.sleep(RETRY_S)
                    continue
                if result.status.value == "SEND_OK":
                    self.acknowledged.append(str(number))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while len(self.acknowledged) < count:  # noqa: ASYNC110 - the load has no event
                await asyncio.sleep(0.01)

    def stop(self) -> None:
        self._is_over = True


async def promote(namesrv: str, *flags: str) -> tuple[int, dict[str, Any]]:
    arguments = ["-m", "pymq", "broker", "promote", "broker-a", "--yes", "--json", "--namesrv", namesrv, *flags]
    running = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, error = await running.communicate()
    assert out, error
    assert running.returncode is not None
    done = json.loads(out)
    assert_documented("broker promote", done)
    return running.returncode, done


@pytest.mark.slow
@pytest.mark.parametrize("role", ["ASYNC_MASTER", "SYNC_MASTER"])
def test_a_handover_under_load_loses_no_message(group: Brokers, capsys: Capture, role: str) -> None:
    group.start("a", "--id", "0", brokerRole=role)
    group.start("b", "--id", "1")
    group.start("c", "--id", "2")
    group.wait_for(capsys, a=0, b=1, c=2)
    load = Load(group.namesrv)

    async def scenario() -> dict[str, Any]:
        sending = asyncio.ensure_future(load.run())
        await load.until(100)
        code, done = await promote(group.namesrv)
        assert code == EXIT_OK
        await load.until(len(load.acknowledged) + 100)
        load.stop()
        await sending
        return done

    done = asyncio.run(scenario())
    promoted = next(name for name in ("b", "c") if group.addresses[name] == done["target"])
    other = "c" if promoted == "b" else "b"
    left_id = 1 if promoted == "b" else 2
    assert (done["epoch"], done["role"], done["notes"]) == (2, role, [])
    group.wait_for(capsys, **{promoted: 0, "a": left_id, other: 3 - left_id})
    found = group.bodies(capsys, "T")
    assert set(load.acknowledged) <= set(found)
    assert len(load.acknowledged) >= 200
    for name in "abc":
        group.stop(name)
    assert group.log("a") == group.log("b") == group.log("c")
    assert not (group.directory("a") / "divergent").exists(), "nothing had to be truncated"


@pytest.mark.slow
def test_a_master_replaced_by_force_rejoins_with_its_old_flags(group: Brokers, capsys: Capture) -> None:
    a = group.start("a", "--id", "0")
    b = group.start("b", "--id", "1")
    group.wait_for(capsys, a=0, b=1)
    send(group, "both have it")
    group.wait_for(capsys, a=0, b=1)
    group.stop("b")
    send(group, "the master alone", "has these")
    group.kill("a")
    group.start("b")

    assert group.run("broker", "promote", "broker-a", "--yes") == EXIT_REFUSED
    captured = capsys.readouterr()
    assert b in captured.out and "does not answer" in captured.err and "--force" in captured.err
    done = group.json(capsys, "broker", "promote", b, "--yes", "--force", "--json")
    assert (done["target"], done["master"], done["epoch"]) == (b, None, 2)
    assert done["risks"]
    send(group, "the new master has it")

    assert group.start("a") == a
    group.wait_for(capsys, b=0, a=1)
    assert sorted(group.bodies(capsys, "T")) == ["both have it", "the new master has it"]
    (status,) = group.json(capsys, "broker", "status", a, "-o", "json")
    (truncate,) = status["truncations"]
    assert truncate["message_count"] == 2
    kept = Path(truncate["path"]).read_bytes()
    assert b"the master alone" in kept and b"has these" in kept

    group.stop("b")
    group.start("b")
    group.wait_for(capsys, b=0, a=1)
    send(group, "roles outlive restarts")
    group.wait_for(capsys, b=0, a=1)
    for name in "ab":
        group.stop(name)
    assert group.log("a") == group.log("b")


@pytest.mark.slow
def test_a_suspended_master_steps_down_when_it_resumes(group: Brokers, capsys: Capture) -> None:
    group.start("a", "--id", "0")
    b = group.start("b", "--id", "1")
    group.wait_for(capsys, a=0, b=1)
    send(group, "before")
    group.wait_for_ack(capsys, "a")
    group.signal("a", signal.SIGSTOP)
    assert group.json(capsys, "broker", "promote", b, "--yes", "--force", "--json")["target"] == b
    group.wait_for_route(b)
    send(group, "meanwhile")
    group.signal("a", signal.SIGCONT)
    group.wait_for(capsys, b=0, a=1)
    assert sorted(group.bodies(capsys, "T")) == ["before", "meanwhile"]


@pytest.mark.slow
def test_a_second_master_of_a_name_does_not_start(group: Brokers, capfd: pytest.CaptureFixture[str]) -> None:
    group.start("a", "--id", "0")
    send(group, "kept")
    assert group.start_refused("b", "--id", "0") == EXIT_USAGE
    assert not (group.directory("b") / "commitlog").exists()
    assert group.run("send", "T", "goes on") == EXIT_OK
    assert sorted(group.bodies(capfd, "T")) == ["goes on", "kept"]


@pytest.mark.slow
def test_a_master_that_was_killed_starts_again_on_another_port(tmp_path: Path, capsys: Capture) -> None:
    with Brokers(tmp_path, brokerIdKeptMs="1000") as group:
        group.start("a", "--id", "0")
        group.start("b", "--id", "1")
        group.wait_for(capsys, a=0, b=1)
        send(group, "before")
        group.kill("a")
        old = group.addresses["a"]
        group.move("a")
        assert group.start("a") != old
        group.wait_for(capsys, a=0, b=1)
        send(group, "after")
        group.wait_for(capsys, a=0, b=1)
        assert sorted(group.bodies(capsys, "T")) == ["after", "before"]


@pytest.mark.slow
def test_a_large_divergent_tail_is_truncated_once_the_operator_allows_it(group: Brokers, capsys: Capture) -> None:
    a = group.start("a", "--id", "0", haTruncationMax="0")
    b = group.start("b", "--id", "1")
    send(group, "both have it")
    group.wait_for(capsys, a=0, b=1)
    group.stop("b")
    send(group, "the master alone has it")
    group.kill("a")
    group.start("b")
    group.json(capsys, "broker", "promote", b, "--yes", "--force", "--json")
    group.start("a")

    def ha_client() -> dict[str, Any]:
        (status,) = group.json(capsys, "broker", "status", a, "-o", "json")
        return dict(status["ha_client"] or {})

    deadline = time.monotonic() + DEADLINE_S
    while (offset := ha_client().get("truncate_to", -1)) < 0:
        assert time.monotonic() < deadline
    assert f"pymq broker rejoin {a} --truncate-to {offset}" in ha_client()["problem"]
    assert not (group.directory("a") / "divergent").exists()
    assert group.run("broker", "rejoin", a, "--truncate-to", str(offset + 1), "--yes") == EXIT_REFUSED
    assert f"asks for {offset}" in capsys.readouterr().err
    assert group.run("broker", "rejoin", a, "--truncate-to", str(offset), "--yes") == EXIT_OK
    group.wait_for(capsys, b=0, a=1)
    (status,) = group.json(capsys, "broker", "status", a, "-o", "json")
    (truncation,) = status["truncations"]
    assert (truncation["start"], truncation["message_count"]) == (offset, 1)
    assert group.run("broker", "rejoin", a, "--truncate-to", str(offset), "--yes") == EXIT_REFUSED


@pytest.mark.slow
def test_a_slave_of_other_bytes_is_shown_and_not_promoted(group: Brokers, capsys: Capture) -> None:
    """It has the longest log and the most messages; its master refused it."""
    group.start("c", "--id", "0")
    send(group, *(f"other {number}" for number in range(30)))
    group.stop("c")
    group.start("a", "--id", "0")
    b = group.start("b", "--id", "1")
    send(group, "kept 1", "kept 2")
    group.wait_for(capsys, a=0, b=1)
    c = group.restart_with_id("c", 2)

    def problem() -> str:
        (status,) = group.json(capsys, "broker", "status", c, "-o", "json")
        return str((status["ha_client"] or {}).get("other_log", ""))

    deadline = time.monotonic() + DEADLINE_S
    while not problem():
        assert time.monotonic() < deadline
        time.sleep(POLL_S)
    group.kill("a")
    assert group.run("broker", "promote", "broker-a", "--yes") == EXIT_REFUSED
    shown = group.json(capsys, "broker", "promote", "broker-a", "--dry-run", "--force", "--json")
    members = {member["address"]: member for member in shown["members"]}
    assert shown["target"] == b and members[c]["becomes"] == ""
    assert members[c]["problem"] and members[c]["lag_messages"] == 2 and members[c]["lag_bytes"] > 0
    assert members[b]["lag_bytes"] == 0
    named = group.json(capsys, "broker", "promote", c, "--dry-run", "--force", "--json")
    assert any("is not the group's" in risk for risk in named["risks"])
    assert group.json(capsys, "broker", "promote", "broker-a", "--yes", "--force", "--json")["target"] == b
    assert sorted(group.bodies(capsys, "T")) == ["kept 1", "kept 2"]


@pytest.mark.slow
def test_a_dry_run_shows_the_plan_and_changes_nothing(group: Brokers, capsys: Capture) -> None:
    a = group.start("a", "--id", "0")
    b = group.start("b", "--id", "1")
    group.wait_for(capsys, a=0, b=1)
    plan = group.json(capsys, "broker", "promote", "broker-a", "--dry-run", "--json")
    assert (plan["target"], plan["master"], plan["risks"], plan["obstacles"]) == (b, a, [], [])
    assert [(member["address"], member["becomes"]) for member in plan["members"]] == [(a, "slave 1"), (b, "master")]
    assert group.run("broker", "promote", "broker-a", "--dry-run") == EXIT_OK
    shown = capsys.readouterr().out
    assert "nothing is lost" in shown and f"{a} steps down" in shown
    group.wait_for(capsys, a=0, b=1)


@pytest.mark.slow
def test_refused_promotions_have_their_exit_code(group: Brokers, capsys: Capture) -> None:
    a = group.start("a", "--id", "0")
    for arguments, code, words in (
        (["unknown", "--yes"], EXIT_NOT_FOUND, "broker-a"),
        (["broker-a", "--yes"], EXIT_NOT_FOUND, "no slave"),
        ([a, "--yes"], EXIT_REFUSED, "already"),
        (["127.0.0.1:1", "--yes"], EXIT_UNREACHABLE, "127.0.0.1:1"),
    ):
        assert group.run("broker", "promote", *arguments) == code
        assert words in capsys.readouterr().err
    group.start("b", "--id", "1")
    group.wait_for(capsys, a=0, b=1)
    assert group.run("broker", "promote", "broker-a") == EXIT_USAGE
    assert "--yes" in capsys.readouterr().err
