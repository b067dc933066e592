"""The messages between Raft nodes. Each belongs to the term that its sender was in.

A message is for one replica, not for whatever runs at its address: a node with another disk does not take it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pymq.raft.state import Epoch, Membership, MembershipEntry, Position, Replica


class Piece(NamedTuple):
    """The bytes of the log in [begin, end), all of one epoch: the paper's entries of one term."""

    epoch: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Message:
    """What all messages have."""

    sender: Replica
    to: Replica
    term: int


@dataclass(frozen=True, slots=True)
class PreVoteRequest(Message):
    """Would you vote for me in the term after ``term``? Nobody's term or vote changes (dissertation §9.6)."""

    last: Position


@dataclass(frozen=True, slots=True)
class PreVoteAnswer(Message):
    """``asked_term`` is the term of the request: an answer to an earlier question does not count."""

    asked_term: int
    is_granted: bool


@dataclass(frozen=True, slots=True)
class VoteRequest(Message):
    """RequestVote (§5.2). ``is_transfer``: the leader itself asked for this election, so its lease does not protect it
    (dissertation §4.2.3).
    """

    last: Position
    is_transfer: bool


@dataclass(frozen=True, slots=True)
class VoteAnswer(Message):
    is_granted: bool


@dataclass(frozen=True, slots=True)
class AppendRequest(Message):
    """AppendEntries (§5.3): bytes of the log behind ``previous``, where the follower's log must be equal.

    ``pieces`` continue each other and begin at ``previous.end``. ``memberships`` are the records with memberships in
    these bytes. ``confirm_offset`` is the leader's.
    """

    previous: Position
    pieces: tuple[Piece, ...]
    memberships: tuple[MembershipEntry, ...]
    confirm_offset: int

    @property
    def end(self) -> int:
        return self.pieces[-1].end if self.pieces else self.previous.end


@dataclass(frozen=True, slots=True)
class AppendAnswer(Message):
    """The follower's disk has the leader's log below ``match_end``; or it refuses ``previous_end``.

    With a refusal ``hint`` is the greatest position of the follower's log that may lie in the leader's: the end of its
    newest epoch that is not newer than the one asked for (the quick way back of §5.3).
    """

    is_accepted: bool
    match_end: int
    previous_end: int
    hint: Position


@dataclass(frozen=True, slots=True)
class Heartbeat(Message):
    """The leader is alive. ``confirm_offset`` is at most what it knows to be equal in the receiver's log.

    ``round_number`` grows with each heartbeat, so an answer shows that the leader was the leader when it sent that
    one: reads and check-quorum count it (dissertation §6.4, §6.2).
    """

    confirm_offset: int
    round_number: int


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer(Message):
    """``synced_end`` is what the receiver's disk has, for the lag that a leader reports; it confirms nothing."""

    round_number: int
    synced_end: int


@dataclass(frozen=True, slots=True)
class TimeoutNow(Message):
    """Begin an election at once: the leader hands over (dissertation §3.10)."""


@dataclass(frozen=True, slots=True)
class ReadIndexRequest(Message):
    """A follower asks how far a read that promises to be current must see (dissertation §6.4)."""

    request_id: int


@dataclass(frozen=True, slots=True)
class ReadIndexAnswer(Message):
    """``confirm_offset`` is None when the receiver can't tell: no leader, or nothing of its term is confirmed."""

    request_id: int
    confirm_offset: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a follower takes in the place of a log that it can't continue (§7): tables, and the bytes from ``begin`` on.

    ``last`` has the epoch too: without it the next append could not be checked. ``epochs`` and ``memberships`` are
    those of the whole log below ``last.end``. All of it is confirmed.
    """

    begin: int
    last: Position
    epochs: tuple[Epoch, ...]
    memberships: tuple[MembershipEntry, ...]


@dataclass(frozen=True, slots=True)
class SnapshotOffer(Message):
    """InstallSnapshot (§7). The driver fetches the content; the core only decides that it is needed."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class SnapshotAnswer(Message):
    """The follower's disk has the snapshot that ends at ``match_end``, or needed none: it is confirmed up to there."""

    match_end: int


@dataclass(frozen=True, slots=True)
class Introduction(Message):
    """A replica that knows no membership with itself says who it is. ``to`` has an empty disk id: it knows none."""

    last: Position


@dataclass(frozen=True, slots=True)
class FoundRequest(Message):
    """The founder asks a node to promise that it will take the first membership from no other replica."""


@dataclass(frozen=True, slots=True)
class FoundPromise(Message):
    """The promise, by a replica that is in no group yet, with the end of its log."""

    last: Position


@dataclass(frozen=True, slots=True)
class Found(Message):
    """The first membership. ``founder`` decided it; it counts for replicas that promised to follow this one."""

    founder: Replica
    last: Position
    membership: Membership
