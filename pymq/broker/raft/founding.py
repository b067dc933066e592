"""Founding: what a node is at its start, and when the nodes of a group may found it. Decisions without I/O.

The core founds a group when all nodes promise and all logs end at one position. A position is numbers alone, and the
logs of a plain group may have one number for the bytes of two masters. So the decisions here come first: a node takes
part in the founding only when the logs are equal by the ids of their epochs and by their bytes, up to the master's end.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from pymq.broker.raft.members import GroupSettings
from pymq.broker.replication.history.epoch_history import EpochHistory, common_point, why_implausible
from pymq.raft.state import Epoch, RaftState

# So close to the master's end must all slaves be before it stops taking writes: they need an instant for the rest.
FENCE_LAG_BYTES_MAX = 1 << 20
_START_EMPTY = "move its directory away and start it with an empty one"


class Start(Enum):
    """What a node is at its start."""

    MEMBER = "member"  # its group knows this replica
    JOINS = "joins"  # its group knows another replica of it, or none: it becomes a learner, and votes for nobody yet
    UNFOUNDED = "unfounded"  # it knows no group


def start_of(state: RaftState) -> Start:
    """Return what the node with this state is."""
    if not state.is_founded:
        return Start.UNFOUNDED
    return Start.MEMBER if state.replica in state.memberships[-1].membership.replicas else Start.JOINS


class LastStop(NamedTuple):
    """How the last run of a node ended.

    ``was_synced``: it acknowledged only what its disk had (SYNC_FLUSH). ``is_same_boot``: the machine has run since.
    ``has_lost``: a start since then found that the disk had lost what it had called synced.
    """

    was_clean: bool
    was_synced: bool
    is_same_boot: bool
    has_lost: bool = False


def why_lost(stop: LastStop) -> str:
    """Return why the log may lack bytes that the node has acknowledged; empty when it has all of them.

    A kill loses nothing: what was written is in the machine's memory, from where the next start reads it.
    """
    if stop.has_lost:
        return "its disk has lost a part of the log that it had called synced"
    if stop.was_clean or stop.is_same_boot or stop.was_synced:
        return ""
    return (
        "the machine stopped without an orderly stop of the broker, and with flushDiskType=ASYNC_FLUSH the disk may "
        "lack messages that it had acknowledged"
    )


def epochs_of(history: EpochHistory) -> tuple[Epoch, ...]:
    """Return a plain group's epochs as those of a Raft group: restarts of one master have one number, and one epoch."""
    epochs: list[Epoch] = []
    for entry in history.entries:
        if not epochs or entry.epoch > epochs[-1].number:
            epochs.append(Epoch(entry.epoch, entry.start))
    return tuple(epochs)


# -- founding ----------------------------------------------------------------------------------------------------------


class NodeReport(NamedTuple):
    """What a node of ``dLegerPeers`` says about itself.

    ``peers_text`` is its ``dLegerPeers`` as :attr:`GroupSettings.peers_text` writes it. ``founding_id`` is its group's
    in hex, empty for a node in no group. ``tail_digest`` is that of its log's last bytes, equally many on every node.
    ``is_master``: it is, or was at its last stop, the master of the plain group. ``is_fenced``: as that it takes no
    writes. ``is_plain``: it serves as a broker of the plain group until the founding. ``fence`` is the number of such a
    master's present write fence, 0 for none; ``has_tables_of`` that of the fence whose tables a plain slave has.
    """

    cluster: str
    group: str
    peers_text: str
    segment_size_bytes: int
    founding_id: str = ""
    log_start: int = 0
    log_end: int = 0
    history: EpochHistory = EpochHistory()
    tail_digest: str = ""
    is_master: bool = False
    is_fenced: bool = False
    is_plain: bool = False
    fence: int = 0
    has_tables_of: int = 0

    @property
    def is_plain_master(self) -> bool:
        """True for a node that may acknowledge messages without the group."""
        return self.is_master and self.is_plain

    @property
    def is_empty(self) -> bool:
        """True for a log without bytes."""
        return self.log_start == self.log_end


class Verdict(Enum):
    """What a node does next."""

    FOUND = "found"  # all is ready: the core may ask for, and give, promises
    FENCE = "fence"  # this node is the master and sets its write fence; the slaves are close to its end
    WAIT = "wait"  # it will be ready without an operator; a node with a log follows its master meanwhile
    JOIN = "join"  # the group is founded: this node becomes a learner
    REFUSE = "refuse"  # an operator has to change something


class Decision(NamedTuple):
    """``why`` says what is missing, with the next step. ``truncate_to`` (JOIN) is where this node's log must end before
    it joins: its own end when all of it is the group's.
    """

    verdict: Verdict
    why: str = ""
    truncate_to: int = 0


def decide(group: GroupSettings, reports: Mapping[str, NodeReport], *, outside_master: str = "") -> Decision:
    """Return what the node ``group.self_id`` does.

    ``reports``: node id -> what that node says, with this node's own report. A node that did not answer has none.
    ``outside_master`` is the address of a master of this name that is no member; empty for none.
    """
    return (
        _disagreement(group, reports)
        or _founded(group, reports)
        or _missing(group, reports)
        or _plain(group, reports, outside_master)
    )


def _disagreement(group: GroupSettings, reports: Mapping[str, NodeReport]) -> Decision | None:
    own = reports[group.self_id]
    for node, report in sorted(reports.items()):
        for what, theirs, ours in (
            ("brokerClusterName", report.cluster, own.cluster),
            ("dLegerGroup", report.group, own.group),
            ("dLegerPeers", report.peers_text, own.peers_text),
            ("mappedFileSizeCommitLog", report.segment_size_bytes, own.segment_size_bytes),
        ):
            if theirs != ours:
                return _refuse(f"{what} is {theirs} on {node} and {ours} on {group.self_id}: make them equal")
    return None


def _founded(group: GroupSettings, reports: Mapping[str, NodeReport]) -> Decision | None:
    members = {node: report for node, report in sorted(reports.items()) if report.founding_id}
    groups = {report.founding_id for report in members.values()}
    if not members:
        return None
    if len(groups) > 1:
        which = ", ".join(f"{node} in {report.founding_id[:16]}" for node, report in members.items())
        return _refuse(
            f"the nodes are in different groups of one name ({which}): keep one; for the others, {_START_EMPTY}"
        )
    return _join(reports[group.self_id], *next(iter(members.items())))


def _join(own: NodeReport, node: str, member: NodeReport) -> Decision:
    """Let a node join with what its log has in common with the group's, by the ids of the epochs."""
    if own.is_empty or own.founding_id:
        return Decision(Verdict.JOIN, truncate_to=own.log_end)
    common = common_point(member.history, member.log_end, own.history, own.log_end)
    if not common.is_known or common.offset < max(own.log_start, member.log_start):
        return _refuse(
            f"the group is founded, and this node's log ({own.log_start} to {own.log_end}) has no epoch in common with "
            f"that of {node} ({member.log_start} to {member.log_end}): {_START_EMPTY}"
        )
    return Decision(Verdict.JOIN, truncate_to=common.offset)


def _missing(group: GroupSettings, reports: Mapping[str, NodeReport]) -> Decision | None:
    missing = [member for member in group.members if member.node not in reports]
    if not missing:
        return None
    where = ", ".join(f"{member.node} at {member.address}" for member in missing)
    return _wait(
        f"no answer from {where}: a group is founded once, with all its nodes, as one that is away may have been in "
        "it; start it, or correct dLegerPeers on every node"
    )


def _plain(group: GroupSettings, reports: Mapping[str, NodeReport], outside_master: str) -> Decision:
    """Decide when all nodes have answered and none is in a group."""
    if outside_master:
        return _refuse(
            f"the broker at {outside_master} is the master of {group.name} and not in dLegerPeers: promote one of "
            f"{', '.join(sorted(reports))}, or add it"
        )
    with_logs = {node: report for node, report in sorted(reports.items()) if not report.is_empty}
    masters = [node for node, report in (with_logs or reports).items() if report.is_master]
    if not with_logs:
        return _last_steps(group, reports, masters[0]) if len(masters) == 1 else Decision(Verdict.FOUND)
    if len(masters) != 1:
        who = " and ".join(masters) or "none"
        return _refuse(
            f"{who} of the nodes with a log ({', '.join(with_logs)}) was the master of {group.name}, it must be one: "
            "start them without enableDLegerCommitLog and promote the right one (pymq broker promote)"
        )
    master = masters[0]
    others = [
        _slave(node, report, master, reports[master]) for node, report in sorted(reports.items()) if node != master
    ]
    return _worst([other for other in others if other is not None]) or _last_steps(group, reports, master)


def _slave(node: str, slave: NodeReport, master_id: str, master: NodeReport) -> Decision | None:
    """Return why this node's log is not one to found the group with; None when it is, but for the last bytes."""
    if slave.is_empty:
        return _wait(f"{node} has no log yet: it copies the one of {master_id} first (haFullSync=true)")
    if why := why_implausible(slave.history, master.history.epoch):
        return _refuse(f"the epoch history of {node} can't be true: {why}: {_START_EMPTY}")
    if slave.history.epoch > master.history.epoch:
        return _refuse(
            f"{node} has followed a master of epoch {slave.history.epoch}, {master_id} is one of epoch "
            f"{master.history.epoch}: its log may lack acknowledged messages; promote {node} (pymq broker promote)"
        )
    common = common_point(master.history, master.log_end, slave.history, slave.log_end)
    if slave.history.entries and not common.is_known:
        return _refuse(f"the log of {node} shares no epoch with the one of {master_id}: {_START_EMPTY}")
    if common.offset < slave.log_end:
        return _wait(
            f"the log of {node} ends at {slave.log_end} and equals the one of {master_id} up to {common.offset}: it "
            "truncates the rest when it follows; see pymq broker status"
        )
    if slave.log_start > master.log_start:
        return _wait(
            f"the log of {node} begins at {slave.log_start}, the one of {master_id} at {master.log_start}: it lacks "
            f"messages; {_START_EMPTY} and haFullSync=true, or wait until {master_id} has deleted them as well"
        )
    if master.log_end - slave.log_end > FENCE_LAG_BYTES_MAX:
        return _behind(node, slave, master_id, master)
    return None


def _behind(node: str, slave: NodeReport, master_id: str, master: NodeReport) -> Decision:
    return _wait(f"{node} lacks {master.log_end - slave.log_end} bytes of the log of {master_id}: it catches up")


def _last_steps(group: GroupSettings, reports: Mapping[str, NodeReport], master_id: str) -> Decision:
    """Decide when every slave has the master's log but for an instant's bytes."""
    master = reports[master_id]
    if not master.is_fenced:
        if group.self_id == master_id:
            return Decision(Verdict.FENCE, "all slaves are close to the log's end")
        return _wait(f"{master_id} still takes writes: it stops for an instant when all slaves are close")
    for node, report in sorted(reports.items()):
        if report.log_end < master.log_end:
            return _behind(node, report, master_id, master)
        if report.tail_digest != master.tail_digest:
            return _refuse(
                f"the bytes before offset {master.log_end} differ: digest {report.tail_digest} on {node}, "
                f"{master.tail_digest} on {master_id}: {_START_EMPTY} on {node}"
            )
        if master.fence and report.is_plain and node != master_id and report.has_tables_of != master.fence:
            return _wait(f"{node} copies topics, groups and offsets of {master_id}")
    return Decision(Verdict.FOUND)


def _worst(decisions: list[Decision]) -> Decision | None:
    """Return what needs an operator first."""
    return next((each for each in decisions if each.verdict is Verdict.REFUSE), decisions[0] if decisions else None)


def _wait(why: str) -> Decision:
    return Decision(Verdict.WAIT, why)


def _refuse(why: str) -> Decision:
    return Decision(Verdict.REFUSE, why)
