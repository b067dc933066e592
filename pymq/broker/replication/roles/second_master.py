"""What a master makes of the other brokers of its group: whether it steps down, may start, or has a second master. Pure.

Whoever knows of a newer epoch proves that another master was made since: this broker becomes a slave; but not at its
start with a directory that has nothing of that master's history, then it was not meant and the broker refuses to run.
Another master with the same epoch, or none, is nobody's to overrule: at the start this broker refuses to run, later
both go on and say so, until an operator chooses. One with an older epoch will find this broker, and step down.
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
    """The master that looks at its group, "host:port" at ``address``. ``is_starting``: it does not serve yet;
    ``flags_id``: which id its flags or file give: with the same one again it would start as the same again."""

    cluster: str
    broker_name: str
    address: str
    epoch_history: EpochHistory
    is_starting: bool = False
    flags_id: int = MASTER_ID


@dataclass(frozen=True, slots=True)
class Findings:
    """At most one of the first two is set.

    ``step_down``: it must become this slave, for ``why``; ``second_master``: another master that can't be overruled, a text
    with the next step, at ``second_master_address``; ``warnings``: for the operator.
    """

    step_down: Role | None = None
    why: str = ""
    second_master: str = ""
    second_master_address: str = ""
    warnings: tuple[str, ...] = field(default=())


def judge(us: Ourselves, members: Sequence[Member]) -> Findings:
    """What we must do, given the other members of our group."""
    ours = [member for member in members if member.is_of(us.cluster, us.broker_name)]
    newest = max(ours, key=lambda member: (member.epoch, member.broker_id == MASTER_ID), default=None)
    if newest is not None and newest.epoch > us.epoch_history.epoch:
        return _beside_a_newer_one(us, newest, ours)
    masters = [member for member in ours if member.broker_id == MASTER_ID]
    living = next((member for member in masters if member.answered and not _is_older(member, us.epoch_history)), None)
    if living is not None:
        return _beside_an_equal_one(us, living, ours)
    return Findings(warnings=tuple(_warning(us, member) for member in masters))


def _beside_a_newer_one(us: Ourselves, newest: Member, ours: Sequence[Member]) -> Findings:
    is_master = newest.broker_id == MASTER_ID
    what = "is the master" if is_master else f"is slave {newest.broker_id} of a master that is not there now"
    why = f"{newest.address} {what} with epoch {newest.epoch}, ours is {us.epoch_history.epoch}"
    if us.is_starting and not _shares_history(us.epoch_history, newest):
        return Findings(
            second_master=f"{us.address} can't be master (id 0) of {us.broker_name}: {why}; this directory has nothing of "
            f"that history: start with --id {lowest_free_id(ours, us.flags_id)} to be a slave, give another --name, "
            "or rebuild the directory first (pymq store recover)",
            second_master_address=newest.address,
        )
    return Findings(step_down=Role(_free_id(newest, ours), master_address=_master_by(newest)), why=why)


def _beside_an_equal_one(us: Ourselves, living: Member, ours: Sequence[Member]) -> Findings:
    next_step = (
        f"start this one as its slave with --id {lowest_free_id(ours, us.flags_id)}"
        if us.is_starting
        else f"choose one, pymq broker promote {us.address} --force makes the other its slave"
    )
    return Findings(
        second_master=f"{us.address} and {living.address} are both masters (id 0) of {us.broker_name} in cluster {us.cluster}, "
        f"with epochs {us.epoch_history.epoch} and {living.epoch}: stop one of them, or {next_step}",
        second_master_address=living.address,
    )


def _warning(us: Ourselves, master: Member) -> str:
    if master.answered:
        return (
            f"{master.address} is a master of {us.broker_name} too, of epoch {master.epoch}, ours is "
            f"{us.epoch_history.epoch}: it steps down when it hears of us"
        )
    return (
        f"the name servers have {master.address} as master of {us.broker_name}, which does not answer: it is taken for "
        "dead"
    )


def _is_older(member: Member, epoch_history: EpochHistory) -> bool:
    """It has not heard yet that another was made master since: it steps down when it does. If the newer one kept away
    until then, the older would go on."""
    return member.answered and 0 < member.epoch < epoch_history.epoch


def _master_by(newest: Member) -> str:
    """Where the newest master is: there, or as its slave says."""
    if newest.broker_id == MASTER_ID:
        return newest.address
    ha_client = newest.status.ha_client if newest.status is not None else None
    return ha_client.master_address if ha_client is not None else ""


def _shares_history(epoch_history: EpochHistory, member: Member) -> bool:
    theirs = member.status.epoch_history if member.status is not None else []
    known = {(entry.epoch, entry.start, entry.epoch_id) for entry in theirs}
    return any((entry.epoch, entry.start, entry.epoch_id) in known for entry in epoch_history.entries)


def _free_id(newest: Member, members: Sequence[Member]) -> int:
    """The id a new master left behind, else the lowest that nobody has."""
    taken = {member.broker_id for member in members}
    left = newest.status.former_id if newest.status is not None and newest.broker_id == MASTER_ID else -1
    if MASTER_ID < left <= BROKER_ID_MAX and left not in taken:
        return left
    return lowest_free_id(members)


def lowest_free_id(members: Sequence[Member], other_than: int = MASTER_ID) -> int:
    """Of a slave, that none of them has."""
    taken = {other_than, *(member.broker_id for member in members)}
    return next(number for number in range(1, len(taken) + 2) if number not in taken)
