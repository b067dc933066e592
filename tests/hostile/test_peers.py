"""Peers that lie about the group: they demote no master, truncate no log, and count as no slave."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.replication.master.ha_service import UNPROVEN_STRANGERS_MAX
from pymq.errors import EXIT_USAGE
from pymq.wire.bodies_replication import EpochEntryBody
from pymq.wire.codes import RequestCode, ResponseCode
from tests.cli.brokers import Brokers
from tests.hostile.harness import Peer, eventually, many_peers, sized
from tests.hostile.liars import LyingPeer, claim, forged_joining, status_of

CLAIM_COUNT = sized(1000, 1000)
STRANGER_COUNT = sized(64, 64)


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    with Brokers(tmp_path) as started:
        yield started


def grow(brokers: Brokers, count: int = 20) -> None:
    for number in range(count):
        assert brokers.run("send", "t", f"m{number}") == 0


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(("is_copied", "epoch"), [(False, 2), (False, 1 << 60), (True, 1 << 60)])
def test_a_registered_stranger_demotes_no_master(brokers: Brokers, is_copied: bool, epoch: int) -> None:
    """Neither with a history of its own, nor with a copy of the master's and an epoch that can't be true."""
    address = brokers.start("first", "--id", "0")
    grow(brokers)
    with ExitStack() as stack:
        namesrv, peer = stack.enter_context(Peer(brokers.namesrv)), stack.enter_context(Peer(address))
        status = status_of(peer)
        copied = status.epoch_history if is_copied else []
        history = [*copied, EpochEntryBody(epoch, status.log_end, "e" * 16)]
        liar = stack.enter_context(LyingPeer(history, broker_id=7))
        assert liar.register(namesrv) == 0
        eventually(lambda: f"with epoch {epoch}, which does not count" in claim(peer, liar.address).problem)
        assert liar.asked
        assert status_of(peer).broker_id == 0
        grow(brokers, 1)


@pytest.mark.slow
def test_an_unrelated_master_of_the_default_name_refuses_to_start_beside_a_living_one(
    brokers: Brokers, capsys: Any
) -> None:
    address = brokers.start("first", "--id", "0")
    grow(brokers)
    assert brokers.start_refused("second", "--id", "0") == EXIT_USAGE
    with Peer(address) as peer:
        assert status_of(peer).broker_id == 0


def ha_address(peer: Peer) -> str:
    return status_of(peer).ha_address


@pytest.mark.slow
def test_eight_bytes_on_the_ha_port_are_no_slave(brokers: Brokers) -> None:
    """A SYNC_MASTER without slaves refuses sends, whatever strangers write to its HA port."""
    address = brokers.start("first", "--id", "0", brokerRole="SYNC_MASTER")
    with Peer(address) as peer:
        end = status_of(peer).log_end
        with ExitStack() as stack:
            for number in range(STRANGER_COUNT):
                stranger = stack.enter_context(Peer(ha_address(peer)))
                stranger.send(struct.pack(">q", (0, end, 1, -number - 1)[number % 4]))
            status = status_of(peer)
            assert status.in_sync_slaves == 0 and len(status.slaves) <= 2 * UNPROVEN_STRANGERS_MAX
            assert brokers.run("send", "t", "refused") != 0
            assert status_of(peer).log_end == end


@pytest.mark.slow
def test_strangers_on_the_ha_port_keep_no_slave_out(brokers: Brokers, capsys: Any) -> None:
    address = brokers.start("first", "--id", "0", brokerRole="SYNC_MASTER")
    with Peer(address) as peer, many_peers(ha_address(peer), STRANGER_COUNT):
        brokers.start("second", "--id", "1")
        brokers.wait_for(capsys, first=0, second=1)
        grow(brokers, 3)
        assert status_of(peer).in_sync_slaves == 1


@pytest.mark.slow
def test_forged_joinings_and_a_kill_leave_a_sync_master_that_takes_sends(brokers: Brokers, capsys: Any) -> None:
    address = brokers.start("first", "--id", "0", brokerRole="SYNC_MASTER")
    brokers.start("second", "--id", "1")
    brokers.wait_for(capsys, first=0, second=1)
    grow(brokers, 3)
    with Peer(address) as peer:
        codes = {peer.call(forged_joining(number)).code for number in range(2, STRANGER_COUNT + 2)}
        assert codes == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert status_of(peer).in_sync_slaves == 1
    brokers.kill("first")
    listed = json.loads((brokers.directory("first") / "config" / "unsyncedReplicas.json").read_text())["slaves"]
    assert listed == {"1": brokers.addresses["second"]}
    brokers.start("first")
    brokers.wait_for(capsys, first=0, second=1)
    grow(brokers, 3)


@pytest.mark.slow
def test_a_slave_truncates_nothing_on_the_word_of_a_registered_liar(brokers: Brokers) -> None:
    """The name server lists the liar as the master; it answers a joining with start 0."""
    with LyingPeer([EpochEntryBody(2, 0, "e" * 16)]) as liar, Peer(brokers.namesrv) as namesrv:
        brokers.start("first", "--id", "0")
        grow(brokers)
        brokers.stop("first")
        assert liar.register(namesrv) == 0
        address = brokers.restart_with_id("first", 1)
        with Peer(address) as peer:
            end = status_of(peer).log_end

            def problem() -> str:
                ha_client = status_of(peer).ha_client
                return ha_client.problem if ha_client is not None else ""

            eventually(lambda: "nothing is truncated" in problem())
            assert status_of(peer).log_end == end and liar.asked[RequestCode.PYMQ_JOIN_MASTER]
    assert not (brokers.directory("first") / "divergent").exists()
