"""JSON bodies with which administration sees a Raft group (in the answer to 9103) and changes it (9130).

docs/raft-protocol.md has the tables. A request carries its limits in its types, so decoding refuses a value outside.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

# RaftRequest.action
TRANSFER: Final = "transfer"
ADD: Final = "add"
REMOVE: Final = "remove"
VOTER, LEARNER, OBSERVER = "voter", "learner", "observer"  # RaftMemberState.kind
LEADER = "leader"  # RaftState.role; the others are follower, pre-candidate, candidate
UNKNOWN = -1
OUT_OF_DATE_BYTES = 1 << 20  # a member that lacks more than this of the leader's log is out of date
RECENT_MS = 600_000  # the time that ``recent_term_count`` is about

TERM_MAX = 1 << 62
CHALLENGE_LENGTH = 64  # hex digits
_NODE = r"^n(0|[1-9][0-9]{0,9})$"


class ReportRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Asks a node what it is (9122). The answer's proof covers ``challenge``."""

    challenge: Annotated[str, msgspec.Meta(pattern=f"^[0-9a-f]{{{CHALLENGE_LENGTH}}}$")]


class RaftMemberState(msgspec.Struct, rename="camel", kw_only=True):
    """A member of the group, as the node that answers sees it.

    Only a leader knows ``match_end`` (the member's disk has the leader's log below it), ``lag_bytes`` behind the
    leader's log and ``silent_ms``, how long nothing was heard of it; others have -1 there. ``is_heard``: the leader has
    heard of it within an election time-out; False also where that is not known. ``needs_snapshot``: it is behind the
    begin of the leader's log, or its disk is empty.
    """

    node: str
    disk_id: str
    kind: str
    address: str = ""
    broker_id: int = -1
    match_end: int = UNKNOWN
    lag_bytes: int = UNKNOWN
    silent_ms: int = UNKNOWN
    is_heard: bool = False
    needs_snapshot: bool = False


class LeaderChange(msgspec.Struct, rename="camel", kw_only=True):
    """The last time that this node saw the leader change: to ``leader``, empty for none, and why."""

    time_ms: int
    term: int
    leader: str
    why: str


class RaftGroupState(msgspec.Struct, rename="camel", kw_only=True):
    """What one node of a Raft group says about itself and its group; a part of the answer to 9103.

    ``leader`` is a node id, empty when none is known. ``is_changing``: the newest membership is not confirmed yet.
    ``candidates`` are nodes that introduced themselves to this leader and are no members: ``add`` takes them.
    ``election_count`` counts the elections that this node began since its start, ``leader_change_count`` the changes of
    the leader that it saw, ``recent_term_count`` the terms that began in the last :data:`RECENT_MS`, as it saw, without
    those for a hand-over.
    """

    node: str
    disk_id: str
    role: str
    term: int
    leader: str = ""
    is_founded: bool = False
    log_end: int = 0
    synced_end: int = 0
    confirm_offset: int = 0
    members: list[RaftMemberState] = []
    is_changing: bool = False
    transfer_target: str = ""
    preferred: list[str] = []
    candidates: list[str] = []
    election_count: int = 0
    leader_change_count: int = 0
    recent_term_count: int = 0
    election_timeout_ms: int = 0
    last_change: LeaderChange | None = None
    problems: list[str] = []

    @property
    def voter_count(self) -> int:
        return sum(member.kind == VOTER for member in self.members)

    @property
    def majority_count(self) -> int:
        """How many voters are a majority."""
        return self.voter_count // 2 + 1

    def member(self, node: str) -> RaftMemberState | None:
        """Return the member with this node id; None without one."""
        return next((member for member in self.members if member.node == node), None)


class RaftRequest(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """PYMQ_CHANGE_RAFT_GROUP (9130), to the leader. ``action`` is one of:

    - ``transfer``: ``node`` becomes the leader;
    - ``add``: ``node`` becomes a learner, and a voter once it has the log; with ``as_observer`` it never votes;
    - ``remove``: ``node`` is a member no more.

    ``term`` is the leader's, as the sender knows it: a leader of another term refuses.
    """

    action: Literal["transfer", "add", "remove"]
    node: Annotated[str, msgspec.Meta(pattern=_NODE)]
    term: Annotated[int, msgspec.Meta(ge=0, le=TERM_MAX)]
    as_observer: bool = False
