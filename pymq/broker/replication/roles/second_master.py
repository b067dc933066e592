"""What a master does about the other members of its group: step down, refuse to start, or report a second master.

All functions are pure. The rules:

- A member with a newer epoch shows that another broker became the master since. This broker becomes a slave. At its
  start, with a directory that shares nothing with that history, it refuses to run instead: that is a mistake.
- Another master with the same epoch, or without one, can't be overruled. At its start this broker refuses to run. Later
  both continue and report it, until an operator chooses.
- A master with an older epoch finds this broker, and steps down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pymq.broker.replication.epoch_history import EpochHistory
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
    """

    step_down: Role | None = None
    why: str = ""
    second_master: str = ""
    second_master_address: str = ""
    warnings: tuple[str, ...] = field(default=())


def judge(us: Ourselves, members: Sequence[Member]) -> Findings:
    """Return what this master must do, given the other members of its group."""
    ours = [member for member in members if member.is_of(us.cluster, us.broker_name)]
    newest = max(ours, key=lambda member: (member.epoch, member.broker_id == MASTER_ID), default=None)
    if newest is not None and newest.epoch > us.epoch_history.epoch:
        return _beside_newer_epoch(us, newest, ours)
    masters = [member for member in ours if member.broker_id == MASTER_ID]
    living = next((member for member in masters if member.answered and not _is_older(member, us.epoch_history)), None)
    if living is not None:
        return _beside_equal_epoch(us, living, ours)
    return Findings(warnings=tuple(_warning(us, member) for member in masters))


def _beside_newer_epoch(us: Ourselves, newest: Member, ours: Sequence[Member]) -> Findings:
    is_master = newest.broker_id == MASTER_ID
    what = "is the master" if is_master else f"is slave {newest.broker_id} of an absent master"
    why = f"{newest.address} {what} with epoch {newest.epoch}, ours is {us.epoch_history.epoch}"
    if us.is_starting and not _shares_history(us.epoch_history, newest):
        return Findings(
            second_master=f"{us.address} can't be master (id 0) of {us.broker_name}: {why}; this directory shares "
            f"nothing with that history: start with --id {lowest_free_id(ours, us.flags_id)} to be a slave, give "
            "another --name, or rebuild the directory first (pymq store recover)",
            second_master_address=newest.address,
        )
    return Findings(step_down=Role(_free_id(newest, ours), master_address=_master_by(newest)), why=why)


def _beside_equal_epoch(us: Ourselves, living: Member, ours: Sequence[Member]) -> Findings:
    next_step = (
        f"start this one as its slave with --id {lowest_free_id(ours, us.flags_id)}"
        if us.is_starting
        else f"choose one, pymq broker promote {us.address} --force makes the other its slave"
    )
    return Findings(
        second_master=f"{us.address} and {living.address} are both masters (id 0) of {us.broker_name} in cluster "
        f"{us.cluster}, with epochs {us.epoch_history.epoch} and {living.epoch}: stop one of them, or {next_step}",
        second_master_address=living.address,
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
    so the newer one must not wait for it."""
    return member.answered and 0 < member.epoch < epoch_history.epoch


def _master_by(newest: Member) -> str:
    """Return the address of the newest master: ``newest`` itself, or the master of that slave."""
    if newest.broker_id == MASTER_ID:
        return newest.address
    ha_client = newest.status.ha_client if newest.status is not None else None
    return ha_client.master_address if ha_client is not None else ""


def _shares_history(epoch_history: EpochHistory, member: Member) -> bool:
    theirs = member.status.epoch_history if member.status is not None else []
    known = {(entry.epoch, entry.start, entry.epoch_id) for entry in theirs}
    return any((entry.epoch, entry.start, entry.epoch_id) in known for entry in epoch_history.entries)


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
