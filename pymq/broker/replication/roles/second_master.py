"""What a master does about the other members of its group: step down, refuse to start, or report a second master.

All functions are pure. A member's word counts only if its epoch history is plausible and has an entry in common with
ours (:func:`why_distrusted`): a broker of another group, even of the same name, demotes no master. The rules:

- A member with a newer epoch shows that another broker became the master since. This broker becomes a slave. At its
  start, with a directory that shares nothing with that history, it refuses to run instead: that is a mistake.
- Another master with the same epoch, of another history, or without one, can't be overruled. At its start this broker
  refuses to run. Later both continue and report it, until an operator chooses.
- A master with an older epoch finds this broker, and steps down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pymq.broker.replication.history.epoch_history import EpochHistory, shares_entry, why_implausible
from pymq.broker.replication.roles.group_probe import Member
from pymq.broker.replication.roles.role import Role
from pymq.config.values import BROKER_ID_MAX
from pymq.model.route import MASTER_ID


class Ourselves(NamedTuple):
    """The master that judges its group; ``address`` is "host:port". ``is_starting``: it does not serve yet.

    ``flags_id`` is the id in its flags or configuration; a restart with the same id starts in the recorded role.
    """

    cluster: str
    broker_name: str
    address: str
    epoch_history: EpochHistory
    is_starting: bool = False
    flags_id: int = MASTER_ID


@dataclass(frozen=True, slots=True)
class Findings:
    """The result; at most one of ``step_down`` and ``second_master`` is set.

    ``step_down`` is the slave that this broker must become, because of ``why``. ``second_master`` describes a master
    at ``second_master_address`` that can't be overruled, with the next step. ``warnings`` are for the operator.
    ``distrusted`` describes members whose word does not count, with the next step. ``unclear`` are members that may be
    the master or have a newer epoch, and do not say what they are (:mod:`.unclear_members`).
    """

    step_down: Role | None = None
    why: str = ""
    second_master: str = ""
    second_master_address: str = ""
    warnings: tuple[str, ...] = field(default=())
    distrusted: tuple[str, ...] = field(default=())
    unclear: tuple[Member, ...] = field(default=())


def judge(us: Ourselves, members: Sequence[Member]) -> Findings:
    """Return what this master must do, given the other members of its group."""
    ours = [member for member in members if member.is_of(us.cluster, us.broker_name)]
    newer = [member for member in ours if member.epoch > us.epoch_history.epoch]
    doubts = {member.address: why_distrusted(us.epoch_history, member) for member in ours}
    distrusted = tuple(
        _distrust(us, member, doubts[member.address])
        for member in newer
        if doubts[member.address] and not _blocks_start(us, member)
    )
    trusted = [member for member in newer if not doubts[member.address]]
    newest = max(trusted, key=lambda member: (member.epoch, member.broker_id == MASTER_ID), default=None)
    if newest is not None:
        step_down = Role(_free_id(newest, ours), master_address=_master_by(newest, ours))
        return Findings(step_down=step_down, why=_newer_epoch(us, newest), distrusted=distrusted)
    stranger = next((member for member in newer if _blocks_start(us, member)), None)
    if stranger is not None:
        return _start_beside_newer_epoch(us, stranger, ours)
    unclear = tuple(member for member in ours if _may_be_master(member))
    masters = [m for m in ours if m.broker_id == MASTER_ID and not m.doubt and not m.is_unclear]
    living = next((member for member in masters if member.answered and not _is_older(member, us.epoch_history)), None)
    if living is not None and not (us.is_starting and why_implausible(living.epoch_history, us.epoch_history.epoch)):
        return _beside_second_master(us, living, ours, distrusted)
    warnings = tuple(_warning(us, member) for member in masters if not doubts[member.address])
    if not us.is_starting:
        distrusted += tuple(_unclear(us, member) for member in unclear if not member.doubt)
    return Findings(warnings=warnings, distrusted=distrusted, unclear=unclear)


def why_distrusted(epoch_history: EpochHistory, member: Member) -> str:
    """Return why the epoch of ``member`` proves nothing to a broker with this history; empty when it counts."""
    theirs = member.epoch_history
    if member.doubt:
        return member.doubt
    if why := why_implausible(theirs, epoch_history.epoch):
        return why
    if theirs.entries and not shares_entry(epoch_history, theirs):
        return f"its epoch history ({theirs.epoch} epochs) has no entry in common with ours ({epoch_history.epoch})"
    return ""


def is_newer(epoch_history: EpochHistory, member: Member) -> bool:
    """Return True when ``member`` proves that another master came after the newest epoch of ``epoch_history``."""
    return member.epoch > epoch_history.epoch and not why_distrusted(epoch_history, member)


def _blocks_start(us: Ourselves, member: Member) -> bool:
    """Return True for a newer member of another history beside which this broker must not start as the master.

    A directory without epochs may be a new disk in the place of a former master's. One with epochs is a master's own:
    then only another master counts.
    """
    if not us.is_starting or member.doubt or why_implausible(member.epoch_history, us.epoch_history.epoch):
        return False
    is_new = not us.epoch_history.entries
    return (is_new or member.broker_id == MASTER_ID) and not shares_entry(us.epoch_history, member.epoch_history)


def _may_be_master(member: Member) -> bool:
    """Return True for a member that may be the master, or prove that another one is, once it answers as it should."""
    return member.is_unproven or (member.is_unclear and member.broker_id == MASTER_ID)


def _unclear(us: Ourselves, member: Member) -> str:
    return (
        f"{member.address} is registered as the master of {us.broker_name} and does not answer with its status: "
        "stop it, or give it another --name"
    )


def _newer_epoch(us: Ourselves, newest: Member) -> str:
    what = "is the master" if newest.broker_id == MASTER_ID else f"is slave {newest.broker_id} of an absent master"
    return f"{newest.address} {what} with epoch {newest.epoch}, ours is {us.epoch_history.epoch}"


def _start_beside_newer_epoch(us: Ourselves, newest: Member, ours: Sequence[Member]) -> Findings:
    return Findings(
        second_master=f"{us.address} can't be master (id 0) of {us.broker_name}: {_newer_epoch(us, newest)}; this "
        f"directory shares nothing with that history: start with --id {lowest_free_id(ours, us.flags_id)} to be a "
        "slave, give another --name, or rebuild the directory first (pymq store recover)",
        second_master_address=newest.address,
    )


def _distrust(us: Ourselves, member: Member, doubt: str) -> str:
    what = "master" if member.broker_id == MASTER_ID else f"slave {member.broker_id}"
    return (
        f"{member.address} says that it is {what} of {us.broker_name} with epoch {member.epoch}, which does not count: "
        f"{doubt}; give one of the two brokers another --name, or stop that one"
    )


def _beside_second_master(
    us: Ourselves, living: Member, ours: Sequence[Member], distrusted: tuple[str, ...]
) -> Findings:
    shares = not living.epoch_history.entries or shares_entry(us.epoch_history, living.epoch_history)
    if us.is_starting:
        next_step = f"start this one as its slave with --id {lowest_free_id(ours, us.flags_id)}"
    elif shares:
        next_step = f"choose one, pymq broker promote {us.address} --force makes the other its slave"
    else:
        next_step = "give one of them another --name: their epoch histories have no entry in common"
    return Findings(
        second_master=f"{us.address} and {living.address} are both masters (id 0) of {us.broker_name} in cluster "
        f"{us.cluster}, with epochs {us.epoch_history.epoch} and {living.epoch}: stop one of them, or {next_step}",
        second_master_address=living.address,
        distrusted=distrusted,
    )


def _warning(us: Ourselves, master: Member) -> str:
    if master.answered:
        return (
            f"{master.address} is a master of {us.broker_name}, too, with epoch {master.epoch}, ours is "
            f"{us.epoch_history.epoch}: it steps down when it finds us"
        )
    return (
        f"the name servers have {master.address} as master of {us.broker_name}, but it does not answer: it counts as "
        "dead"
    )


def _is_older(member: Member, epoch_history: EpochHistory) -> bool:
    """Return True for a master that has not yet found out that another one was promoted. It steps down when it does,
    so the newer one must not wait for it. One of another history never does."""
    is_before = member.answered and 0 < member.epoch < epoch_history.epoch
    return is_before and shares_entry(epoch_history, member.epoch_history)


def _master_by(newest: Member, members: Sequence[Member]) -> str:
    """Return the address of the newest master: ``newest`` itself, or the member that this slave names as its master.

    Empty when it names another broker: the name servers will tell.
    """
    if newest.broker_id == MASTER_ID:
        return newest.address
    ha_client = newest.status.ha_client if newest.status is not None else None
    named = ha_client.master_address if ha_client is not None else ""
    return named if any(member.address == named for member in members) else ""


def _free_id(newest: Member, members: Sequence[Member]) -> int:
    """Return the former id of the new master, or else the lowest free one."""
    taken = {member.broker_id for member in members}
    left = newest.status.former_id if newest.status is not None and newest.broker_id == MASTER_ID else -1
    if MASTER_ID < left <= BROKER_ID_MAX and left not in taken:
        return left
    return lowest_free_id(members)


def lowest_free_id(members: Sequence[Member], other_than: int = MASTER_ID) -> int:
    """Return the lowest slave id that no member has."""
    taken = {other_than, *(member.broker_id for member in members)}
    return next(number for number in range(1, len(taken) + 2) if number not in taken)
