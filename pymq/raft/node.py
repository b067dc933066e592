"""RaftNode: the one door to the rules. Messages and ticks go in; messages, state, role and confirm offset come out.

After each call :meth:`RaftNode.ready` has the effects. The node takes no time, files or sockets, and has no threads.
"""

from __future__ import annotations

import random

from pymq.errors import RaftRefusedError
from pymq.raft import election
from pymq.raft.core import ELECTION_TICKS, TERM_MAX, TERM_STEP_MAX, Core, ReadAnswer, Ready, Role
from pymq.raft.election import Ballot
from pymq.raft.follower import Following
from pymq.raft.founding import ANY_DISK, Founding
from pymq.raft.leader import Leader
from pymq.raft.log_view import LogView
from pymq.raft.messages import (
    AppendRequest,
    Found,
    FoundPromise,
    FoundRequest,
    Heartbeat,
    HeartbeatAnswer,
    Introduction,
    Message,
    PreVoteAnswer,
    PreVoteRequest,
    ReadIndexAnswer,
    ReadIndexRequest,
    Snapshot,
    SnapshotOffer,
    TimeoutNow,
    VoteAnswer,
    VoteRequest,
)
from pymq.raft.state import Membership, RaftState, Replica

LOST_TICKS = 3  # after a hint that the leader is gone, followers wait for 1 to so many ticks, drawn as time-outs are
_OF_A_LEADER = (AppendRequest, Heartbeat, SnapshotOffer)


class RaftNode:
    """A node of a Raft group. ``nodes`` are the ids of all configured nodes, the founder first.

    The log is in [``begin``, ``end``) at the start, all of it on the disk. Both are ends of whole records.
    """

    def __init__(
        self,
        state: RaftState,
        begin: int,
        end: int,
        nodes: tuple[str, ...],
        rng: random.Random,
        *,
        answers_before_sync: bool = True,
    ) -> None:
        """``answers_before_sync`` False: the driver calls :meth:`persisted` at once for all that was written."""
        log = LogView(state.epochs, state.memberships, begin, end)
        self._core = Core(state, log, answers_before_sync=answers_before_sync)
        self._rng = rng
        self._founding = Founding(self._core, nodes)
        self._following = Following(self._core)
        self._leader: Leader | None = None
        self._ballot = Ballot(state.replica)
        self._elapsed_ticks = self._timeout_ticks = 0
        self.role = Role.FOLLOWER
        self.may_lead = True  # False while its log takes no records: then it begins no election
        self._draw_timeout()

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def replica(self) -> Replica:
        return self._core.me

    @property
    def term(self) -> int:
        return self._core.term

    @property
    def leader(self) -> Replica | None:
        """The leader of this term; None when it is not known."""
        return self._core.me if self._leader else self._following.leader

    @property
    def confirm_offset(self) -> int:
        return self._core.confirm_offset

    @property
    def log(self) -> LogView:
        """What the node knows of its log. Callers only read it."""
        return self._core.log

    @property
    def membership(self) -> Membership:
        return self._core.log.membership

    @property
    def leadership(self) -> Leader | None:
        """What the leader knows of its members, for a status; None for others. Callers only read it."""
        return self._leader

    @property
    def lost_bytes(self) -> str:
        """What this disk has lost of what it had acknowledged; empty while it has all. Then the node takes part in
        nothing: its votes would count for messages that it does not have. It has to begin again as a new replica.
        """
        return self._core.lost

    def ready(self) -> Ready:
        """Return the effects of the last call, once. :class:`Ready` has the order."""
        return self._core.take_ready()

    # -- what happens to it -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Let one tick pass."""
        core = self._core
        if core.truncate_to is not None or core.lost:
            return
        self._founding.tick()
        if not core.is_founded:
            return
        if self._leader is not None:
            if not self._leader.tick():
                self._follow(None)
            return
        self._elapsed_ticks += 1
        if self._elapsed_ticks < self._timeout_ticks:
            return
        if core.term >= TERM_MAX:
            core.problems.append(f"term {core.term} is the last one: no leader can be elected; see pymq raft term")
        elif core.may_campaign and self.may_lead:
            self._ask_pre_votes()
        elif self.role is not Role.FOLLOWER:
            self._follow(None)  # it was removed in the middle of an election

    def lost(self, node_id: str) -> None:
        """Take a hint that no process is at this node any more. If it led this term, it counts as silent from now on.

        The hint may be wrong: it shortens a wait and nothing else. A pre-vote asks a majority as ever.
        """
        leader = self._following.leader
        if self._core.truncate_to is None and leader is not None and leader.node_id == node_id:
            self._elapsed_ticks = max(self._elapsed_ticks, ELECTION_TICKS)
            wait_ticks = self._elapsed_ticks + self._rng.randrange(1, LOST_TICKS + 1)
            self._timeout_ticks = min(self._timeout_ticks, wait_ticks)

    def step(self, message: Message) -> None:
        """Take a message of another node."""
        core = self._core
        if core.truncate_to is not None or core.lost or message.to.node_id != core.me.node_id:
            return
        if core.is_founded and message.term > core.term + TERM_STEP_MAX:
            core.problems.append(
                f"{message.sender.node_id} is in term {message.term}, this node in {core.term}: no group gets so "
                f"far by elections (limit {TERM_STEP_MAX} more); look at both with pymq raft term"
            )
            return
        if message.to.disk_id not in (core.me.disk_id, ANY_DISK):
            self._introduce(message.sender)
        elif isinstance(message, Introduction | FoundRequest | FoundPromise | Found):
            self._on_founding(message)
        elif not core.is_founded and not isinstance(message, SnapshotOffer):
            self._introduce(message.sender)
        elif isinstance(message, ReadIndexRequest | ReadIndexAnswer):
            self._on_read(message)
        elif self._enters_term_of(message):
            self._dispatch(message)
        self._leave_when_removed()

    def persisted(self, end: int, truncation_count: int) -> None:
        """The disk has the log below ``end``, as it was after this number of truncations (``log.truncation_count``)."""
        core = self._core
        if core.truncate_to is not None or truncation_count != core.log.truncation_count:
            return
        core.log.synced_end = max(core.log.synced_end, min(end, core.log.end))
        if self._leader is not None:
            self._leader.confirm()
            self._leave_when_removed()
        else:
            self._following.on_persisted()

    def truncated(self) -> None:
        """The log was truncated to ``Ready.truncate_to``, on the disk too."""
        core = self._core
        assert core.truncate_to is not None
        core.log.truncate(core.truncate_to)
        core.truncate_to = None

    def install(self, snapshot: Snapshot) -> bool:
        """Take a snapshot that the driver has fetched, in the place of the log.

        Returns False when it is of no use any more. Else the driver replaces log and tables and saves the state before
        anything else happens.
        """
        core = self._core
        if core.is_founded and (snapshot.last.end <= core.confirm_offset or core.log.has(snapshot.last)):
            return False
        core.log.replace(snapshot)
        core.confirm(snapshot.last.end)
        self._following = Following(core)
        return True

    def released(self, begin: int) -> None:
        """The store has deleted its log below ``begin``, which is confirmed."""
        assert begin <= self._core.confirm_offset
        self._core.log.release(begin)

    # -- what is asked of it ------------------------------------------------------------------------------------

    def propose(self, end: int, membership: Membership | None = None) -> None:
        """Add to the log a record, or several, of which the last ends at ``end``.

        A record with a membership is proposed, and the state saved, before it is written. Raises RaftRefusedError when
        this node is not the leader, hands over, or may not change the membership now; then nothing may be written.
        """
        leader = self._need_leader()
        why = leader.why_no_proposal(end, membership)
        if why:
            raise RaftRefusedError(f"node {self.replica.node_id} of term {self.term}: {why}")
        leader.propose(end, membership)

    def check_change(self, membership: Membership) -> None:
        """Raise RaftRefusedError when this membership can't be proposed now."""
        leader = self._need_leader()
        why = leader.why_no_proposal(self.log.end + 1, membership) or leader.why_too_few(membership)
        if why:
            raise RaftRefusedError(f"membership: {why}")

    def transfer(self, node_id: str) -> None:
        """Hand leadership over to a voter. Raises RaftRefusedError when this is no leader or that is no other voter."""
        leader = self._need_leader()
        target = self.membership.replica_of(node_id)
        if target is None or target == self.replica or target not in self.membership.voters:
            raise RaftRefusedError(f"node {node_id} is no other voter of the group; it could not become the leader")
        leader.transfer(target)

    def resign(self) -> None:
        """Lead no more, without a successor: the others elect one when they miss the leader."""
        if self._leader is not None:
            self._follow(None)

    def read_index(self, request_id: int) -> None:
        """Ask for the confirm offset that a current read must see; the answer comes in ``Ready.reads``, or is lost."""
        core, leader = self._core, self.leader
        if self._leader is not None:
            self._leader.read(request_id, core.me)
        elif leader is not None:
            core.outbox.append(ReadIndexRequest(core.me, leader, core.term, request_id))
        else:
            core.reads.append(ReadAnswer(request_id, None))

    # -- messages -----------------------------------------------------------------------------------------------

    def _introduce(self, to: Replica) -> None:
        core = self._core
        core.outbox.append(Introduction(core.me, to, core.term, core.log.last))

    def _on_founding(self, message: Message) -> None:
        match message:
            case FoundRequest():
                self._founding.on_request(message)
            case FoundPromise():
                self._founding.on_promise(message)
            case Found():
                self._founding.on_found(message)
            case Introduction() if self._leader is not None:
                self._leader.on_introduction(message)
            case Introduction() if self._core.is_founded:
                self._founding.on_introduction(message)

    def _on_read(self, message: ReadIndexRequest | ReadIndexAnswer) -> None:
        core = self._core
        if isinstance(message, ReadIndexAnswer):
            core.reads.append(ReadAnswer(message.request_id, message.confirm_offset))
        elif self._leader is not None:
            self._leader.read(message.request_id, message.sender)
        else:
            core.outbox.append(ReadIndexAnswer(core.me, message.sender, core.term, message.request_id, None))

    def _enters_term_of(self, message: Message) -> bool:
        """Compare terms (§5.1). Returns whether the message counts in this node's term."""
        core = self._core
        if isinstance(message, PreVoteRequest) or (isinstance(message, PreVoteAnswer) and message.is_granted):
            return True  # who asks or grants stays in its term
        if message.term > core.term:
            if isinstance(message, VoteRequest) and self._hears_leader() and not message.is_transfer:
                return False
            core.enter(message.term)
            self._follow(None)
        elif message.term < core.term:
            self._depose(message)
            return False
        return True

    def _depose(self, message: Message) -> None:
        """Answer an outdated leader or candidate with our term; outdated answers count for nothing."""
        core = self._core
        if isinstance(message, _OF_A_LEADER):
            core.outbox.append(HeartbeatAnswer(core.me, message.sender, core.term, 0, core.log.synced_end))
        elif isinstance(message, VoteRequest):
            core.outbox.append(VoteAnswer(core.me, message.sender, core.term, False))

    def _dispatch(self, message: Message) -> None:
        match message:
            case AppendRequest() | Heartbeat() | SnapshotOffer():
                self._on_leader(message)
            case PreVoteRequest():
                if election.answer_pre_vote(self._core, message, hears_leader=self._hears_leader()):
                    self._let_go_first(message)
            case PreVoteAnswer():
                if self.role is Role.PRE_CANDIDATE and message.asked_term == self.term:
                    self._count(message.sender, is_granted=message.is_granted)
            case VoteRequest():
                if election.answer_vote(self._core, message):
                    self._elapsed_ticks = 0
            case VoteAnswer():
                if self.role is Role.CANDIDATE:
                    self._count(message.sender, is_granted=message.is_granted)
            case TimeoutNow():
                may_lead = self._core.may_campaign and self.may_lead and self.term < TERM_MAX
                if message.sender == self._following.leader and may_lead:
                    self._ask_votes(is_transfer=True)
            case _ if self._leader is not None:
                self._leader.on_message(message)

    def _on_leader(self, message: Message) -> None:
        """Follow the leader of this term."""
        core = self._core
        if self._leader is not None or self._following.leader not in (None, message.sender):
            core.problems.append(
                f"{message.sender.node_id} says that it leads term {core.term} as well as {self.leader}"
            )
            return
        if self._following.leader is None:
            self._follow(message.sender)
        self._elapsed_ticks = 0
        match message:
            case AppendRequest():
                self._following.on_append(message)
            case Heartbeat():
                self._following.on_heartbeat(message)
            case SnapshotOffer():
                self._following.on_offer(message)

    # -- roles --------------------------------------------------------------------------------------------------

    def _hears_leader(self) -> bool:
        """Return True when there is a leader that need not be replaced (dissertation §4.2.3)."""
        if self._leader is not None:
            return True
        return self._following.leader is not None and self._elapsed_ticks < ELECTION_TICKS

    def _follow(self, leader: Replica | None) -> None:
        if self._leader is not None:
            self._leader.close()
            self._leader = None
        self.role = Role.FOLLOWER
        self._following = Following(self._core, leader)
        self._draw_timeout()

    def _draw_timeout(self) -> None:
        """Begin to wait again, for a time that other nodes hardly draw, too (§5.2)."""
        self._elapsed_ticks = 0
        self._timeout_ticks = self._rng.randrange(ELECTION_TICKS, 2 * ELECTION_TICKS)

    def _let_go_first(self, request: PreVoteRequest) -> None:
        """Leave who was granted a pre-vote the time to win: two candidates at once would split the votes."""
        core = self._core
        if self.role is Role.PRE_CANDIDATE and (request.last, request.sender) > (core.log.last, core.me):
            self._follow(None)
        self._timeout_ticks = max(self._timeout_ticks, self._elapsed_ticks + LOST_TICKS)

    def _ask_pre_votes(self) -> None:
        self._follow(None)
        self.role = Role.PRE_CANDIDATE
        self._ballot = election.ask_pre_votes(self._core)
        self._decide()

    def _ask_votes(self, *, is_transfer: bool = False) -> None:
        self._follow(None)
        self.role = Role.CANDIDATE
        self._ballot = election.ask_votes(self._core, is_transfer=is_transfer)
        self._decide()

    def _count(self, voter: Replica, *, is_granted: bool) -> None:
        self._ballot.count(voter, is_granted=is_granted)
        self._decide()

    def _decide(self) -> None:
        if self._ballot.is_lost(self.membership):
            self._follow(None)
        elif self._ballot.is_won(self.membership):
            if self.role is Role.PRE_CANDIDATE:
                self._ask_votes()
            else:
                self.role = Role.LEADER
                self._leader = Leader(self._core)

    def _leave_when_removed(self) -> None:
        if self._leader is not None and self._leader.is_removed:
            self._leader.beat()
            self._follow(None)

    def _need_leader(self) -> Leader:
        if self._leader is None:
            leader = self._following.leader.node_id if self._following.leader else "not known"
            raise RaftRefusedError(
                f"node {self.replica.node_id} is no leader in term {self.term}; the leader is {leader}"
            )
        return self._leader
