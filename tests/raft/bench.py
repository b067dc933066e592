"""Nodes as a test wants them, and the shortest ways to make one a follower or the leader."""

from __future__ import annotations

import random

from pymq.raft.core import ELECTION_TICKS, Role
from pymq.raft.messages import AppendAnswer, Heartbeat, Message, PreVoteAnswer, VoteAnswer
from pymq.raft.node import RaftNode
from pymq.raft.state import Epoch, Kind, Membership, MembershipEntry, Position, RaftState, Replica

N0, N1, N2, N3 = (Replica(f"n{number}", f"disk{number}") for number in range(4))
NODES = ("n0", "n1", "n2")
THREE = Membership(tuple((replica, Kind.VOTER) for replica in (N0, N1, N2)))
NOWHERE = Position(0, 0)


class LeastRandom(random.Random):
    """Draws the least number, so an election begins after ELECTION_TICKS."""

    def randrange(self, start: int, *_: int) -> int:  # type: ignore[override]
        return start


def state_of(
    term: int = 1,
    epochs: tuple[tuple[int, int], ...] = ((1, 0),),
    memberships: tuple[MembershipEntry, ...] = (MembershipEntry(0, THREE),),
    confirm_offset: int = 0,
) -> RaftState:
    starts = tuple(Epoch(*epoch) for epoch in epochs)
    return RaftState(N0, term, confirm_offset=confirm_offset, epochs=starts, memberships=memberships)


def node_of(state: RaftState, end: int = 10, begin: int = 0, *, answers_before_sync: bool = True) -> RaftNode:
    return RaftNode(state, begin, end, NODES, LeastRandom(), answers_before_sync=answers_before_sync)


def sent(raft: RaftNode, *messages: Message) -> tuple[Message, ...]:
    """Have the node take messages, and return what it sends after that."""
    raft.ready()
    for message in messages:
        raft.step(message)
    return raft.ready().messages


def tick(raft: RaftNode, count: int) -> None:
    for _ in range(count):
        raft.tick()


def follower(state: RaftState, end: int = 10) -> RaftNode:
    """Return a node that follows n1 in term 5."""
    raft = node_of(state, end)
    raft.step(Heartbeat(N1, N0, 5, 0, 1))
    return raft


def leader(state: RaftState, end: int = 10) -> RaftNode:
    """Return the leader of the term after the state's."""
    raft = node_of(state, end)
    tick(raft, ELECTION_TICKS)
    voter = min(raft.membership.voters - {N0})
    raft.step(PreVoteAnswer(voter, N0, raft.term, raft.term, True))
    raft.step(VoteAnswer(voter, N0, raft.term, True))
    assert raft.role is Role.LEADER
    return raft


def role(raft: RaftNode) -> Role:
    """Return the role, which a type checker would take for the one it was compared with before."""
    return raft.role


def acknowledge(raft: RaftNode, end: int, *members: Replica) -> None:
    for member in members:
        raft.step(AppendAnswer(member, N0, raft.term, True, end, end, NOWHERE))


def write(raft: RaftNode, end: int, membership: Membership | None = None, *, by: tuple[Replica, ...] = ()) -> None:
    """Propose a record; the leader's disk and those of ``by`` have it."""
    raft.propose(end, membership)
    raft.persisted(end, raft.log.truncation_count)
    acknowledge(raft, end, *by)


def current_leader() -> RaftNode:
    """Return a leader that has confirmed its log, which ends at 20."""
    raft = leader(state_of())
    write(raft, 20, by=(N1, N2))
    assert raft.confirm_offset == 20
    return raft
