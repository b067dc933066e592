"""What a node is, in words, and a leader's followers as a master's slaves."""

from __future__ import annotations

from collections.abc import Callable, Collection

from pymq.broker.raft.driver import RaftDriver
from pymq.broker.raft.members import GroupSettings, broker_id_of
from pymq.raft.core import ELECTION_TICKS
from pymq.raft.node import RaftNode
from pymq.wire.bodies_replication import SlaveState

IN_SYNC_LAG_BYTES_MAX = 1 << 20


def what_it_is(driver: RaftDriver | None, why_not_founded: str) -> str:
    """Return what a node is doing, for a sender whose message it does not take."""
    if driver is None:
        return "the broker starts"
    node = driver.node
    name, leadership = node.replica.node_id, node.leadership
    if driver.is_held:
        return driver.problem
    if not node.membership.replicas:
        return f"the Raft group is not founded ({why_not_founded})"
    if leadership is not None and leadership.transfer_target is not None:
        return f"leadership goes to {leadership.transfer_target.node_id}"
    if leadership is not None:
        return f"{name} becomes the leader of term {node.term}"
    leader = f"the leader is {node.leader.node_id}" if node.leader is not None else "no leader is known"
    return f"{name} is no leader in term {node.term}, {leader}"


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


def best_successor(node: RaftNode, preferred: Collection[str], is_gone: Callable[[str], bool]) -> str:
    """Return the voter that should lead after this node: preferred ones first, then the one with most of the log.

    Empty when this node leads no group, and when no other voter was heard lately.
    """
    if node.leadership is None:
        return ""
    heard = [
        (replica.node_id in preferred, progress.match_end, replica.node_id)
        for replica, progress in node.leadership.progress.items()
        if replica in node.membership.voters
        and progress.silent_ticks < ELECTION_TICKS // 2
        and not is_gone(replica.node_id)
    ]
    return max(heard)[2] if heard else ""


def _address(settings: GroupSettings, node: str) -> str:
    return next((member.address for member in settings.members if member.node == node), "")
