"""A SYNC_MASTER process loses unsynced bytes: its slave gives every acknowledged message back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pymq.cli import main as cli
from pymq.errors import EXIT_OK
from tests.cli.brokers import Brokers

pytestmark = pytest.mark.timeout(600)  # starts many processes, one after the other
Capture = Any
# No timed flush: the bytes removed below are bytes that a power loss may take.
LAZY_DISK = {"flushIntervalCommitLog": "60000", "flushCommitLogLeastPages": "1000000"}


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path) as brokers:
        brokers.start("a", "--id", "0", brokerRole="SYNC_MASTER", **LAZY_DISK)
        brokers.start("b", "--id", "1", **LAZY_DISK)
        yield brokers


def log_end(group: Brokers, capsys: Capture) -> int:
    (status,) = group.json(capsys, "broker", "status", group.addresses["a"], "-o", "json")
    return int(status["log_end"])


def send(group: Brokers, *bodies: str) -> None:
    for body in bodies:
        assert group.run("send", "T", body) == EXIT_OK


def acknowledged(group: Brokers, capsys: Capture) -> tuple[list[str], int]:
    """Send messages, each answered with code 0. Return them and the log's end after the first half."""
    group.wait_for(capsys, a=0, b=1)
    bodies = [str(number) for number in range(12)]
    send(group, *bodies[:6])
    half = log_end(group, capsys)
    send(group, *bodies[6:])
    return bodies, half


def lose_pages(group: Brokers, name: str, start: int) -> None:
    """Zero a dead broker's log from ``start`` on, as if those pages had never reached its disk."""
    (segment,) = (group.directory(name) / "commitlog").iterdir()
    content = segment.read_bytes()
    segment.write_bytes(content[:start] + bytes(len(content) - start))


@pytest.mark.slow
def test_a_restarted_master_has_what_its_slave_has(group: Brokers, capsys: Capture) -> None:
    bodies, half = acknowledged(group, capsys)
    before = group.log("b")
    group.kill("a")
    lose_pages(group, "a", half + 50)
    group.start("a")
    group.wait_for(capsys, a=0, b=1)
    assert sorted(group.bodies(capsys, "T"), key=int) == bodies
    assert group.log("a") == group.log("b") == before, "nothing was truncated"
    assert not (group.directory("b") / "divergent").exists()
    ours, theirs = group.json(capsys, "broker", "status", "broker-a", "-o", "json")
    assert (ours["recovered_tail"]["start"], ours["recovered_tail"]["sources"]) == (half, [group.addresses["b"]])
    assert theirs["truncations"] == []
    assert "recovered tail" in _printed(group, capsys)
    send(group, "more")


@pytest.mark.slow
def test_machines_that_come_up_in_the_wrong_order_lose_nothing(group: Brokers, capsys: Capture) -> None:
    bodies, half = acknowledged(group, capsys)
    group.kill("a")
    group.kill("b")
    lose_pages(group, "a", half + 50)
    group.start("a")
    (status,) = group.json(capsys, "broker", "status", group.addresses["a"], "-o", "json")
    assert f"slave 1 at {group.addresses['b']}" in "; ".join(status["problems"])
    assert sorted(group.bodies(capsys, "T"), key=int) == bodies[:6], "reads continue"
    assert group.run("send", "T", "refused") != EXIT_OK
    group.start("b")
    group.wait_for(capsys, a=0, b=1)
    assert sorted(group.bodies(capsys, "T"), key=int) == bodies
    assert group.log("a") == group.log("b")
    assert not (group.directory("b") / "divergent").exists()
    send(group, "more")


def _printed(group: Brokers, capsys: Capture) -> str:
    capsys.readouterr()
    assert cli.run(["broker", "status", group.addresses["a"], "--namesrv", group.namesrv]) == EXIT_OK
    return str(capsys.readouterr().out)
