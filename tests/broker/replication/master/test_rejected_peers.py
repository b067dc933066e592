"""RejectedPeers: shown while they keep trying, and limited in number."""

from __future__ import annotations

from pymq.broker.replication.master.rejected_peers import REJECTED_PEERS_MAX, SHOWN_MS, RejectedPeers
from pymq.clock import ManualClock


def test_a_rejected_peer_is_shown_for_a_minute_after_its_last_attempt() -> None:
    clock = ManualClock()
    rejected_peers = RejectedPeers(clock)
    rejected_peers.note(3, "10.0.0.3:10911", "another cluster")
    clock.advance(SHOWN_MS - 1)
    (state,) = rejected_peers.states()
    assert (state.broker_id, state.address, state.state) == (3, "10.0.0.3:10911", "refused")
    assert (state.problem, state.in_sync) == ("another cluster", False)
    rejected_peers.note(3, "10.0.0.3:10999", "another segment size")
    clock.advance(SHOWN_MS - 1)
    assert [state.problem for state in rejected_peers.states()] == ["another segment size"]
    clock.advance(1)
    assert rejected_peers.states() == []


def test_a_slave_is_not_a_rejected_peer() -> None:
    rejected_peers = RejectedPeers(ManualClock())
    rejected_peers.note(3, "10.0.0.3:10911", "another cluster")
    rejected_peers.note(-1, "10.0.0.3:40001", "garbage")
    rejected_peers.forget(3, "10.0.0.3:10911")
    assert [state.problem for state in rejected_peers.states()] == ["garbage"]


def test_the_number_of_rejected_peers_is_bounded() -> None:
    rejected_peers = RejectedPeers(ManualClock())
    for number in range(REJECTED_PEERS_MAX + 1):
        rejected_peers.note(-1, f"10.0.0.{number}:1", "garbage")
    assert [state.address for state in rejected_peers.states()] == [
        f"10.0.0.{number}:1" for number in range(1, REJECTED_PEERS_MAX + 1)
    ]
