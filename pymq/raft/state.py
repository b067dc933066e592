"""What a Raft node must not forget: term, vote, identity, memberships and epochs (persistent state, figure 2).

A log position is a physical offset of the commit log. An epoch is the term of the leader that wrote a part of the log,
so ``(epoch, end)`` stands for the paper's (term, index) of a last entry. All offsets are ends of whole records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Replica(NamedTuple):
    """A node with its disk: what votes and what counts in a majority.

    ``disk_id`` is drawn when a node starts without its state file, so a node whose disk is empty or was replaced is
    another replica than the one that voted (Kafka: replica directory id).
    """

    node_id: str
    disk_id: str


class Position(NamedTuple):
    """The end of a log: the epoch of its last byte (0 without bytes) and the offset behind it. The greater one is the
    more up-to-date log (§5.4.1).
    """

    epoch: int
    end: int


class Epoch(NamedTuple):
    """The bytes from ``start`` to the next epoch's start were written by the leader of term ``number``."""

    number: int
    start: int


class Kind(Enum):
    """What a member does: decide, copy until it may decide, or copy only."""

    VOTER = "voter"
    LEARNER = "learner"  # becomes a voter when it has caught up (dissertation §4.2.1)
    OBSERVER = "observer"  # a follower for reading; it never votes


@dataclass(frozen=True, slots=True)
class Membership:
    """Who is in the group, and as what. At most one replica of a node."""

    members: tuple[tuple[Replica, Kind], ...] = ()

    @property
    def voters(self) -> frozenset[Replica]:
        return frozenset(replica for replica, kind in self.members if kind is Kind.VOTER)

    @property
    def replicas(self) -> tuple[Replica, ...]:
        return tuple(replica for replica, _ in self.members)

    def kind_of(self, replica: Replica) -> Kind | None:
        """Return what the replica is; None for one that is no member."""
        return dict(self.members).get(replica)

    def replica_of(self, node_id: str) -> Replica | None:
        """Return the member with this node id; None without one."""
        return next((replica for replica in self.replicas if replica.node_id == node_id), None)

    def with_member(self, replica: Replica, kind: Kind) -> Membership:
        """Return this membership with the replica as ``kind``, in the place of any other replica of its node."""
        rest = tuple(member for member in self.members if member[0].node_id != replica.node_id)
        return Membership(tuple(sorted((*rest, (replica, kind)), key=lambda member: member[0])))

    def without(self, replica: Replica) -> Membership:
        return Membership(tuple(member for member in self.members if member[0] != replica))

    @property
    def majority_count(self) -> int:
        """How many voters are a majority."""
        return len(self.voters) // 2 + 1


class MembershipEntry(NamedTuple):
    """A membership in the log, in the record that ends at ``end``. It counts once it is in the log, confirmed or not
    (dissertation §4.1).
    """

    end: int
    membership: Membership


@dataclass(frozen=True, slots=True)
class RaftState:
    """The content of a node's state file. It is on the disk before anything that follows from it is sent or written.

    ``promised`` are the founders that this replica promised to follow before the group is founded; the last one counts.
    ``confirm_offset`` is a lower bound: a restarted node shows no less than this, and truncates nothing below it.
    ``epochs`` and ``memberships`` are in the order of their offsets. A crash may leave some beyond the log's end; they
    are dropped when the node starts.
    """

    replica: Replica
    term: int = 0
    vote: Replica | None = None
    promised: tuple[Replica, ...] = ()
    confirm_offset: int = 0
    epochs: tuple[Epoch, ...] = ()
    memberships: tuple[MembershipEntry, ...] = field(default=())

    @property
    def is_founded(self) -> bool:
        """Return True when the replica knows a membership of its group."""
        return bool(self.memberships)
