"""Core: what all roles of a node share: its persistent state, its log, its confirm offset and what it has to send."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pymq.raft.log_view import LogView
from pymq.raft.messages import Message, Piece, Snapshot
from pymq.raft.state import Membership, RaftState, Replica

ELECTION_TICKS = 10
HEARTBEAT_TICKS = 2
TERM_MAX = 1 << 62
# A message may be of a term that is so much later than the receiver's: elections with each tick for six years.
TERM_STEP_MAX = 1 << 32


class Role(Enum):
    """Figure 4 of the paper, with pre-candidates (dissertation §9.6)."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """A current read may be served once the node has applied the log below ``confirm_offset``; None: nobody can promise
    it now.
    """

    request_id: int
    confirm_offset: int | None


@dataclass(frozen=True, slots=True)
class Ready:
    """What the driver has to do, in the order of the fields. Each step is on the disk before the next one begins.

    ``truncate_to`` comes alone: the node is held until :meth:`RaftNode.truncated`. ``pieces`` are bytes of a request
    that the follower writes. ``membership`` is a change that a leader wants: the driver writes a record of it, with
    :meth:`RaftNode.propose`. ``snapshot`` is to be fetched from the leader, for :meth:`RaftNode.install`.
    """

    truncate_to: int | None = None
    state: RaftState | None = None
    pieces: tuple[Piece, ...] = ()
    messages: tuple[Message, ...] = ()
    membership: Membership | None = None
    snapshot: Snapshot | None = None
    reads: tuple[ReadAnswer, ...] = ()
    problems: tuple[str, ...] = ()


class Core:
    """Its members are changed by the rules in this package alone."""

    def __init__(self, state: RaftState, log: LogView, *, answers_before_sync: bool = True) -> None:
        """``answers_before_sync``: bytes may wait long for their sync, so a follower says at once that they came."""
        self.answers_before_sync = answers_before_sync
        self.me: Replica = state.replica
        self.term = state.term
        self.vote = state.vote
        self.promised = state.promised
        self.log = log
        self.confirm_offset = max(
            log.begin, min(state.confirm_offset, log.end)
        )  # the store keeps what is not confirmed
        self.truncate_to: int | None = None
        self.lost = ""  # what the disk has lost of what it had acknowledged
        self.outbox: list[Message] = []
        self.pieces: list[Piece] = []
        self.membership: Membership | None = None
        self.snapshot: Snapshot | None = None
        self.reads: list[ReadAnswer] = []
        self.problems: list[str] = []
        self._saved = state

    @property
    def is_founded(self) -> bool:
        return bool(self.log.memberships)

    @property
    def is_voter(self) -> bool:
        return self.me in self.log.membership.voters

    @property
    def may_campaign(self) -> bool:
        """Return True for a voter, and for one whose removal is not confirmed: it may have the only log that can win
        (dissertation §4.2.2).
        """
        newest = self.log.memberships[-1]
        before = self.log.memberships[-2:-1] if newest.end > self.confirm_offset else ()
        return self.is_voter or any(self.me in entry.membership.voters for entry in before)

    def other_voters(self) -> list[Replica]:
        """Return the other voters, always in the same order: chance comes from the random.Random alone."""
        return sorted(self.log.membership.voters - {self.me})

    def enter(self, term: int) -> None:
        """Enter a later term, in which no vote is given yet (§5.1)."""
        assert term > self.term
        self.term, self.vote = term, None

    def confirm(self, end: int) -> None:
        """Move the confirm offset forward, never back."""
        self.confirm_offset = max(self.confirm_offset, min(end, self.log.end))

    def unsaved_state(self) -> RaftState | None:
        """Return the state to save; None when the saved one will do. The confirm offset alone is no reason to save."""
        log, saved = self.log, self._saved
        now = (self.term, self.vote, self.promised, log.epochs, log.memberships)
        if now == (saved.term, saved.vote, saved.promised, saved.epochs, saved.memberships):
            return None
        state = RaftState(
            self.me, self.term, self.vote, self.promised, self.confirm_offset, log.epochs, log.memberships
        )
        self._saved = state
        return state

    def take_ready(self) -> Ready:
        """Return what is to be done, once."""
        if self.truncate_to is not None:
            return Ready(truncate_to=self.truncate_to)
        ready = Ready(
            state=self.unsaved_state(),
            messages=tuple(self.outbox),
            pieces=tuple(self.pieces),
            membership=self.membership,
            snapshot=self.snapshot,
            reads=tuple(self.reads),
            problems=tuple(self.problems),
        )
        for kept in (self.outbox, self.pieces, self.reads, self.problems):
            kept.clear()
        self.membership = self.snapshot = None
        return ready
