"""Changes of the leader: counted, and logged in one line each that says why."""

from __future__ import annotations

import logging

import pytest

from pymq.broker.raft.leader_watch import TERMS_KEPT_MAX, LeaderWatch
from pymq.broker.raft.members import GroupSettings
from pymq.clock import ManualClock
from pymq.raft.core import ELECTION_TICKS
from pymq.raft.messages import Heartbeat, Message, PreVoteAnswer, TimeoutNow, VoteAnswer, VoteRequest
from pymq.raft.node import RaftNode
from pymq.raft.state import Position
from pymq.wire.bodies_raft import RECENT_MS
from tests.raft.bench import N0, N1, N2, acknowledge, follower, node_of, state_of, tick, write


class Watched:
    """A node, and the watch that sees what happens to it."""

    def __init__(self, raft: RaftNode) -> None:
        self.raft = raft
        self.clock = ManualClock()
        self.watch = LeaderWatch(GroupSettings("shard-a", "n0", ()), self.clock)
        self.watch.look(raft)

    def take(self, *messages: Message) -> None:
        for message in messages:
            self.watch.on_message(message)
            self.raft.step(message)
            self.watch.look(self.raft)

    def tick(self, count: int) -> None:
        for _ in range(count):
            self.clock.advance(50)
            tick(self.raft, 1)
            self.watch.look(self.raft)

    def elect(self) -> None:
        self.tick(ELECTION_TICKS)
        self.take(PreVoteAnswer(N1, N0, self.raft.term, self.raft.term, True))
        self.take(VoteAnswer(N1, N0, self.raft.term, True))

    @property
    def why(self) -> str:
        assert self.watch.last_change is not None
        return self.watch.last_change.why


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_a_leader_that_is_gone_is_named_so() -> None:
    seen = Watched(follower(state_of()))
    seen.take(Heartbeat(N1, N0, 5, 0, 2))
    seen.watch.on_gone("n2")
    seen.watch.on_gone("n1")
    seen.elect()
    assert seen.why == "n1: nobody listens at its address, and it was not heard for 500 ms"


def test_a_silent_leader_is_named_with_the_time(caplog: pytest.LogCaptureFixture) -> None:
    seen = Watched(follower(state_of()))
    seen.take(Heartbeat(N1, N0, 5, 0, 2))
    seen.elect()
    assert seen.why == "n1: it was not heard for 500 ms"
    assert (seen.watch.election_count, seen.watch.change_count) == (1, 2)
    assert caplog.messages[-1] == (
        "Raft group shard-a: n0 leads from term 6 on (before: n1 led term 5): n1: it was not heard for 500 ms"
    )
    assert caplog.records[-1].levelno == logging.WARNING
    count = len(caplog.messages)
    seen.tick(1)
    assert len(caplog.messages) == count, "one line for a change"


def test_a_follower_says_when_it_heard_the_one_before() -> None:
    seen = Watched(follower(state_of()))
    seen.clock.advance(740)
    seen.take(Heartbeat(N2, N0, 6, 0, 1))
    assert seen.why == "it won an election; n1 was last heard here 740 ms ago"


def test_a_transfer_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    seen = Watched(follower(state_of()))
    seen.take(TimeoutNow(N1, N0, 5), VoteAnswer(N1, N0, 6, True))
    assert seen.why == "the leader before handed over to it" and caplog.records[-1].levelno == logging.INFO
    seen = Watched(follower(state_of()))
    seen.take(VoteRequest(N2, N0, 6, Position(9, 99), True), Heartbeat(N2, N0, 6, 0, 1))
    assert seen.why == "the leader before handed over to it"


def test_a_leader_says_why_it_leads_no_longer() -> None:
    seen = Watched(node_of(state_of()))
    seen.elect()
    assert seen.why == "this node knew no leader before"
    seen.tick(ELECTION_TICKS + 1)
    assert seen.why == "no majority of the voters answered it for 500 ms"
    assert seen.watch.last_change is not None and seen.watch.last_change.leader == ""
    seen.elect()
    seen.take(Heartbeat(N2, N0, 9, 0, 1))
    assert seen.watch.last_change.leader == "n2" and seen.why.startswith("it won an election; n0 was last heard")


def test_a_leader_that_hands_over_expects_the_next_one() -> None:
    seen = Watched(node_of(state_of()))
    seen.elect()
    write(seen.raft, 20)
    seen.raft.transfer("n2")
    seen.watch.look(seen.raft)
    acknowledge(seen.raft, 20, N1, N2)
    seen.take(VoteRequest(N2, N0, seen.raft.term + 1, Position(9, 99), True))
    seen.take(Heartbeat(N2, N0, seen.raft.term, 0, 1))
    assert seen.why == "the leader before handed over to it"


def test_terms_that_began_lately_are_counted_and_hand_overs_are_not() -> None:
    seen = Watched(follower(state_of()))
    seen.take(Heartbeat(N1, N0, 5, 0, 2))
    assert seen.watch.recent_term_count() == 0, "the first term that is seen is no change"
    for term in (6, 7, 9):
        seen.take(Heartbeat(N2, N0, term, 0, 2))
    assert seen.watch.recent_term_count() == 3
    seen.take(VoteRequest(N1, N0, 10, Position(99, 99), is_transfer=True))
    assert seen.watch.recent_term_count() == 3
    seen.clock.advance(RECENT_MS)
    assert seen.watch.recent_term_count() == 3
    seen.clock.advance(1)
    assert seen.watch.recent_term_count() == 0


def test_a_flapping_group_is_counted_up_to_a_limit() -> None:
    seen = Watched(follower(state_of()))
    for term in range(5, TERMS_KEPT_MAX + 10):
        seen.take(Heartbeat(N1, N0, term, 0, 2))
    assert seen.watch.recent_term_count() == TERMS_KEPT_MAX
