"""Elections, replication and reads, rule by rule."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from pymq.errors import RaftRefusedError
from pymq.raft.core import ELECTION_TICKS, HEARTBEAT_TICKS, ReadAnswer, Role
from pymq.raft.log_view import LogView
from pymq.raft.messages import (
    AppendAnswer,
    AppendRequest,
    Heartbeat,
    HeartbeatAnswer,
    Piece,
    PreVoteAnswer,
    PreVoteRequest,
    ReadIndexRequest,
    Snapshot,
    SnapshotOffer,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from pymq.raft.node import LOST_TICKS, RaftNode
from pymq.raft.reads import READS_MAX
from pymq.raft.state import Epoch, Kind, MembershipEntry, Position
from tests.raft.bench import (
    N0,
    N1,
    N2,
    NODES,
    NOWHERE,
    THREE,
    acknowledge,
    current_leader,
    follower,
    leader,
    node_of,
    role,
    sent,
    state_of,
    tick,
    write,
)

FAR = Position(9, 99)


def test_a_vote_outlives_a_restart() -> None:
    raft = node_of(state_of())
    raft.step(VoteRequest(N1, N0, 5, FAR, False))
    state = raft.ready().state
    assert state is not None and (state.term, state.vote) == (5, N1)
    assert sent(node_of(state), VoteRequest(N2, N0, 5, FAR, False)) == (VoteAnswer(N0, N2, 5, False),)
    assert sent(node_of(state), VoteRequest(N1, N0, 5, FAR, False)) == (VoteAnswer(N0, N1, 5, True),)


@pytest.mark.parametrize(("last", "is_granted"), [((2, 10), True), ((2, 9), False), ((1, 50), False), ((3, 4), True)])
def test_a_vote_needs_a_log_that_is_up_to_date(last: tuple[int, int], is_granted: bool) -> None:
    raft = node_of(state_of(2, ((1, 0), (2, 5))))
    asked = PreVoteRequest(N1, N0, 4, Position(*last))
    assert sent(raft, asked) == (PreVoteAnswer(N0, N1, 2, 4, is_granted),)
    assert sent(raft, VoteRequest(N1, N0, 5, Position(*last), False)) == (VoteAnswer(N0, N1, 5, is_granted),)


def test_a_pre_vote_changes_no_term() -> None:
    raft = node_of(state_of())
    assert sent(raft, PreVoteRequest(N1, N0, 7, FAR)) == (PreVoteAnswer(N0, N1, 1, 7, True),)
    assert raft.term == 1
    tick(raft, 3 * ELECTION_TICKS)
    assert (raft.term, raft.role) == (1, Role.PRE_CANDIDATE)
    assert {type(message) for message in raft.ready().messages} == {PreVoteRequest}


def test_an_answer_to_an_earlier_pre_vote_does_not_count() -> None:
    raft = node_of(state_of(4))
    tick(raft, ELECTION_TICKS)
    raft.step(PreVoteAnswer(N1, N0, 2, 3, True))
    assert role(raft) is Role.PRE_CANDIDATE
    raft.step(PreVoteAnswer(N1, N0, 2, 4, True))
    assert (raft.role, raft.term) == (Role.CANDIDATE, 5)


def test_a_vote_of_an_earlier_term_does_not_count() -> None:
    raft = node_of(state_of(4))
    tick(raft, ELECTION_TICKS)
    raft.step(PreVoteAnswer(N1, N0, 4, 4, True))
    raft.step(VoteAnswer(N1, N0, 4, True))
    assert role(raft) is Role.CANDIDATE
    raft.step(VoteAnswer(N1, N0, 5, True))
    assert role(raft) is Role.LEADER


def test_who_hears_a_leader_votes_for_nobody_else() -> None:
    raft = follower(state_of())
    assert sent(raft, VoteRequest(N2, N0, 8, FAR, False)) == ()
    assert sent(raft, PreVoteRequest(N2, N0, 8, FAR)) == (PreVoteAnswer(N0, N2, 5, 8, False),)
    assert sent(raft, VoteRequest(N2, N0, 8, FAR, True)) == (VoteAnswer(N0, N2, 8, True),)
    silent = follower(state_of())
    tick(silent, ELECTION_TICKS)
    assert VoteAnswer(N0, N2, 8, True) in sent(silent, VoteRequest(N2, N0, 8, FAR, False))


def test_nodes_wait_for_different_times() -> None:
    def waited(seed: int) -> int:
        raft = RaftNode(state_of(), 0, 10, NODES, random.Random(seed))
        return next(count for count in range(1, 99) if raft.tick() or raft.role is Role.PRE_CANDIDATE)

    times = {waited(seed) for seed in range(100)}
    assert (min(times), max(times)) == (ELECTION_TICKS, 2 * ELECTION_TICKS - 1)


def test_an_outdated_leader_is_deposed_by_an_answer() -> None:
    raft = node_of(state_of(7))
    (answer,) = sent(raft, Heartbeat(N1, N0, 6, 0, 1))
    assert answer.term == 7
    outdated = leader(state_of())
    outdated.step(HeartbeatAnswer(N1, N0, 7, 0, 0))
    assert (outdated.role, outdated.term) == (Role.FOLLOWER, 7)


@pytest.mark.parametrize("answers_before_sync", [True, False])
def test_a_sync_that_takes_no_time_is_answered_once(answers_before_sync: bool) -> None:
    raft = node_of(state_of(), answers_before_sync=answers_before_sync)
    raft.step(Heartbeat(N1, N0, 5, 0, 1))
    new = AppendRequest(N1, N0, 5, Position(1, 10), (Piece(5, 10, 14),), (), 0)
    early = [answer.match_end for answer in sent(raft, new) if isinstance(answer, AppendAnswer)]
    assert early == ([10] if answers_before_sync else [])
    raft.persisted(14, raft.log.truncation_count)
    (answer,) = raft.ready().messages
    assert isinstance(answer, AppendAnswer) and answer.match_end == 14
    (again,) = sent(raft, new)
    assert isinstance(again, AppendAnswer) and again.match_end == 14, "its answer was lost"
    (empty,) = sent(raft, AppendRequest(N1, N0, 5, Position(5, 14), (), (), 0))
    assert isinstance(empty, AppendAnswer) and empty.match_end == 14


def test_older_bytes_are_confirmed_with_bytes_of_the_own_epoch_alone() -> None:
    raft = leader(state_of())
    acknowledge(raft, 10, N1, N2)
    assert raft.confirm_offset == 0
    write(raft, 12, by=(N1,))
    assert raft.confirm_offset == 12


@pytest.mark.parametrize(
    ("previous", "hint"), [((3, 10), (2, 10)), ((2, 11), (2, 10)), ((1, 8), (1, 5)), ((1, 4), None), ((2, 10), None)]
)
def test_a_follower_takes_bytes_where_the_log_before_is_equal(
    previous: tuple[int, int], hint: tuple[int, int] | None
) -> None:
    raft = follower(state_of(2, ((1, 0), (2, 5))))
    (answer,) = sent(raft, AppendRequest(N1, N0, 5, Position(*previous), (), (), 0))
    assert isinstance(answer, AppendAnswer)
    assert answer.is_accepted == (hint is None) and answer.hint == (hint or NOWHERE)


def test_the_way_back_skips_an_epoch_at_once() -> None:
    raft = leader(state_of(6, ((1, 0), (6, 100))), 200)
    raft.step(AppendAnswer(N1, N0, 7, False, 0, 200, Position(4, 150)))
    assert raft.leadership.progress[N1].next_end == 100


def test_a_held_node_takes_nothing() -> None:
    raft = follower(state_of())
    raft.ready()
    raft.step(AppendRequest(N1, N0, 5, Position(1, 4), (Piece(5, 4, 8),), (), 0))
    raft.step(VoteRequest(N2, N0, 8, FAR, True))
    tick(raft, 3 * ELECTION_TICKS)
    ready = raft.ready()
    assert (ready.truncate_to, ready.messages, ready.state) == (4, (), None)
    raft.truncated()
    assert (raft.ready().messages, raft.term, raft.log.end) == ((), 5, 4)


def test_what_was_synced_before_a_truncation_says_nothing_after_it() -> None:
    raft = follower(state_of())
    raft.step(AppendRequest(N1, N0, 5, Position(1, 4), (Piece(5, 4, 8),), (), 0))
    raft.ready()
    raft.truncated()
    raft.step(AppendRequest(N1, N0, 5, Position(1, 4), (Piece(5, 4, 8),), (), 0))
    raft.persisted(10, 0)
    assert raft.log.synced_end == 4
    raft.persisted(8, 1)
    assert raft.log.synced_end == 8


def test_nothing_that_is_confirmed_is_truncated() -> None:
    raft = follower(state_of(confirm_offset=6))
    raft.step(AppendRequest(N1, N0, 5, Position(1, 4), (Piece(5, 4, 8),), (), 0))
    ready = raft.ready()
    assert ready.truncate_to is None and "6 is confirmed here" in ready.problems[0]


def test_a_truncation_brings_back_the_membership_before() -> None:
    later = MembershipEntry(8, THREE.without(N2))
    raft = follower(state_of(memberships=(MembershipEntry(0, THREE), later)))
    raft.step(AppendRequest(N1, N0, 5, Position(1, 4), (Piece(5, 4, 8),), (), 0))
    raft.ready()
    raft.truncated()
    assert raft.membership == THREE


def test_a_heartbeat_that_confirms_what_a_disk_lost_is_a_problem() -> None:
    raft = follower(state_of())
    raft.step(Heartbeat(N1, N0, 5, 11, 2))
    assert "new disk id" in raft.ready().problems[0] and raft.confirm_offset == 0
    assert raft.lost_bytes.startswith("n1 confirms offset 11, which this disk acknowledged; it has 10 now")
    tick(raft, 3 * ELECTION_TICKS)
    assert sent(raft, VoteRequest(N2, N0, 9, FAR, False)) == () and raft.role is Role.FOLLOWER, "it takes no part"


def test_a_leader_that_hears_no_majority_is_one_no_more() -> None:
    raft = current_leader()
    tick(raft, ELECTION_TICKS - 1)
    assert role(raft) is Role.LEADER
    raft.step(HeartbeatAnswer(N2, N0, raft.term, 1, 0))
    tick(raft, ELECTION_TICKS - 1)
    assert role(raft) is Role.LEADER
    tick(raft, 1)
    assert role(raft) is Role.FOLLOWER
    with pytest.raises(RaftRefusedError, match="no leader in term 2"):
        raft.propose(30)


def test_a_read_waits_for_a_round_that_begins_after_it() -> None:
    raft = current_leader()
    tick(raft, HEARTBEAT_TICKS)
    raft.ready()
    raft.read_index(7)
    begun = next(message.round_number for message in raft.ready().messages if isinstance(message, Heartbeat))
    raft.step(HeartbeatAnswer(N1, N0, raft.term, begun - 1, 20))
    assert raft.ready().reads == ()
    raft.step(HeartbeatAnswer(N1, N0, raft.term, begun, 20))
    assert raft.ready().reads == (ReadAnswer(7, 20),)


def test_reads_that_come_during_a_round_share_the_next_one() -> None:
    raft = current_leader()
    raft.ready()
    for request_id in range(READS_MAX + 1):
        raft.read_index(request_id)
    ready = raft.ready()
    rounds = {message.round_number for message in ready.messages if isinstance(message, Heartbeat)}
    assert len(rounds) == 1 and ready.reads == (ReadAnswer(READS_MAX, None),)
    raft.step(HeartbeatAnswer(N1, N0, raft.term, max(rounds), 20))
    ready = raft.ready()
    assert ready.reads == (ReadAnswer(0, 20),)
    assert {message.round_number for message in ready.messages if isinstance(message, Heartbeat)} == {max(rounds) + 1}
    raft.step(HeartbeatAnswer(N2, N0, raft.term, max(rounds) + 1, 20))
    assert len(raft.ready().reads) == READS_MAX - 1


def test_a_round_of_reads_sends_no_bytes_again() -> None:
    raft = current_leader()
    raft.propose(30)
    raft.ready()
    raft.read_index(7)
    assert {type(message) for message in raft.ready().messages} == {Heartbeat}
    tick(raft, 2 * HEARTBEAT_TICKS)
    assert AppendRequest in {type(message) for message in raft.ready().messages}, "nobody answered the first ones"


def test_a_new_leader_promises_no_current_read() -> None:
    raft = leader(state_of())
    raft.ready()
    raft.read_index(7)
    assert raft.ready().reads == (ReadAnswer(7, None),)


def test_a_deposed_leader_refuses_the_reads_that_wait() -> None:
    raft = current_leader()
    raft.read_index(7)
    raft.step(Heartbeat(N1, N0, raft.term + 1, 0, 1))
    assert raft.ready().reads == (ReadAnswer(7, None),)


def test_a_follower_asks_its_leader_how_far_to_read() -> None:
    raft = follower(state_of())
    raft.ready()
    raft.read_index(7)
    assert raft.ready().messages == (ReadIndexRequest(N0, N1, 5, 7),)


def test_a_hand_over_waits_for_the_target_and_takes_no_records() -> None:
    raft = current_leader()
    raft.propose(30)
    raft.transfer("n1")
    assert not [message for message in raft.ready().messages if isinstance(message, TimeoutNow)]
    with pytest.raises(RaftRefusedError, match="handed over to n1"):
        raft.propose(40)
    acknowledge(raft, 30, N1)
    assert TimeoutNow(N0, N1, raft.term) in raft.ready().messages


def test_who_resigns_is_followed_by_another_who_is_elected() -> None:
    raft = current_leader()
    raft.resign()
    assert raft.role is Role.FOLLOWER and raft.leader is None
    assert [message.is_granted for message in sent(raft, VoteRequest(N1, N0, raft.term + 1, FAR, False))
            if isinstance(message, VoteAnswer)] == [True]  # fmt: skip


def test_a_node_that_may_not_lead_begins_no_election() -> None:
    raft = follower(state_of())
    raft.may_lead = False
    tick(raft, 3 * ELECTION_TICKS)
    assert raft.role is Role.FOLLOWER
    assert sent(follower_that_may_not_lead(), TimeoutNow(N1, N0, 5)) == ()
    raft.may_lead = True
    tick(raft, 1)
    assert role(raft) is Role.PRE_CANDIDATE


def follower_that_may_not_lead() -> RaftNode:
    raft = follower(state_of())
    raft.may_lead = False
    return raft


def test_a_hand_over_to_a_dead_node_is_given_up() -> None:
    raft = current_leader()
    raft.propose(30)
    raft.transfer("n1")
    for _ in range(ELECTION_TICKS):
        tick(raft, 1)
        raft.step(HeartbeatAnswer(N2, N0, raft.term, 1, 20))
    raft.propose(40)
    with pytest.raises(RaftRefusedError, match="no other voter"):
        raft.transfer("n0")


def test_only_the_leader_calls_an_election() -> None:
    raft = follower(state_of())
    assert sent(raft, TimeoutNow(N2, N0, 5)) == ()
    asked = sent(raft, TimeoutNow(N1, N0, 5))
    assert asked == tuple(VoteRequest(N0, to, 6, Position(1, 10), True) for to in (N1, N2))


def test_a_voter_whose_removal_is_not_confirmed_still_begins_elections() -> None:
    removal = MembershipEntry(10, THREE.without(N0))
    raft = node_of(state_of(memberships=(MembershipEntry(0, THREE), removal)))
    tick(raft, ELECTION_TICKS)
    assert role(raft) is Role.PRE_CANDIDATE
    removed = node_of(state_of(memberships=(MembershipEntry(0, THREE), removal), confirm_offset=10))
    tick(removed, 3 * ELECTION_TICKS)
    assert removed.role is Role.FOLLOWER


def test_a_snapshot_holds_what_is_confirmed_and_its_last_epoch() -> None:
    raft = current_leader()
    write(raft, 30)
    raft.released(15)
    raft.step(AppendAnswer(N1, N0, raft.term, False, 0, 30, NOWHERE))
    raft.leadership.progress[N1].match_end = 0
    raft.leadership.progress[N1].next_end = 0
    raft.leadership.progress[N1].send()
    raft.ready()
    tick(raft, HEARTBEAT_TICKS)
    offers = [message.snapshot for message in raft.ready().messages if isinstance(message, SnapshotOffer)]
    entries = (MembershipEntry(0, THREE),)
    assert offers == [Snapshot(15, Position(2, 20), (Epoch(2, 10),), entries)]


def test_a_snapshot_replaces_an_older_log_alone() -> None:
    raft = follower(state_of(confirm_offset=6))
    entries = (MembershipEntry(0, THREE.with_member(N2, Kind.OBSERVER)),)
    assert not raft.install(Snapshot(0, Position(1, 5), (Epoch(1, 0),), entries))
    assert not raft.install(Snapshot(0, Position(1, 10), (Epoch(1, 0),), entries))
    assert raft.install(Snapshot(50, Position(4, 60), (Epoch(4, 40),), entries))
    assert (raft.log.begin, raft.log.last, raft.confirm_offset) == (50, (4, 60), 60)
    assert raft.ready().state.memberships == entries


def test_a_restart_behind_deleted_segments_counts_them_as_confirmed() -> None:
    assert node_of(state_of(), begin=8).confirm_offset == 8


def test_a_follower_whose_leader_is_gone_asks_for_pre_votes_soon() -> None:
    raft = follower(state_of())
    raft.ready()
    raft.lost("n1")
    assert raft.ready().messages == ()
    tick(raft, 1)
    assert (raft.term, role(raft)) == (5, Role.PRE_CANDIDATE)
    assert {type(message) for message in raft.ready().messages} == {PreVoteRequest}


def test_followers_of_a_leader_that_is_gone_wait_for_different_times() -> None:
    waits = set()
    for seed in range(50):
        raft = RaftNode(state_of(), 0, 10, NODES, random.Random(seed))
        raft.step(Heartbeat(N1, N0, 5, 0, 1))
        raft.lost("n1")
        count = 0
        while role(raft) is Role.FOLLOWER:
            tick(raft, 1)
            count += 1
        waits.add(count)
    assert waits == set(range(1, LOST_TICKS + 1))


def test_a_hint_about_another_node_says_nothing_about_the_leader() -> None:
    raft = follower(state_of())
    raft.lost("n2")
    tick(raft, LOST_TICKS)
    assert role(raft) is Role.FOLLOWER
    assert sent(raft, PreVoteRequest(N2, N0, 5, FAR)) == (PreVoteAnswer(N0, N2, 5, 5, False),)


def test_who_knows_that_the_leader_is_gone_grants_a_pre_vote() -> None:
    raft = follower(state_of())
    raft.lost("n1")
    assert sent(raft, PreVoteRequest(N2, N0, 5, FAR)) == (PreVoteAnswer(N0, N2, 5, 5, True),)


def test_a_leader_that_is_heard_after_the_hint_stays() -> None:
    raft = follower(state_of())
    raft.lost("n1")
    raft.step(Heartbeat(N1, N0, 5, 0, 2))
    tick(raft, ELECTION_TICKS - 1)
    assert role(raft) is Role.FOLLOWER


def test_a_leader_takes_no_hint() -> None:
    raft = current_leader()
    raft.lost("n0")
    assert role(raft) is Role.LEADER


def test_who_was_removed_in_an_election_is_a_follower() -> None:
    raft = node_of(state_of())
    tick(raft, ELECTION_TICKS)
    assert role(raft) is Role.PRE_CANDIDATE
    raft.log.memberships = (MembershipEntry(0, THREE.without(N0)),)
    tick(raft, ELECTION_TICKS)
    assert role(raft) is Role.FOLLOWER


def test_of_two_pre_candidates_one_steps_back() -> None:
    def asked_by(other: PreVoteRequest) -> tuple[Role, bool]:
        raft = node_of(state_of())
        tick(raft, ELECTION_TICKS)
        (answer,) = sent(raft, other)
        assert isinstance(answer, PreVoteAnswer)
        return role(raft), answer.is_granted

    same = node_of(state_of()).log.last
    assert asked_by(PreVoteRequest(N1, N0, 1, same)) == (Role.FOLLOWER, True)
    assert asked_by(PreVoteRequest(N1, N0, 1, NOWHERE)) == (Role.PRE_CANDIDATE, False)
    lower = RaftNode(replace(state_of(), replica=N1), 0, 10, NODES, random.Random(1))
    tick(lower, 2 * ELECTION_TICKS)
    assert role(lower) is Role.PRE_CANDIDATE
    lower.step(PreVoteRequest(N0, N1, 1, same))
    assert role(lower) is Role.PRE_CANDIDATE


def test_who_grants_a_pre_vote_waits_before_it_asks_itself() -> None:
    raft = follower(state_of())
    raft.lost("n1")
    raft.step(PreVoteRequest(N2, N0, 5, FAR))
    tick(raft, LOST_TICKS - 1)
    assert role(raft) is Role.FOLLOWER
    tick(raft, 1)
    assert role(raft) is Role.PRE_CANDIDATE


def test_a_leader_that_wrote_nothing_leaves_no_trace_in_the_epochs() -> None:
    view = LogView((Epoch(1, 0),), (), end=10)
    view.begin_epoch(2)
    assert view.epochs == (Epoch(1, 0), Epoch(2, 10))
    view.append((Piece(1, 10, 14), Piece(3, 14, 20)))
    assert view.epochs == (Epoch(1, 0), Epoch(3, 14))
