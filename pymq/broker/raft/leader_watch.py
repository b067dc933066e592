"""LeaderWatch: counts elections and changes of the leader, and logs one line for each change that says why."""

from __future__ import annotations

import logging
from collections import deque
from typing import NamedTuple

from pymq.broker.raft.members import GroupSettings
from pymq.clock import Clock
from pymq.raft.core import Role
from pymq.raft.messages import AppendRequest, Heartbeat, Message, SnapshotOffer, TimeoutNow, VoteRequest
from pymq.raft.node import RaftNode
from pymq.raft.state import Replica
from pymq.wire.bodies_raft import RECENT_MS

log = logging.getLogger(__name__)

TERMS_KEPT_MAX = 1000  # a flapping group is named long before


class Change(NamedTuple):
    """A change of the leader, as this node saw it. ``leader`` is a node id, empty when none is known."""

    time_ms: int
    term: int
    leader: str
    why: str


class LeaderWatch:
    """Sees each message before the core takes it, and the node after each call into it."""

    def __init__(self, settings: GroupSettings, clock: Clock) -> None:
        self.election_count = 0  # that this node began
        self.change_count = 0
        self.last_change: Change | None = None
        self._group = settings.name
        self._timeout_ms = settings.election_timeout_ms
        self._clock = clock
        self._leader: Replica | None = None  # the last one that was known
        self._leader_term = 0
        self._role = Role.FOLLOWER
        self._elected_term = 0
        self._heard_ms = clock.monotonic_ms()  # when a leader was heard last
        self._lost = ""  # why this node looked for another leader
        self._gone = ""  # a node whose address refused a connection since a leader was heard
        self._transfer_to = ""  # the node that the last leader handed over to
        self._term = 0
        self._began_ms: deque[int] = deque(maxlen=TERMS_KEPT_MAX)  # of terms that began without a hand-over
        self._seen: tuple[int, Role, Replica | None, Replica | None] = (0, Role.FOLLOWER, None, None)

    def on_message(self, message: Message) -> None:
        """Note what tells later why the leader changed."""
        if isinstance(message, AppendRequest | Heartbeat | SnapshotOffer):
            if message.sender == self._leader:
                self._heard_ms = self._clock.monotonic_ms()
                self._gone = ""
        elif isinstance(message, VoteRequest) and message.is_transfer:
            self._transfer_to = message.sender.node_id
        elif isinstance(message, TimeoutNow):
            self._transfer_to = message.to.node_id

    def on_gone(self, node: str) -> None:
        """Note that the address of ``node`` refused a connection."""
        if self._leader is not None and self._leader.node_id == node:
            self._gone = node

    def look(self, node: RaftNode) -> None:
        """Compare the node with how it was. It costs next to nothing when nothing has changed."""
        target = node.leadership.transfer_target if node.leadership is not None else None
        now = (node.term, node.role, node.leader, target)
        if now == self._seen:
            return
        self._seen = now
        self._count_election(node)
        self._count_term(node.term)
        if target is not None:
            self._transfer_to = target.node_id
        if node.role is Role.PRE_CANDIDATE and self._role is Role.FOLLOWER and self._leader is not None:
            what = "nobody listens at its address, and it" if self._gone else "it"
            self._lost = f"{self._leader.node_id}: {what} was not heard for {self._silence_ms()} ms"
        if node.leader is not None and (node.leader, node.term) != (self._leader, self._leader_term):
            self._note(node.term, node.leader, self._why_new(node))
        elif self._role is Role.LEADER and node.leader is None:
            self._note(node.term, None, self._why_ended(node))
        self._role = node.role

    def _count_election(self, node: RaftNode) -> None:
        if node.role in (Role.CANDIDATE, Role.LEADER) and node.term > self._elected_term:
            self._elected_term = node.term
            self.election_count += 1

    def _count_term(self, term: int) -> None:
        if 0 < self._term < term and not self._transfer_to:
            self._began_ms.append(self._clock.monotonic_ms())
        self._term = term

    def recent_term_count(self) -> int:
        """Return how many terms began in the last RECENT_MS because a leader was missed."""
        since_ms = self._clock.monotonic_ms() - RECENT_MS
        return sum(began_ms >= since_ms for began_ms in self._began_ms)

    def _silence_ms(self) -> int:
        return self._clock.monotonic_ms() - self._heard_ms

    def _why_new(self, node: RaftNode) -> str:
        leader = node.leader
        assert leader is not None
        if self._transfer_to == leader.node_id:
            return "the leader before handed over to it"
        if self._lost:
            return self._lost
        if self._leader is None:
            return "this node knew no leader before" if self._leader_term == 0 else "it won an election"
        if self._leader == leader:
            return f"it won an election again after term {self._leader_term}"
        return f"it won an election; {self._leader.node_id} was last heard here {self._silence_ms()} ms ago"

    def _why_ended(self, node: RaftNode) -> str:
        if node.term > self._leader_term:
            handed = f": it handed over to {self._transfer_to}" if self._transfer_to else ""
            return f"another node began term {node.term}{handed}"
        if node.replica not in node.membership.voters:
            return "this node was removed from the group's voters"
        return f"no majority of the voters answered it for {self._timeout_ms} ms"

    def _note(self, term: int, leader: Replica | None, why: str) -> None:
        before = f"{self._leader.node_id} led term {self._leader_term}" if self._leader else "no leader was known"
        is_planned = leader is not None and leader.node_id == self._transfer_to
        text = f"{leader.node_id} leads from term {term} on" if leader else "this node leads no longer"
        level = logging.INFO if is_planned or self._leader_term == 0 else logging.WARNING
        log.log(level, "Raft group %s: %s (before: %s): %s", self._group, text, before, why)
        self.change_count += 1
        self.last_change = Change(self._clock.now_ms(), term, leader.node_id if leader else "", why)
        self._leader, self._leader_term = leader, term
        self._heard_ms = self._clock.monotonic_ms()
        if leader is not None:
            self._lost = self._gone = self._transfer_to = ""
