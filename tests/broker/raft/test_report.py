"""What a node of a Raft group reports in the answer to request 9103."""

from __future__ import annotations

import msgspec

from pymq.broker.raft.driver import TICK_MS
from pymq.broker.raft.report import group_state
from pymq.raft.messages import Introduction
from pymq.raft.state import Position
from pymq.wire.bodies_raft import LEADER, RaftGroupState
from pymq.wire.bodies_replication import ReplicationStatus
from pymq.wire.codes import RequestCode
from tests.broker.world import Caller, World
from tests.raft.bench import N0, N1, N3, acknowledge, current_leader, follower, node_of, state_of, tick, write

from .groups import OneNode


def test_a_leader_reports_how_far_each_member_is() -> None:
    raft = current_leader()
    write(raft, 30, by=(N1,))
    tick(raft, 3)
    state = group_state(OneNode(raft))
    assert (state.node, state.role, state.leader, state.term) == ("n0", LEADER, "n0", 2)
    assert (state.log_end, state.confirm_offset, state.voter_count, state.majority_count) == (30, 30, 3, 2)
    assert [(one.node, one.match_end, one.lag_bytes, one.silent_ms) for one in state.members] == [
        ("n0", 30, 0, 0),
        ("n1", 30, 0, 3 * TICK_MS),
        ("n2", 20, 10, 3 * TICK_MS),
    ]
    assert [one.address for one in state.members] == ["10.0.0.1:10911", "10.0.0.1:10921", "10.0.0.1:10931"]
    assert [one.broker_id for one in state.members] == [1, 2, 3]
    assert not state.is_changing and state.is_founded


def test_a_leader_names_who_wants_to_join_and_to_whom_it_hands_over() -> None:
    raft = current_leader()
    raft.step(Introduction(N3, N0, 0, Position(0, 0)))
    write(raft, 30)
    raft.transfer("n2")
    state = group_state(OneNode(raft))
    assert (state.candidates, state.transfer_target) == (["n3"], "n2")
    acknowledge(raft, 30, N1)


def test_a_follower_knows_its_members_and_not_their_logs() -> None:
    group = OneNode(follower(state_of()))
    group.trouble = "the node is held until its disk takes this: no space"
    state = group_state(group)
    assert (state.role, state.leader, state.term, state.problems) == ("follower", "n1", 5, [group.trouble])
    assert {(one.match_end, one.lag_bytes, one.silent_ms) for one in state.members} == {(-1, -1, -1)}


def test_a_node_that_is_not_founded_has_no_members() -> None:
    state = group_state(OneNode(node_of(state_of(memberships=()))))
    assert (state.is_founded, state.members, state.leader, state.is_changing) == (False, [], "", False)


def test_the_status_of_a_broker_has_it_and_that_of_a_plain_one_does_not() -> None:
    world = World()
    body = Caller(world).ok(RequestCode.PYMQ_GET_REPLICATION_STATUS).body
    assert msgspec.json.decode(body, type=ReplicationStatus).raft is None
    group = OneNode(current_leader())
    world.parts.raft = group
    body = Caller(world).ok(RequestCode.PYMQ_GET_REPLICATION_STATUS).body
    raft = msgspec.json.decode(body, type=ReplicationStatus).raft
    assert isinstance(raft, RaftGroupState) and raft == group_state(group)
