"""What the core does not believe: terms, rounds and ends that no right node says. Each limit at its edge."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pymq.raft.core import ELECTION_TICKS, HEARTBEAT_TICKS, TERM_MAX, TERM_STEP_MAX, Role
from pymq.raft.founding import PROMISED_MAX
from pymq.raft.messages import (
    AppendAnswer,
    FoundPromise,
    FoundRequest,
    Heartbeat,
    HeartbeatAnswer,
    PreVoteRequest,
    Snapshot,
    SnapshotOffer,
    TimeoutNow,
    VoteRequest,
)
from pymq.raft.state import Epoch, Kind, Membership, MembershipEntry, Position, RaftState, Replica
from pymq.wire.bodies_raft import TERM_MAX as SHOWN_TERM_MAX
from pymq.wire.bodies_replication import EPOCH_MAX
from tests.raft.bench import N0, N1, N2, NOWHERE, current_leader, node_of, sent, state_of, tick

FAR = Position(9, 99)


def test_a_term_is_within_the_limits_of_messages() -> None:
    assert TERM_MAX == EPOCH_MAX == SHOWN_TERM_MAX


@pytest.mark.parametrize("kind", ["vote", "heartbeat", "pre-vote"])
def test_a_term_rises_by_so_much_and_no_more(kind: str) -> None:
    raft = node_of(state_of())
    beyond = raft.term + TERM_STEP_MAX + 1
    made = {
        "vote": VoteRequest(N1, N0, beyond, FAR, True),
        "heartbeat": Heartbeat(N1, N0, beyond, 0, 1),
        "pre-vote": PreVoteRequest(N1, N0, beyond, FAR),
    }[kind]
    before = raft.term
    raft.step(made)
    ready = raft.ready()
    assert raft.term == before and ready.messages == () and ready.state is None
    assert f"n1 is in term {beyond}, this node in {before}" in ready.problems[0]
    raft.step(replace(made, term=beyond - 1))
    ready = raft.ready()
    assert not ready.problems and len(ready.messages) == 1
    assert raft.term == (before if kind == "pre-vote" else beyond - 1)


def test_a_member_of_a_term_that_can_not_be_disturbs_nobody() -> None:
    """The others elect and lead; it is heard again once its term is set back."""
    raft = current_leader()
    before = raft.term
    for message in (
        PreVoteRequest(N2, N0, TERM_MAX, FAR),
        VoteRequest(N2, N0, TERM_MAX, FAR, True),
        HeartbeatAnswer(N2, N0, TERM_MAX, 1, 0),
    ):
        assert sent(raft, message) == ()
    assert raft.role is Role.LEADER and raft.term == before


def test_a_replica_in_no_group_takes_the_term_of_its_group() -> None:
    raft = node_of(RaftState(N0), end=0)
    first = (MembershipEntry(0, Membership(((N1, Kind.VOTER),))),)
    snapshot = Snapshot(0, Position(TERM_MAX - 1, 40), (Epoch(TERM_MAX - 1, 0),), first)
    raft.step(SnapshotOffer(N1, N0, TERM_MAX - 1, snapshot))
    assert raft.ready().snapshot == snapshot


def test_the_last_term_is_a_problem_and_begins_no_election() -> None:
    raft = node_of(replace(state_of(), term=TERM_MAX))
    for _ in range(2 * ELECTION_TICKS + 1):
        raft.tick()
    ready = raft.ready()
    assert raft.role is Role.FOLLOWER and raft.term == TERM_MAX and not ready.messages
    assert f"term {TERM_MAX} is the last one" in ready.problems[0] and "pymq raft term" in ready.problems[0]
    raft.step(Heartbeat(N1, N0, TERM_MAX, 0, 1))
    raft.step(TimeoutNow(N1, N0, TERM_MAX))
    assert raft.role is Role.FOLLOWER and raft.term == TERM_MAX


def test_an_answer_to_a_round_that_never_began_decides_no_read() -> None:
    raft = current_leader()
    raft.ready()
    leadership = raft.leadership
    assert leadership is not None
    for member in (N1, N2):
        raft.step(HeartbeatAnswer(member, N0, raft.term, 1 << 60, 0))
    raft.read_index(1)
    assert raft.ready().reads == (), "the round that the read waits for is not answered"
    assert {progress.acked_round for progress in leadership.progress.values()} != {1 << 60}


def test_an_answer_moves_no_place_beyond_the_log() -> None:
    raft = current_leader()
    leadership = raft.leadership
    assert leadership is not None
    progress = leadership.progress[N1]
    progress.is_probing = True
    raft.step(AppendAnswer(N1, N0, raft.term, True, 1 << 60, 1 << 60, NOWHERE))
    assert progress.match_end == progress.next_end == raft.log.end
    tick(raft, HEARTBEAT_TICKS)
    assert raft.role is Role.LEADER


def test_a_log_is_given_up_for_one_of_the_same_group_alone() -> None:
    other = (MembershipEntry(0, Membership(((Replica("n1", "another"), Kind.VOTER),))),)
    for memberships in ((), other):
        raft = node_of(state_of())
        raft.step(SnapshotOffer(N1, N0, raft.term + 1, Snapshot(1 << 20, FAR, (Epoch(9, 0),), memberships)))
        ready = raft.ready()
        assert ready.snapshot is None and "n1 offers the log of another group: this node keeps" in ready.problems[0]
    raft = node_of(state_of())
    ours = Snapshot(1 << 20, Position(9, 1 << 21), (Epoch(9, 0),), state_of().memberships)
    raft.step(SnapshotOffer(N1, N0, raft.term + 1, ours))
    assert raft.ready().snapshot == ours


def test_promises_have_a_limit() -> None:
    raft = node_of(RaftState(N1), end=0)
    for number in range(PROMISED_MAX):
        (promise,) = sent(raft, FoundRequest(Replica("n0", f"{number:016x}"), N1, 0))
        assert isinstance(promise, FoundPromise)
    raft.step(FoundRequest(Replica("n0", "f" * 16), N1, 0))
    ready = raft.ready()
    assert not ready.messages and f"{PROMISED_MAX} founders had a promise" in ready.problems[0]
