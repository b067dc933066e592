"""Request 9130: leadership is handed over, nodes come and go; what is refused changes nothing."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from pymq.raft.messages import Introduction
from pymq.raft.node import RaftNode
from pymq.raft.state import Kind, Membership, Position
from pymq.wire.bodies_raft import TERM_MAX, RaftGroupState
from pymq.wire.bodies_replication import EPOCH_MAX
from pymq.wire.codes import RequestCode, ResponseCode
from tests.broker.world import Caller, World
from tests.raft.bench import N0, N1, N2, N3, acknowledge, current_leader, follower, state_of, write

from .groups import OneNode

CODE = RequestCode.PYMQ_CHANGE_RAFT_GROUP


def world_with(raft: RaftNode) -> World:
    world = World()
    world.parts.raft = OneNode(raft)
    return world


def ask(raft: RaftNode, **members: Any) -> RaftGroupState:
    body = json.dumps({"term": raft.term, **members}).encode()
    return msgspec.json.decode(Caller(world_with(raft)).ok(CODE, body).body, type=RaftGroupState)


def refused(raft: RaftNode, **members: Any) -> str:
    before = (raft.membership, raft.log.end)
    code, remark = Caller(world_with(raft)).refused(CODE, json.dumps({"term": raft.term, **members}).encode())
    assert code == ResponseCode.INVALID_PARAMETER and (raft.membership, raft.log.end) == before
    return remark


def kinds(raft: RaftNode) -> dict[str, Kind]:
    return {replica.node_id: kind for replica, kind in raft.membership.members}


def confirm(raft: RaftNode) -> None:
    raft.persisted(raft.log.end, raft.log.truncation_count)
    acknowledge(raft, raft.log.end, N1, N2)


def with_n3() -> RaftNode:
    raft = current_leader()
    raft.step(Introduction(N3, N0, 0, Position(0, 0)))
    return raft


def test_leadership_is_handed_to_another_voter() -> None:
    raft = current_leader()
    write(raft, 30)
    assert ask(raft, action="transfer", node="n2").transfer_target == "n2"
    assert "no other voter" in refused(current_leader(), action="transfer", node="n0")
    assert "no other voter" in refused(current_leader(), action="transfer", node="n7")


def test_a_node_that_introduced_itself_becomes_a_learner() -> None:
    raft = with_n3()
    state = ask(raft, action="add", node="n3")
    assert state.is_changing and kinds(raft)["n3"] is Kind.LEARNER
    assert "is not confirmed" in refused(raft, action="remove", node="n1"), "one change after the other"
    confirm(raft)
    assert refused(raft, action="add", node="n3").endswith("as learner: it becomes a voter when it has the log")


def test_a_node_becomes_an_observer_and_a_voter_again() -> None:
    raft = with_n3()
    ask(raft, action="add", node="n3", asObserver=True)
    confirm(raft)
    assert kinds(raft)["n3"] is Kind.OBSERVER
    ask(raft, action="add", node="n3")
    confirm(raft)
    assert kinds(raft)["n3"] is Kind.LEARNER
    ask(raft, action="add", node="n2", asObserver=True)
    confirm(raft)
    assert kinds(raft)["n2"] is Kind.OBSERVER and len(raft.membership.voters) == 2


def test_a_stranger_is_not_added() -> None:
    remark = refused(with_n3(), action="add", node="n4")
    assert "n4 has not introduced itself to the leader; those that have are n3: name n4 in dLegerPeers" in remark
    assert "as voter" in refused(with_n3(), action="add", node="n1")


def test_a_node_is_removed_but_not_the_last_voter() -> None:
    raft = current_leader()
    ask(raft, action="remove", node="n2")
    assert kinds(raft) == {"n0": Kind.VOTER, "n1": Kind.VOTER}
    assert "n5 is no member; members are n0, n1, n2" in refused(current_leader(), action="remove", node="n5")
    alone = current_leader()
    write(alone, 30, Membership(((N0, Kind.VOTER), (N1, Kind.VOTER))), by=(N1, N2))
    write(alone, 40, Membership(((N0, Kind.VOTER), (N1, Kind.OBSERVER))), by=(N1,))
    assert "the only voter" in refused(alone, action="remove", node="n0")
    assert "the only voter" in refused(alone, action="add", node="n0", asObserver=True)


def test_only_the_leader_of_the_term_that_was_seen_does_it() -> None:
    remark = refused(follower(state_of()), action="transfer", node="n2")
    assert remark == "n0 does not lead shard-a; n1 at 10.0.0.1:10921 does: ask it"
    raft = current_leader()
    assert "term 1: n0 leads shard-a in term 2" in refused(raft, action="transfer", node="n2", term=1)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"action": "win", "node": "n1"}, "Invalid enum value 'win'"),
        ({"action": "add", "node": "node1"}, "matching regex"),
        ({"action": "add", "node": "n01"}, "matching regex"),
        ({"action": "add", "node": "n1", "term": -1}, ">= 0"),
        ({"action": "add", "node": "n1", "term": TERM_MAX + 1}, "<= 4611686018427387904"),
        ({"action": "add", "node": "n1", "address": "10.0.0.9:1"}, "unknown field `address`"),
        ({"node": "n1"}, "missing required field `action`"),
    ],
)
def test_what_can_t_be_read_is_refused(members: dict[str, Any], said: str) -> None:
    assert said in refused(current_leader(), **members)


def test_limits_are_those_of_the_core() -> None:
    assert TERM_MAX == EPOCH_MAX


def test_a_broker_without_a_group_says_how_to_have_one() -> None:
    code, remark = Caller(World()).refused(CODE, b'{"action":"add","node":"n1","term":1}')
    assert code == ResponseCode.INVALID_PARAMETER and "enableDLegerCommitLog=true" in remark
