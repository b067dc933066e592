"""The followers of a leader, for those who see them as a master's slaves."""

from __future__ import annotations

from pymq.broker.raft.members import GroupSettings, broker_id_of
from pymq.raft.core import ELECTION_TICKS
from pymq.raft.node import RaftNode
from pymq.wire.bodies_replication import SlaveState

IN_SYNC_LAG_BYTES_MAX = 1 << 20


def follower_states(node: RaftNode, settings: GroupSettings) -> list[SlaveState]:
    """Return the followers of a leader, as a master's slaves; none on other nodes."""
    if node.leadership is None:
        return []
    states = []
    for replica, progress in sorted(node.leadership.progress.items()):
        lag = max(0, node.log.end - progress.match_end)
        is_gone = progress.silent_ticks >= ELECTION_TICKS
        is_following = not is_gone and lag <= IN_SYNC_LAG_BYTES_MAX
        states.append(
            SlaveState(
                address=_address(settings, replica.node_id),
                broker_id=broker_id_of(replica.node_id),
                ack_offset=progress.match_end,
                sent_offset=progress.next_end,
                lag_bytes=lag,
                in_sync=is_following,
                state="gone" if is_gone else "following" if is_following else "catching-up",
            )
        )
    return states


def _address(settings: GroupSettings, node: str) -> str:
    return next((member.address for member in settings.members if member.node == node), "")
