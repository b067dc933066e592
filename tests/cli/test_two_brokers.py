"""Cluster mode and broker mode, which differ only with several brokers."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from pymq.cli import main as cli
from pymq.client.admin import Admin
from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_PARTIAL, EXIT_REFUSED, EXIT_UNREACHABLE, EXIT_USAGE
from pymq.operations.broker import drain as drain_work
from tests.cli.common.test_servers import first_line, process
from tests.client.scenarios import until


class World(NamedTuple):
    """A name server's address, and the processes of its brokers by name."""

    namesrv: str
    brokers: dict[str, subprocess.Popen[str]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Start a name server with broker-a and broker-b of one cluster and broker-c of another."""
    home = tmp_path_factory.mktemp("home")
    with process("namesrv", "--port", "0", "--json", home=home) as server:
        address = json.loads(first_line(server))["namesrv"]
        flags = ["--namesrv", address, "--port", "0", "--json"]
        with (
            process("broker", "--name", "broker-a", "--cluster", "East", *flags, home=home) as first,
            process("broker", "--name", "broker-b", "--cluster", "East", *flags, home=home) as second,
            process("broker", "--name", "broker-c", "--cluster", "West", *flags, home=home) as third,
        ):
            for broker in (first, second, third):
                assert json.loads(first_line(broker))["broker"]
            yield World(address, {"broker-a": first, "broker-b": second, "broker-c": third})


@pytest.fixture
def namesrv(world: World) -> str:
    return world.namesrv


@pytest.fixture
def run(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("NAMESRV_ADDR", world.namesrv)

    def run_json(*arguments: str) -> Any:
        capsys.readouterr()
        assert cli.run([*arguments, "-o", "json"]) == EXIT_OK, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run_json


def permissions(records: list[dict[str, Any]]) -> dict[str, str]:
    return {record["broker"]: record["perm"].strip("-") for record in records}


def queues(records: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    return {record["broker"]: (record["write_queues"], record["read_queues"]) for record in records}


@pytest.mark.slow
def test_cluster_mode_gives_every_broker_the_same_queues(run: Any) -> None:
    assert queues(run("topic", "create", "everywhere", "-c", "East", "--wq", "4")) == {
        "broker-a": (4, 4),
        "broker-b": (4, 4),
    }
    [record] = [record for record in run("topic", "list") if record["topic"] == "everywhere"]
    assert (record["brokers"], record["write_queues"]) == (["broker-a", "broker-b"], 4)


def test_broker_mode_gives_each_broker_its_own(run: Any) -> None:
    run("topic", "create", "own", "-b", "broker-a", "--wq", "2")
    run("topic", "create", "own", "-b", "broker-b", "--wq", "6")
    assert queues(run("topic", "route", "own")) == {"broker-a": (2, 2), "broker-b": (6, 6)}
    run("topic", "update", "own", "-b", "broker-b", "--wq", "3")
    assert queues(run("topic", "route", "own")) == {"broker-a": (2, 2), "broker-b": (3, 6)}
    [record] = [record for record in run("topic", "list") if record["topic"] == "own"]
    assert (record["write_queues"], record["read_queues"]) == (None, None)
    assert queues(record["queues"]) == {"broker-a": (2, 2), "broker-b": (3, 6)}
    run("topic", "update", "own", "--rq", "2")
    assert queues(run("topic", "route", "own")) == {"broker-a": (2, 2), "broker-b": (3, 2)}, "all that hold the topic"


def test_several_clusters_require_a_cluster_option(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["topic", "create", "where"]) == EXIT_USAGE
    assert "East, West" in capsys.readouterr().err
    assert queues(run("topic", "create", "where", "-c", "East", "-c", "West", "--wq", "1")).keys() == {
        "broker-a",
        "broker-b",
        "broker-c",
    }
    assert "where" in {record["topic"] for record in run("topic", "list", "-c", "West")}
    assert "everywhere" not in {record["topic"] for record in run("topic", "list", "-c", "West")}


def test_deleting_on_one_broker_keeps_the_others(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run("topic", "create", "partly", "-c", "East")
    assert cli.run(["topic", "delete", "partly", "-b", "broker-a", "--yes"]) == EXIT_OK
    assert capsys.readouterr().out == "deleted partly on broker-a\n"
    assert {record["broker"] for record in run("topic", "describe", "partly")["brokers"]} == {"broker-b"}


def test_messages_of_all_brokers_in_one_tail(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run("topic", "create", "spread", "-c", "East", "--wq", "1")
    for number, broker in enumerate(["broker-a", "broker-b"] * 3):
        run("send", "spread", f"m{number}", "--queue", f"{broker}:0")
    assert cli.run(["tail", "spread", "-F", "-o", "raw"]) == EXIT_OK
    assert sorted(capsys.readouterr().out.split()) == [f"m{number}" for number in range(6)]
    assert {record["broker"]: record["messages"] for record in run("topic", "stats", "spread")} == {
        "broker-a": 3,
        "broker-b": 3,
    }


def test_a_broker_is_drained_and_comes_back(
    run: Any, namesrv: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_work, "LOOK_S", 0.05)
    run("topic", "create", "drained", "-c", "East", "--wq", "1")
    run("topic", "create", "read-only", "-b", "broker-b", "--perm", "R")
    assert cli.run(["send", "drained", "x", "--queue", "broker-b:0"]) == EXIT_OK
    run("offset", "reset", "drain-reader", "--topic", "drained", "--to", "start", "--yes")

    plan = run("broker", "drain", "broker-b")
    assert (plan["applied"], plan["broker"], plan["cluster"]) == (False, "broker-b", "East")
    assert "drained" not in plan["only_here"] and plan["writable"] >= 1
    assert {"group": "drain-reader", "unread": 1} in plan["groups"]
    assert cli.run(["broker", "drain", "broker-b", "--dry-run", "--yes"]) == EXIT_OK
    assert "nothing is changed" in capsys.readouterr().err

    done = run("broker", "drain", "broker-b", "--yes", "--settle", "0.2", "--force")
    assert (done["applied"], done["writable"]) == (True, 0)
    assert permissions(run("topic", "route", "drained")) == {"broker-a": "RW", "broker-b": "R"}
    assert cli.run(["broker", "undrain", "broker-b", "--yes"]) == EXIT_OK
    assert "writable again" in capsys.readouterr().out
    assert permissions(run("topic", "route", "drained")) == {"broker-a": "RW", "broker-b": "RW"}
    assert permissions(run("topic", "route", "read-only")) == {"broker-b": "R"}, "the broker itself says so"
    run("offset", "reset", "drain-reader", "--topic", "drained", "--to", "end", "--yes")


def test_a_drain_refuses_to_leave_a_topic_without_a_broker(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    run("topic", "create", "alone", "-b", "broker-c")
    assert cli.run(["broker", "drain", "broker-c", "--yes"]) == EXIT_REFUSED
    assert "no other broker is written for alone" in capsys.readouterr().err
    assert permissions(run("topic", "route", "alone")) == {"broker-c": "RW"}
    assert cli.run(["broker", "drain", "broker-x", "--yes"]) == EXIT_NOT_FOUND
    assert "there are broker-a, broker-b, broker-c" in capsys.readouterr().err


def test_a_drain_without_one_of_the_name_servers_is_done_in_part(
    run: Any, namesrv: str, capsys: pytest.CaptureFixture[str]
) -> None:
    both = f"{namesrv};127.0.0.1:1"
    arguments = ["broker", "drain", "broker-a", "--yes", "--force", "--no-wait", "--namesrv", both]
    assert cli.run(arguments) == EXIT_PARTIAL
    assert "127.0.0.1:1" in capsys.readouterr().err
    assert run("broker", "drain", "broker-a")["writable"] == 0
    assert cli.run(["broker", "undrain", "broker-a", "--yes", "--namesrv", both]) == EXIT_PARTIAL
    assert run("broker", "drain", "broker-a")["writable"] > 0


def test_a_drain_takes_the_permission_again_and_waits_for_readers(
    run: Any, namesrv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_work, "LOOK_S", 0.02)
    monkeypatch.setattr(drain_work, "ROUTES_LOOK_S", 0.0)
    run("topic", "create", "again", "-c", "East", "--wq", "1")
    assert cli.run(["send", "again", "x", "--queue", "broker-b:0"]) == EXIT_OK
    run("offset", "reset", "again-reader", "--topic", "again", "--to", "start", "--yes")

    async def story() -> None:
        shown: list[str] = []
        async with Admin(namesrv) as admin:
            draining = drain_work.Draining(admin, "broker-b", settle_s=0)
            task = asyncio.create_task(draining.drain(shown.append, is_waited=True, until_read=True))
            await until(lambda: shown, "the first line")
            await admin.namesrv.add_write_permission("broker-b")
            await until(lambda: any("taken again" in line for line in shown), "the permission taken again")
            assert any("1 unread in 1 group" in line for line in shown) and not task.done()
            ends = {queue: at.max_offset for queue, at in (await admin.topics.stats("again")).items()}
            assert not await admin.offsets.move("again-reader", ends)
            assert not (await task).view.writable
            await admin.namesrv.add_write_permission("broker-b")

    asyncio.run(story())


@contextmanager
def stopped(world: World, broker: str) -> Iterator[None]:
    """Let the broker answer nothing for a while; its connections stay, and so its route."""
    world.brokers[broker].send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        world.brokers[broker].send_signal(signal.SIGCONT)


@pytest.mark.parametrize(
    "arguments",
    [
        ["group", "list"],
        ["group", "lag"],
        ["cluster", "list"],
        ["stats"],
        ["topic", "stats", "halves"],
        ["topic", "describe", "halves"],
        ["config", "show", "listenPort"],
    ],
    ids=" ".join,
)
def test_what_a_stopped_master_does_not_answer_is_named(
    arguments: list[str], run: None, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.run(["topic", "create", "halves", "-c", "East", "--wq", "1"])  # or it exists already
    capsys.readouterr()
    with stopped(world, "broker-b"):
        assert cli.run([*arguments, "-o", "json", "--timeout", "0.5"]) == EXIT_PARTIAL
    captured = capsys.readouterr()
    assert json.loads(captured.out) is not None
    assert re.search("the part of broker-b(:0)? is missing", captured.err)
    assert captured.err.count("\n") == 1


def test_a_group_that_only_a_stopped_master_knows_is_not_said_to_be_missing(
    run: Any, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    run("group", "create", "only-there", "-b", "broker-b")
    commands = [["group", "lag"], ["group", "describe"], ["group", "members"], ["offset", "show"]]
    with stopped(world, "broker-b"):
        codes = [cli.run([*command, "only-there", "--timeout", "0.5"]) for command in commands]
    assert codes == [EXIT_UNREACHABLE] * len(commands)
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("in time") >= len(commands)


def test_groups_in_cluster_mode_and_broker_mode(run: Any) -> None:
    made = run("group", "create", "everybody", "-c", "East")
    assert [record["broker"] for record in made] == ["broker-a", "broker-b"]
    run("group", "disable", "everybody", "-b", "broker-b")
    [listed] = [record for record in run("group", "list") if record["group"] == "everybody"]
    assert listed["enabled"] == "only on broker-a"
    run("group", "delete", "everybody", "-b", "broker-a", "--yes")
    [left] = run("group", "enable", "everybody")
    assert left["broker"] == "broker-b"


def test_a_group_is_changed_where_its_brokers_can_be_reached(
    run: Any, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    run("group", "create", "halved", "-c", "East")
    with stopped(world, "broker-b"):
        arguments = ["group", "update", "halved", "--retries", "3", "-c", "East", "--timeout", "0.5", "-o", "json"]
        assert cli.run(arguments) == EXIT_PARTIAL
        captured = capsys.readouterr()
        assert [record["broker"] for record in json.loads(captured.out)] == ["broker-a"]
        assert "broker-b was not changed" in captured.err
        assert cli.run(["group", "delete", "halved", "--yes", "--timeout", "0.5"]) == EXIT_UNREACHABLE
    assert [record["changes"] for record in run("group", "update", "halved", "--retries", "3")] == [
        [],
        ["retry_max 16 -> 3"],
    ]


def test_a_group_is_moved_where_its_brokers_can_be_reached(
    run: Any, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    run("topic", "create", "half-moved", "-c", "East", "--wq", "1")
    reset = ["offset", "reset", "half-mover", "--topic", "half-moved", "--to", "end", "--yes", "-o", "json"]
    with stopped(world, "broker-b"):
        assert cli.run([*reset, "--timeout", "0.5"]) == EXIT_PARTIAL
        captured = capsys.readouterr()
        assert [queue["broker"] for queue in json.loads(captured.out)["queues"]] == ["broker-a"]
        assert "broker-b was not changed" in captured.err
        assert cli.run([*reset, "--timeout", "0.5", "--broker", "broker-a"]) == EXIT_OK
        assert cli.run([*reset, "--timeout", "0.5", "--broker", "broker-b"]) == EXIT_UNREACHABLE
    assert [queue["broker"] for queue in run(*reset[:-2])["queues"]] == ["broker-a", "broker-b"]
