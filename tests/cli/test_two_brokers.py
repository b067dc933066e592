"""Cluster mode and broker mode, which differ only with several brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pymq.cli import main as cli
from pymq.errors import EXIT_OK, EXIT_USAGE

from .test_servers import first_line, process


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
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
            yield address


@pytest.fixture
def run(namesrv: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("NAMESRV_ADDR", namesrv)

    def run_json(*arguments: str) -> Any:
        capsys.readouterr()
        assert cli.run([*arguments, "-o", "json"]) == EXIT_OK, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run_json


def queues(records: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    return {record["broker"]: (record["write_queues"], record["read_queues"]) for record in records}


def test_cluster_mode_gives_every_broker_the_same_queues(run: Any) -> None:
    assert queues(run("topic", "create", "everywhere", "-c", "East", "--wq", "4")) == {
        "broker-a": (4, 4),
        "broker-b": (4, 4),
    }
    [record] = [record for record in run("topic", "list") if record["topic"] == "everywhere"]
    assert (record["brokers"], record["write_queues"]) == (["broker-a", "broker-b"], 8)


def test_broker_mode_gives_each_broker_its_own(run: Any) -> None:
    run("topic", "create", "own", "-b", "broker-a", "--wq", "2")
    run("topic", "create", "own", "-b", "broker-b", "--wq", "6")
    assert queues(run("topic", "route", "own")) == {"broker-a": (2, 2), "broker-b": (6, 6)}
    run("topic", "update", "own", "-b", "broker-b", "--wq", "3")
    assert queues(run("topic", "route", "own")) == {"broker-a": (2, 2), "broker-b": (3, 6)}
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
