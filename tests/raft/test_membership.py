"""Changes of membership, replaced disks, and the founding of a group."""

from __future__ import annotations

import pytest

from pymq.errors import RaftRefusedError
from pymq.raft import membership
from pymq.raft.core import ELECTION_TICKS, Role
from pymq.raft.leader import INTRODUCED_MAX
from pymq.raft.messages import (
    Found,
    FoundPromise,
    FoundRequest,
    Heartbeat,
    HeartbeatAnswer,
    Introduction,
    VoteRequest,
)
from pymq.raft.node import RaftNode
from pymq.raft.state import Kind, Membership, Position, RaftState, Replica
from tests.raft.bench import (
    N0,
    N1,
    N2,
    N3,
    NODES,
    NOWHERE,
    THREE,
    LeastRandom,
    current_leader,
    leader,
    node_of,
    sent,
    state_of,
    tick,
    write,
)

NEW_N2 = Replica("n2", "another")


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (THREE.with_member(N3, Kind.LEARNER), ""),
        (THREE.without(N2), ""),
        (THREE.with_member(NEW_N2, Kind.LEARNER), ""),
        (THREE.without(N1).without(N2), "changes 2 voters at once"),
        (THREE.with_member(N3, Kind.VOTER), "n3 must be a learner before"),
        (THREE.with_member(NEW_N2, Kind.VOTER), "changes 2 voters at once"),
        (Membership(((N0, Kind.VOTER), (NEW_N2, Kind.LEARNER), (N2, Kind.VOTER))), "twice: n0, n2, n2"),
        (Membership(((N0, Kind.LEARNER),)), "no voter"),
    ],
)
def test_one_voter_changes_at_a_time_and_was_a_learner(new: Membership, why: str) -> None:
    said = membership.why_not(THREE, new)  # by its module: mutation tests swap it there
    assert why in said and bool(said) == bool(why)


def test_a_change_waits_for_the_one_before() -> None:
    raft = current_leader()
    write(raft, 30, THREE.with_member(N3, Kind.LEARNER))
    with pytest.raises(RaftRefusedError, match="the membership at offset 30 is not confirmed, only 20 is"):
        raft.propose(40, THREE)


def test_a_change_waits_for_a_byte_of_the_own_epoch() -> None:
    raft = leader(state_of())
    with pytest.raises(RaftRefusedError, match="nothing of term 2 is confirmed yet"):
        raft.check_change(THREE.without(N2))


def test_a_removal_leaves_a_majority_that_answers() -> None:
    raft = current_leader()
    for _ in range(ELECTION_TICKS):
        tick(raft, 1)
        raft.step(HeartbeatAnswer(N2, N0, raft.term, 1, 20))  # n1 is silent
    raft.check_change(THREE.without(N1))
    raft.check_change(THREE.with_member(N3, Kind.LEARNER))
    with pytest.raises(RaftRefusedError, match="2 of its 2 voters would have to answer, 1 do now: start the others"):
        raft.check_change(THREE.without(N2))


def test_a_learner_becomes_a_voter_when_it_has_what_is_confirmed() -> None:
    raft = current_leader()
    write(raft, 30, THREE.with_member(N3, Kind.LEARNER), by=(N1, N2))
    raft.ready()
    tick(raft, 1)
    assert raft.ready().membership is None
    raft.leadership.progress[N3].matched(30)
    tick(raft, 1)
    assert raft.ready().membership == THREE.with_member(N3, Kind.VOTER)


def test_a_removed_leader_leads_until_that_is_confirmed_and_counts_not() -> None:
    raft = current_leader()
    write(raft, 30, THREE.without(N0), by=(N1,))
    assert (raft.role, raft.confirm_offset) == (Role.LEADER, 20)
    raft.leadership.progress[N2].matched(30)
    raft.persisted(30, 0)
    assert (raft.role, raft.confirm_offset) == (Role.FOLLOWER, 30)


def test_a_replaced_disk_takes_the_place_of_one_that_is_silent() -> None:
    raft = current_leader()
    raft.step(Introduction(NEW_N2, Replica("n0", ""), 0, NOWHERE))
    assert "node n2 runs twice" in raft.ready().problems[0]
    for _ in range(ELECTION_TICKS - 1):
        tick(raft, 1)
        raft.step(HeartbeatAnswer(N1, N0, raft.term, 1, 20))
        assert raft.ready().membership is None
    tick(raft, 1)
    assert raft.ready().membership == THREE.with_member(NEW_N2, Kind.LEARNER)


def test_a_leader_remembers_few_strangers() -> None:
    raft = current_leader()
    for number in range(INTRODUCED_MAX + 5):
        raft.step(Introduction(Replica(f"stranger{number}", "disk"), N0, 0, NOWHERE))
    assert len(raft.leadership.introduced) == INTRODUCED_MAX


def test_a_message_for_another_disk_is_not_taken() -> None:
    raft = node_of(state_of())
    old = Replica("n0", "former")
    asked = VoteRequest(N1, old, 8, Position(9, 99), False)
    assert sent(raft, asked) == (Introduction(N0, N1, 1, Position(1, 10)),)
    assert raft.term == 1


def unfounded(replica: Replica, end: int = 0) -> RaftNode:
    return RaftNode(RaftState(replica), 0, end, NODES, LeastRandom())


def test_an_empty_disk_takes_no_part() -> None:
    raft = unfounded(N0)
    asked = (VoteRequest(N1, N0, 8, Position(9, 99), False), Heartbeat(N1, N0, 8, 0, 1))
    assert sent(raft, *asked) == (Introduction(N0, N1, 0, NOWHERE),) * 2
    tick(raft, 5 * ELECTION_TICKS)
    assert (raft.term, raft.role) == (0, Role.FOLLOWER)


def test_all_nodes_found_a_group_and_not_a_majority() -> None:
    raft = unfounded(N0)
    raft.step(FoundPromise(N1, N0, 0, NOWHERE))
    assert not raft.membership.voters
    found = sent(raft, FoundPromise(N2, N0, 0, NOWHERE))
    assert raft.membership == THREE
    assert found == tuple(Found(N0, to, 0, N0, NOWHERE, THREE) for to in (N1, N2))


def test_a_group_is_founded_when_all_logs_end_at_one_place() -> None:
    raft = unfounded(N0)
    raft.step(FoundPromise(N1, N0, 0, NOWHERE))
    raft.step(FoundPromise(N2, N0, 0, Position(3, 40)))
    assert not raft.membership.voters and "n2 40 (epoch 3)" in raft.ready().problems[0]
    raft.step(FoundPromise(NEW_N2, N0, 0, NOWHERE))
    assert raft.membership == THREE.with_member(NEW_N2, Kind.VOTER)


def test_a_promise_holds_for_one_founder() -> None:
    raft = unfounded(N1)
    newer = Replica("n0", "newer")
    any_n1 = Replica("n1", "")
    assert sent(raft, FoundRequest(N0, any_n1, 0)) == (FoundPromise(N1, N0, 0, NOWHERE),)
    assert sent(raft, FoundRequest(newer, any_n1, 0)) == (FoundPromise(N1, newer, 0, NOWHERE),)
    assert sent(raft, FoundRequest(N0, any_n1, 0), FoundRequest(N2, any_n1, 0)) == ()
    raft.step(Found(N2, N1, 0, N0, NOWHERE, THREE))
    assert not raft.membership.voters
    raft.step(Found(newer, N1, 0, N0, NOWHERE, THREE))
    assert raft.membership == THREE


def test_a_founder_with_a_new_disk_gives_up_for_the_group_of_its_former_disk() -> None:
    raft = unfounded(Replica("n0", "newer"))
    released = sent(raft, Found(N1, raft.replica, 0, N0, NOWHERE, THREE))
    assert {message.to for message in released if isinstance(message, Found)} == {N0, N1, N2}
    for promised in (N1, N2):
        raft.step(FoundPromise(promised, raft.replica, 0, NOWHERE))
    assert not raft.membership.voters
