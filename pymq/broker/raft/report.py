"""What a node of a Raft group says about itself and its group: a part of the answer to request 9103."""

from __future__ import annotations

from typing import Protocol

from pymq.broker.raft.driver import tick_ms_of
from pymq.broker.raft.gate import MessageGate
from pymq.broker.raft.leader_watch import LeaderWatch
from pymq.broker.raft.members import GroupSettings, broker_id_of
from pymq.raft.core import ELECTION_TICKS
from pymq.raft.node import RaftNode
from pymq.raft.state import Kind, Membership, Replica
from pymq.wire.bodies_raft import LeaderChange, RaftGroupState, RaftMemberState


class OperatedGroup(Protocol):
    """The Raft group of a broker, as operators need it."""

    @property
    def settings(self) -> GroupSettings: ...

    @property
    def node(self) -> RaftNode: ...

    @property
    def gate(self) -> MessageGate: ...

    @property
    def watch(self) -> LeaderWatch: ...

    def problems(self) -> list[str]:
        """Return what an operator should know now: why the node waits, is held, or keeps others out."""
        ...

    def transfer(self, node_id: str) -> None:
        """Hand leadership over. Raises RaftRefusedError."""
        ...

    def change(self, membership: Membership) -> None:
        """Change the membership. Raises RaftRefusedError, and StoreError when the disk fails."""
        ...


def group_state(group: OperatedGroup) -> RaftGroupState:
    """Return the state of the node and what it knows of the others."""
    node, watch = group.node, group.watch
    leader, change = node.leader, watch.last_change
    leadership = node.leadership
    target = leadership.transfer_target if leadership is not None else None
    return RaftGroupState(
        node=node.replica.node_id,
        disk_id=node.replica.disk_id,
        role=node.role.value,
        term=node.term,
        leader=leader.node_id if leader is not None else "",
        is_founded=bool(node.log.memberships),
        log_end=node.log.end,
        synced_end=node.log.synced_end,
        confirm_offset=node.confirm_offset,
        members=[_member_state(group, node, *member) for member in node.membership.members],
        is_changing=bool(node.log.memberships) and node.log.memberships[-1].end > node.confirm_offset,
        transfer_target=target.node_id if target is not None else "",
        preferred=list(group.settings.preferred),
        candidates=sorted(leadership.introduced) if leadership is not None else [],
        election_count=watch.election_count,
        leader_change_count=watch.change_count,
        recent_term_count=watch.recent_term_count(),
        election_timeout_ms=group.settings.election_timeout_ms,
        last_change=LeaderChange(**change._asdict()) if change is not None else None,
        problems=group.problems(),
    )


def _member_state(group: OperatedGroup, node: RaftNode, replica: Replica, kind: Kind) -> RaftMemberState:
    configured = {member.node: member for member in group.settings.members}
    known = configured.get(replica.node_id)
    state = RaftMemberState(
        node=replica.node_id,
        disk_id=replica.disk_id,
        kind=kind.value,
        address=known.address if known is not None else "",
        broker_id=broker_id_of(replica.node_id),
    )
    leadership = node.leadership
    if leadership is None:
        return state
    if replica == node.replica:
        state.match_end, state.silent_ms, state.is_heard = node.log.synced_end, 0, True
    elif (progress := leadership.progress.get(replica)) is not None:
        state.match_end = progress.match_end
        state.silent_ms = progress.silent_ticks * tick_ms_of(group.settings)
        state.is_heard = progress.silent_ticks < ELECTION_TICKS
        state.needs_snapshot = progress.needs_snapshot
    state.lag_bytes = max(0, node.log.end - state.match_end)
    return state
