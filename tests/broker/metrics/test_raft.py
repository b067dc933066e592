"""A Raft group for Prometheus: of a leader, of a follower, and of a broker in no group."""

from __future__ import annotations

from pymq.broker.metrics.raft import RaftMetrics
from pymq.broker.raft.gate import REASONS
from pymq.raft.core import ELECTION_TICKS
from pymq.raft.node import RaftNode
from pymq.wire.bodies_raft import OUT_OF_DATE_BYTES
from tests.broker.metrics.readings import Table, table
from tests.broker.raft.groups import OneNode
from tests.broker.world import World
from tests.raft.bench import N1, acknowledge, current_leader, follower, state_of, tick, write

MEMBERS = (("n1", "voter"), ("n2", "voter"))


def figures(raft: RaftNode) -> Table:
    world = World()
    world.parts.raft = OneNode(raft)
    return table(RaftMetrics(world.parts))


def test_a_leader_shows_how_far_its_members_are() -> None:
    raft = current_leader()
    tick(raft, ELECTION_TICKS - 1)
    write(raft, 30, by=(N1,))
    found = figures(raft)
    assert found["pymq_raft_role"] == {("follower",): 0, ("pre-candidate",): 0, ("candidate",): 0, ("leader",): 1}
    assert (found["pymq_raft_term"], found["pymq_raft_has_leader"]) == ({(): 2}, {(): 1})
    assert (found["pymq_raft_elections_total"], found["pymq_raft_leader_changes_total"]) == ({(): 1}, {(): 1})
    assert found["pymq_raft_member_lag_bytes"] == dict(zip(MEMBERS, (0, 10), strict=True))
    assert found["pymq_raft_member_silent_seconds"] == dict(zip(MEMBERS, (0, 0.45), strict=True))
    assert (found["pymq_raft_members_out_of_date"], found["pymq_raft_confirm_lag_bytes"]) == ({(): 0}, {(): 0})
    assert found["pymq_raft_refused_messages_total"] == {(reason,): 0 for reason in REASONS}


def test_a_member_is_out_of_date_when_it_is_silent_or_lacks_more_than_the_limit() -> None:
    raft = current_leader()
    write(raft, 20 + OUT_OF_DATE_BYTES, by=())
    assert figures(raft)["pymq_raft_members_out_of_date"] == {(): 0}
    assert figures(raft)["pymq_raft_confirm_lag_bytes"] == {(): OUT_OF_DATE_BYTES}
    write(raft, 21 + OUT_OF_DATE_BYTES, by=(N1,))
    assert figures(raft)["pymq_raft_members_out_of_date"] == {(): 1}
    acknowledge(raft, 21 + OUT_OF_DATE_BYTES, N1)
    silent = current_leader()
    for _ in range(ELECTION_TICKS):
        tick(silent, 1)
        acknowledge(silent, 20, N1)
    assert figures(silent)["pymq_raft_members_out_of_date"] == {(): 1}


def test_a_follower_shows_its_own_part_alone() -> None:
    found = figures(follower(state_of()))
    assert found["pymq_raft_role"][("follower",)] == 1 and found["pymq_raft_voters"] == {(): 3}
    assert "pymq_raft_member_lag_bytes" not in found and "pymq_raft_members_out_of_date" not in found


def test_a_broker_in_no_group_shows_nothing() -> None:
    assert table(RaftMetrics(World().parts)) == {}
