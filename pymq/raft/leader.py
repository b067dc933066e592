"""Leader: one leadership (§5.3, §5.4.2): replication, confirming, check-quorum, transfer, changes of membership."""

from __future__ import annotations

from collections.abc import Callable

from pymq.raft.core import ELECTION_TICKS, HEARTBEAT_TICKS, Core
from pymq.raft.membership import count_heard, promoted, replaced, why_not, why_not_now
from pymq.raft.messages import (
    AppendAnswer,
    HeartbeatAnswer,
    Introduction,
    Message,
    Piece,
    SnapshotAnswer,
    TimeoutNow,
)
from pymq.raft.progress import Progress
from pymq.raft.reads import Reads
from pymq.raft.state import Membership, MembershipEntry, Replica

INTRODUCED_MAX = 64


class Leader:
    """What a node keeps while it is the leader of its term. ``own_start`` is where its epoch begins."""

    def __init__(self, core: Core) -> None:
        self._core = core
        core.log.begin_epoch(core.term)
        self.own_start = core.log.end
        self.progress: dict[Replica, Progress] = {}
        self.introduced: dict[str, Replica] = {}
        self.transfer_target: Replica | None = None
        self._transfer_ticks = 0
        self._reads = Reads(core)
        self._round_number = 0
        self._ticks = 0
        self._note_members()
        self.beat()

    @property
    def is_current(self) -> bool:
        """Return True once something of the own epoch is confirmed: then the confirm offset is the newest (§6.4)."""
        return self._core.confirm_offset > self.own_start

    @property
    def is_removed(self) -> bool:
        """Return True when a confirmed membership has this node as no voter: it leaves (dissertation §4.2.2)."""
        core = self._core
        return not core.is_voter and core.log.memberships[-1].end <= core.confirm_offset

    def beat(self) -> None:
        """Send heartbeats of a new round to all members, and again what nobody answered since the last one."""
        for progress in self.progress.values():
            progress.send_again()
        self._begin_round()

    def tick(self) -> bool:
        """Return False when no majority was heard within an election time-out (check-quorum, dissertation §6.2)."""
        core = self._core
        for progress in self.progress.values():
            progress.silent_ticks += 1
        if count_heard(core, self.progress, core.log.membership) < core.log.membership.majority_count:
            return False
        self._ticks += 1
        self._watch_transfer()
        if self._ticks % HEARTBEAT_TICKS == 0:
            self.beat()
        if not why_not_now(core, self.own_start) and self.transfer_target is None:
            core.membership = replaced(core, self.progress, self.introduced) or promoted(core, self.progress)
        return True

    def why_no_proposal(self, end: int, membership: Membership | None) -> str:
        """Return why the record that ends at ``end`` may not be written; empty when it may."""
        core = self._core
        if self.transfer_target is not None:
            return f"leadership is being handed over to {self.transfer_target.node_id}"
        if end <= core.log.end:
            return f"a record that ends at offset {end} does not continue the log, which ends at {core.log.end}"
        if membership is not None:
            return why_not_now(core, self.own_start) or why_not(core.log.membership, membership)
        return ""

    def why_too_few(self, membership: Membership) -> str:
        """Return why a group with this membership could confirm nothing now; empty when it could."""
        heard, needed = count_heard(self._core, self.progress, membership), membership.majority_count
        if heard >= needed:
            return ""
        return (
            f"{needed} of its {len(membership.voters)} voters would have to answer, {heard} do now: start the others, "
            "or replace their disks, and try again"
        )

    def propose(self, end: int, membership: Membership | None) -> None:
        """Add the leader's own bytes up to ``end``, and send them."""
        core = self._core
        entries = () if membership is None else (MembershipEntry(end, membership),)
        core.log.append([Piece(core.term, core.log.end, end)], entries)
        if membership is not None:
            self._note_members()
        for progress in self.progress.values():
            progress.send_new()

    def confirm(self) -> None:
        """Confirm what a majority's disks have, once the own epoch is in it. Bytes of older epochs are confirmed with
        it, never by their number of copies (§5.4.2, figure 8).
        """
        core, log = self._core, self._core.log
        end = self._majority_of(log.synced_end, lambda progress: progress.match_end)
        if end > self.own_start:
            core.confirm(end)

    def transfer(self, target: Replica) -> None:
        """Take no more records until the target has all, then have it begin an election (dissertation §3.10)."""
        self.transfer_target, self._transfer_ticks = target, 0
        self._hand_over(target)

    def read(self, request_id: int, asker: Replica) -> None:
        """Find out with a round of heartbeats whether this node is still the leader."""
        if self._reads.ask(request_id, asker, self._round_number + 1, is_current=self.is_current):
            self._begin_round_of_reads()

    def close(self) -> None:
        self._reads.refuse_all()

    def on_message(self, message: Message) -> None:
        """Take an answer of a member, in this term."""
        progress = self.progress.get(message.sender)
        if progress is None:
            return
        progress.silent_ticks = 0
        match message:
            case AppendAnswer():
                progress.on_answer(message)
                self.confirm()
                self._hand_over(message.sender)
            case HeartbeatAnswer() if message.round_number <= self._round_number:
                progress.acked_round = max(progress.acked_round, message.round_number)
                progress.synced_end = message.synced_end
                self._decide_reads()
            case SnapshotAnswer():
                progress.on_installed(message.match_end)
                self.confirm()

    def on_introduction(self, message: Introduction) -> None:
        """A replica knows no membership with itself. A member gets one with a snapshot, others are remembered."""
        core, sender = self._core, message.sender
        if sender in self.progress:
            self.progress[sender].needs_snapshot = True
            return
        if sender.node_id in self.introduced or len(self.introduced) < INTRODUCED_MAX:
            self.introduced[sender.node_id] = sender
        old = core.log.membership.replica_of(sender.node_id)
        if old is not None and (old == core.me or self.progress[old].silent_ticks < HEARTBEAT_TICKS):
            core.problems.append(
                f"node {sender.node_id} runs twice, on disks {old.disk_id} and {sender.disk_id}: the second is kept out"
            )

    def _note_members(self) -> None:
        core = self._core
        others = [replica for replica in core.log.membership.replicas if replica != core.me]
        self.progress = {other: self.progress.get(other) or Progress(core, other) for other in others}
        for other in others:
            self.introduced.pop(other.node_id, None)

    def _majority_of(self, own: int, value: Callable[[Progress], int]) -> int:
        """Return the greatest number that the values of a majority of voters reach."""
        core = self._core
        voters = core.log.membership.voters
        values = [own if voter == core.me else value(self.progress[voter]) for voter in voters]
        return sorted(values, reverse=True)[len(values) // 2]

    def _decide_reads(self) -> None:
        self._reads.on_round(self._majority_of(self._round_number, lambda progress: progress.acked_round))
        self._begin_round_of_reads()

    def _begin_round_of_reads(self) -> None:
        """Begin a round when reads wait for it and none for an earlier one: all that came meanwhile share it."""
        if self._reads.wait_for_more_than(self._round_number):
            self._begin_round()

    def _begin_round(self) -> None:
        self._round_number += 1
        for progress in self.progress.values():
            progress.beat(self._round_number)
        self._decide_reads()

    def _watch_transfer(self) -> None:
        """Give up a transfer that took an election time-out: the target may be dead."""
        if self.transfer_target is not None:
            self._transfer_ticks += 1
            if self._transfer_ticks >= ELECTION_TICKS:
                self.transfer_target = None

    def _hand_over(self, member: Replica) -> None:
        core = self._core
        if member == self.transfer_target and self.progress[member].match_end == core.log.end:
            core.outbox.append(TimeoutNow(core.me, member, core.term))
