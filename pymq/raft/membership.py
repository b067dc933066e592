"""Changes of membership: one voter at a time (dissertation §4.1), learners first (§4.2.1), replaced disks by both.

Two majorities of memberships that differ by one voter have a voter in common. So both can't elect or confirm apart. It
holds for neighbors only. So a change waits until the one before is confirmed, and until the leader has confirmed a byte
of its own epoch (correction of 2015: without it two leaders could each begin a change that the other one lacks).
"""

from __future__ import annotations

from collections.abc import Mapping

from pymq.raft.core import ELECTION_TICKS, Core
from pymq.raft.progress import Progress
from pymq.raft.state import Kind, Membership, Replica


def why_not(old: Membership, new: Membership) -> str:
    """Return why ``new`` may not follow ``old``; empty when it may."""
    nodes = [replica.node_id for replica in new.replicas]
    if len(set(nodes)) < len(nodes):
        return f"a node is in it twice: {', '.join(sorted(nodes))}"
    if not new.voters:
        return "it has no voter"
    changed = old.voters ^ new.voters
    if len(changed) > 1:
        return f"it changes {len(changed)} voters at once, one is allowed: {_names(changed)}"
    for replica in new.voters - old.voters:
        if old.kind_of(replica) is not Kind.LEARNER:
            return f"{replica.node_id} must be a learner before it votes"
    return ""


def why_not_now(core: Core, own_start: int) -> str:
    """Return why a leader whose own epoch begins at ``own_start`` may begin no change yet; empty when it may."""
    if core.confirm_offset <= own_start:
        return f"nothing of term {core.term} is confirmed yet"
    pending = core.log.memberships[-1].end
    if pending > core.confirm_offset:
        return f"the membership at offset {pending} is not confirmed, only {core.confirm_offset} is"
    return ""


def replaced(core: Core, progress: Mapping[Replica, Progress], introduced: Mapping[str, Replica]) -> Membership | None:
    """Return the membership with a node's new disk in the place of its old one, as a learner; None without a reason.

    The old one must be silent, and a majority of those who remain must answer: without it nothing could be confirmed.
    """
    membership = core.log.membership
    for replica in introduced.values():
        old = membership.replica_of(replica.node_id)
        if old is None or old in (replica, core.me) or progress[old].silent_ticks < ELECTION_TICKS:
            continue
        kind = Kind.OBSERVER if membership.kind_of(old) is Kind.OBSERVER else Kind.LEARNER
        wanted = membership.with_member(replica, kind)
        if wanted.voters and count_heard(core, progress, wanted) >= wanted.majority_count:
            return wanted
    return None


def promoted(core: Core, progress: Mapping[Replica, Progress]) -> Membership | None:
    """Return the membership with a learner as a voter that has all that is confirmed; None without one."""
    for replica, kind in core.log.membership.members:
        if kind is Kind.LEARNER and replica != core.me:
            its = progress[replica]
            if its.silent_ticks < ELECTION_TICKS and its.match_end >= core.confirm_offset:
                return core.log.membership.with_member(replica, Kind.VOTER)
    return None


def count_heard(core: Core, progress: Mapping[Replica, Progress], membership: Membership) -> int:
    """Return how many of the voters this leader has heard of within an election time-out; it hears itself."""
    return sum(
        voter == core.me or (voter in progress and progress[voter].silent_ticks < ELECTION_TICKS)
        for voter in membership.voters
    )


def _names(replicas: frozenset[Replica]) -> str:
    return ", ".join(sorted(f"{replica.node_id} ({replica.disk_id})" for replica in replicas))
