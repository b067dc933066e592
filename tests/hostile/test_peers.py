"""Peers that lie about the group: they demote no master, truncate no log, and count as no slave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pymq.errors import EXIT_USAGE
from pymq.wire.bodies_replication import EpochEntryBody
from tests.cli.brokers import Brokers
from tests.hostile.harness import Peer, eventually
from tests.hostile.liars import LyingPeer, claim, status_of

CLAIM_COUNT = 1000


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path) as started:
        yield started


def grow(brokers: Brokers, count: int = 20) -> None:
    for number in range(count):
        assert brokers.run("send", "t", f"m{number}") == 0


def test_a_master_neither_asks_nor_believes_a_broker_that_a_request_names(brokers: Brokers) -> None:
    """The request names an address; what would answer there has an epoch of 2^60 and truncates a joining log to 0."""
    address = brokers.start("first", "--id", "0")
    grow(brokers)
    log = brokers.log("first")
    with LyingPeer([EpochEntryBody(1 << 60, 0, "e" * 16)]) as liar, Peer(address) as peer:
        for _ in range(CLAIM_COUNT):
            claim(peer, liar.address)
        status = status_of(peer)
        assert liar.address in status.problem and "no name server lists it" in status.problem
        assert (status.broker_id, status.epoch_history[-1].epoch) == (0, 1)
        grow(brokers, 1)
    assert not liar.asked, "the master asked an address that a request named"
    brokers.kill("first")
    brokers.start("first")
    assert brokers.log("first").startswith(log[: len(log.rstrip(b"\0"))])
    assert not (brokers.directory("first") / "divergent").exists()
    with Peer(address) as peer:
        assert status_of(peer).broker_id == 0


@pytest.mark.parametrize(
    ("epoch_history", "word"),
    [([EpochEntryBody(2, 0, "e" * 16)], "no entry in common"), ([EpochEntryBody(1 << 60, 0, "e" * 16)], "jump")],
    ids=["another history", "a jump"],
)
def test_a_registered_stranger_demotes_no_master(
    brokers: Brokers, epoch_history: list[EpochEntryBody], word: str
) -> None:
    address = brokers.start("first", "--id", "0")
    grow(brokers)
    with LyingPeer(epoch_history, broker_id=7) as liar, Peer(brokers.namesrv) as namesrv, Peer(address) as peer:
        assert liar.register(namesrv) == 0
        eventually(lambda: word in claim(peer, liar.address).problem)
        assert liar.asked
        assert status_of(peer).broker_id == 0
        grow(brokers, 1)


def test_an_unrelated_master_of_the_default_name_refuses_to_start_beside_a_living_one(
    brokers: Brokers, capsys: Any
) -> None:
    address = brokers.start("first", "--id", "0")
    grow(brokers)
    assert brokers.start_refused("second", "--id", "0") == EXIT_USAGE
    with Peer(address) as peer:
        assert status_of(peer).broker_id == 0
