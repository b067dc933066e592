"""Following: a follower's side of replication (§5.3): it takes a leader's bytes where its log is equal before them."""

from __future__ import annotations

from pymq.raft.core import Core
from pymq.raft.messages import (
    AppendAnswer,
    AppendRequest,
    Heartbeat,
    HeartbeatAnswer,
    Piece,
    SnapshotAnswer,
    SnapshotOffer,
)
from pymq.raft.state import Position, Replica


class Following:
    """One term's leader, and how far the log is known to be equal to its log.

    What the log has beyond ``matched_end`` may be a divergent tail: it is neither confirmed nor acknowledged.
    """

    def __init__(self, core: Core, leader: Replica | None = None) -> None:
        self._core = core
        self.leader = leader
        self.matched_end = 0
        self._acked_end = 0

    def on_append(self, request: AppendRequest) -> None:
        """Take the request's bytes, refuse it, or ask for a truncation; the leader sends it again after that."""
        core, log = self._core, self._core.log
        if not log.has(request.previous):
            hint = log.newest_below(request.previous)
            core.outbox.append(AppendAnswer(core.me, request.sender, core.term, False, 0, request.previous.end, hint))
            return
        conflict = log.conflict(request.pieces)
        if conflict is not None:
            self._truncate(conflict, request)
            return
        core.pieces += (Piece(p.epoch, max(p.begin, log.end), p.end) for p in request.pieces if p.end > log.end)
        log.append(request.pieces, request.memberships)
        self.matched_end = max(self.matched_end, request.end)
        core.confirm(min(request.confirm_offset, self.matched_end))
        if core.answers_before_sync or core.log.synced_end >= self.matched_end:
            self._acknowledge(request.previous.end)

    def on_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Confirm what the leader knows to be equal on this disk: it was acknowledged in this term."""
        core = self._core
        if heartbeat.confirm_offset > core.log.synced_end:
            core.lost = (
                f"{heartbeat.sender.node_id} confirms offset {heartbeat.confirm_offset}, which this disk acknowledged; "
                f"it has {core.log.synced_end} now, so it lost bytes: the node begins again with a new disk id"
            )
            core.problems.append(core.lost)
            return
        self.matched_end = max(self.matched_end, heartbeat.confirm_offset)
        core.confirm(heartbeat.confirm_offset)
        answer = HeartbeatAnswer(core.me, heartbeat.sender, core.term, heartbeat.round_number, core.log.synced_end)
        core.outbox.append(answer)

    def on_offer(self, offer: SnapshotOffer) -> None:
        """Ask for the snapshot's content, unless the log has it already, or the leader's log continues this one."""
        core, snapshot = self._core, offer.snapshot
        if core.is_founded and snapshot.memberships[:1] != core.log.memberships[:1]:
            core.problems.append(f"{offer.sender.node_id} offers the log of another group: this node keeps its own")
            return
        if not core.is_founded and core.log.has(snapshot.last):
            core.log.memberships = snapshot.memberships
        if core.is_founded and (snapshot.last.end <= core.confirm_offset or core.log.has(snapshot.last)):
            self.matched_end = max(self.matched_end, snapshot.last.end)
            core.confirm(snapshot.last.end)
            end = min(snapshot.last.end, core.log.synced_end)
            core.outbox.append(SnapshotAnswer(core.me, offer.sender, core.term, end))
        elif core.is_founded and (end := min(core.confirm_offset, core.log.synced_end)) >= snapshot.begin:
            # What is confirmed is in every leader's log, and this one has all that follows it.
            self.matched_end = max(self.matched_end, end)
            core.outbox.append(SnapshotAnswer(core.me, offer.sender, core.term, end))
        else:
            core.snapshot = snapshot

    def on_persisted(self) -> None:
        """Acknowledge what the disk has now."""
        if self.leader is not None and min(self.matched_end, self._core.log.synced_end) > self._acked_end:
            self._acknowledge(self.matched_end)

    def _acknowledge(self, previous_end: int) -> None:
        core = self._core
        assert self.leader is not None
        self._acked_end = min(self.matched_end, core.log.synced_end)
        answer = AppendAnswer(core.me, self.leader, core.term, True, self._acked_end, previous_end, Position(0, 0))
        core.outbox.append(answer)

    def _truncate(self, conflict: int, request: AppendRequest) -> None:
        core = self._core
        if conflict < core.confirm_offset:
            core.problems.append(
                f"{request.sender.node_id} of term {request.term} has other bytes from offset {conflict} on, and "
                f"{core.confirm_offset} is confirmed here: nothing is truncated; one of both disks is not what it was"
            )
            return
        core.truncate_to = conflict
