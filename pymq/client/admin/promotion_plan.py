"""Plans a promotion from the statuses of the members: the slave that becomes master, the steps, the possible loss.

Pure functions. Two masters of one epoch (split brain) exist when each was promoted without contact to the other. The
chosen one begins a newer epoch; the other steps down when it learns of it, and its divergent tail (what it has behind
the point up to which both logs are equal) is truncated and kept in a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pymq.config.values import SYNC_MASTER
from pymq.errors import NotFoundError, UnreachableError, UnsafeError
from pymq.model.route import MASTER_ID
from pymq.wire.bodies_replication import FOLLOWING, EpochEntryBody, ReplicationStatus


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One broker of the group. ``registered_id``: its id at the name servers, -1 if unknown; ``status``: None when it
    does not answer, with the reason in ``error``. ``differs``: how its log's bytes differ from other slaves'."""

    address: str
    registered_id: int = -1
    status: ReplicationStatus | None = None
    error: str = ""
    differs: str = ""

    @property
    def log_problem(self) -> str:
        """Why its log is not the group's; empty when no fact speaks against it."""
        ha_client = self.status.ha_client if self.status is not None else None
        return (ha_client.other_log if ha_client is not None else "") or self.differs

    @property
    def broker_id(self) -> int:
        return self.status.broker_id if self.status is not None else self.registered_id

    @property
    def is_pymq(self) -> bool:
        return self.status is not None and self.status.protocol_version > 0

    @property
    def epoch(self) -> int:
        return self.status.epoch_history[-1].epoch if self.status is not None and self.status.epoch_history else 0


@dataclass(frozen=True, slots=True)
class PromotionPlan:
    """The roles and risks of a promotion. ``target`` becomes the master; ``master`` is the running one that steps down.
    If there is none it is None, and ``lost_master`` is its last known address, which may be empty. ``second_masters``:
    other masters of the target's epoch, if the target is a master too; they become its slaves.

    ``risks``: reasons why messages could be lost, which ``--force`` accepts; ``obstacles``: reasons that prevent it.
    """

    broker_name: str
    members: tuple[GroupMember, ...]
    target: GroupMember
    master: GroupMember | None
    lost_master: str = ""
    second_masters: tuple[GroupMember, ...] = field(default=())
    risks: tuple[str, ...] = field(default=())
    obstacles: tuple[str, ...] = field(default=())

    def lag_bytes(self, member: GroupMember) -> int | None:
        """Return the number of bytes the member lacks of the longest known log, None when its status is unknown."""
        if member.status is None:
            return None
        # Nothing of a log with other bytes counts as equal: where they begin to differ is not known.
        return max(_furthest_end(self.members) - (0 if member.log_problem else member.status.log_end), 0)

    def lag_messages(self, member: GroupMember) -> int | None:
        """Return how many messages fewer the member has than the one with most, None when it reports no number."""
        if member.status is None or member.status.message_count < 0:
            return None
        known = [other.status.message_count for other in _of_the_group(self.members) if other.status is not None]
        return max(known, default=0) - (0 if member.log_problem or not known else member.status.message_count)

    def check(self, *, force: bool) -> None:
        """Raise UnsafeError for obstacles, and for risks unless ``force``."""
        if self.obstacles:
            raise UnsafeError("; ".join(self.obstacles))
        if self.risks and not force:
            raise UnsafeError(f"{'; '.join(self.risks)}: --force does it all the same")


def plan_promotion(broker_name: str, members: Sequence[GroupMember], target_address: str = "") -> PromotionPlan:
    """Return the plan for the broker at ``target_address``, by default for the slave with the longest log.

    Raises NotFoundError when there is no slave to promote, UnreachableError when none answers.
    """
    masters = _newest_masters(members)
    if len(masters) > 1:
        return _choice(broker_name, members, masters, target_address)
    master = _living_master(members)
    target = _target(broker_name, members, master, target_address)
    lost = next((one.address for one in members if one.registered_id == MASTER_ID and one.status is None), "")
    if not lost and target.status is not None and target.status.ha_client is not None:
        lost = target.status.ha_client.master_address
    obstacles = [
        *_own_obstacles(target),
        *_obstacle_of_other_log(target, target_address),
        *(_obstacles_with_master(target, master) if master is not None else []),
    ]
    return PromotionPlan(
        broker_name,
        tuple(members),
        target,
        master,
        lost_master="" if master is not None else lost,
        risks=tuple(_risks(members, target, lost) if master is None else ()),
        obstacles=tuple(obstacles),
    )


def _living_master(members: Sequence[GroupMember]) -> GroupMember | None:
    masters = [member for member in members if member.status is not None and member.broker_id == MASTER_ID]
    return max(masters, key=lambda member: member.epoch, default=None)


def _newest_masters(members: Sequence[GroupMember]) -> list[GroupMember]:
    """Return the running masters of the newest epoch: one, or several after a split brain."""
    masters = [member for member in members if member.is_pymq and member.broker_id == MASTER_ID]
    newest = max((member.epoch for member in masters), default=0)
    return [member for member in masters if member.epoch == newest]


def _choice(
    broker_name: str, members: Sequence[GroupMember], masters: Sequence[GroupMember], target_address: str
) -> PromotionPlan:
    """Return the plan for a group with several masters of one epoch; the caller must name one of them."""
    target = next((master for master in masters if master.address == target_address), None)
    second_masters = tuple(master for master in masters if master is not target)
    where = " and ".join(master.address for master in masters)
    which = f"{where} are both masters of epoch {masters[0].epoch}: choose one of them by its address"
    return PromotionPlan(
        broker_name,
        tuple(members),
        target or masters[0],
        None,
        second_masters=second_masters,
        risks=tuple(_risk_of_second_master(target, second_master) for second_master in second_masters)
        if target is not None
        else (),
        obstacles=() if target is not None else (which,),
    )


def _risk_of_second_master(target: GroupMember, second_master: GroupMember) -> str:
    """Describe the part of the other master's log that the target lacks."""
    assert target.status is not None and second_master.status is not None
    common = common_end(target.status, second_master.status)
    problem = f"{second_master.address} is a master of epoch {second_master.epoch} too"
    if common is None:
        return (
            f"{problem}, and both logs have nothing in common: it can't follow {target.address} and must begin again "
            "with an empty directory"
        )
    size = second_master.status.log_end - common
    return (
        f"{problem}: both logs are equal up to offset {common} at most; what it has behind that ({size} bytes) is "
        "truncated from its log and kept in its directory, in divergent/"
    )


def common_end(ours: ReplicationStatus, theirs: ReplicationStatus) -> int | None:
    """Return the offset up to which both logs are equal: the lower end of the newest epoch in both histories.

    Returns None when the histories share no epoch.
    """
    other_ends = _epoch_ends(theirs)
    shared = [min(end, other_ends[entry]) for entry, end in _epoch_ends(ours).items() if entry in other_ends]
    return shared[-1] if shared else None


def _epoch_ends(status: ReplicationStatus) -> dict[EpochEntryBody, int]:
    starts = [entry.start for entry in status.epoch_history[1:]]
    return dict(zip(status.epoch_history, [*starts, status.log_end], strict=True)) if status.epoch_history else {}


def _target(broker_name: str, members: Sequence[GroupMember], master: GroupMember | None, address: str) -> GroupMember:
    if address:
        target = next((member for member in members if member.address == address), None)
        if target is None:
            known = ", ".join(member.address for member in members) or "none"
            raise NotFoundError(f"{address} is none of {broker_name}'s brokers: they are {known}")
        if target.status is None:
            raise UnreachableError(f"{address} can't be promoted because it does not answer: {target.error}")
        return target
    slaves = [member for member in members if member.broker_id != MASTER_ID]
    living = [member for member in slaves if member.status is not None]
    if not slaves:
        raise NotFoundError(f"no slave of {broker_name} is registered: start one that can be promoted")
    if not living:
        raise UnreachableError(f"no slave of {broker_name} answers: {slaves[0].error}")
    following = [member for member in living if master is not None and _follows(member)]
    return max(
        following or _of_the_group(living),
        key=lambda member: (member.epoch, _end(member), not _is_end_in_doubt(member), -member.broker_id),
    )


def _own_obstacles(target: GroupMember) -> list[str]:
    if not target.is_pymq:
        return [f"{target.address} is no PyMQ broker: restart it with brokerId=0 and brokerRole=ASYNC_MASTER instead"]
    if target.broker_id == MASTER_ID:
        return [f"{target.address} is the master already"]
    return []


def _obstacle_of_other_log(target: GroupMember, target_address: str) -> list[str]:
    if not target.log_problem or target_address:
        return []
    return [
        f"no slave is known to have the group's log; {target.address} has another one: {target.log_problem}: start the "
        "master or another slave, or name one by its address with --force"
    ]


def _obstacles_with_master(target: GroupMember, master: GroupMember) -> list[str]:
    assert target.status is not None
    if target is master:
        return []
    if not master.is_pymq:
        return [f"the master at {master.address} is no PyMQ broker and can't step down: stop it and try again"]
    if not _follows(target):
        ha_client = target.status.ha_client
        state = f"{ha_client.state} {ha_client.problem}".strip() if ha_client is not None else "no link"
        return [
            f"{target.address} does not follow the running master at {master.address} ({state}): repair that, or stop "
            "the master first"
        ]
    return []


def _risks(members: Sequence[GroupMember], target: GroupMember, lost_master: str) -> list[str]:
    """List what could be lost in a promotion without a running master."""
    status = target.status
    assert status is not None
    risks = [] if _answers(members, lost_master) else [_risk_of_lost_master(members, status, lost_master)]
    if _is_end_in_doubt(target):
        risks.append(
            f"{target.address} was not shut down cleanly and has not received all of its master's log since: messages "
            "that it had confirmed may be missing at the end of its log"
        )
    if target.log_problem:
        risks.append(
            f"the log of {target.address} is not the group's ({target.log_problem}): every message that it lacks is "
            "lost, and the other members can't follow it"
        )
    for other in members:
        if other is target or other.address == lost_master or other.log_problem:
            continue
        if other.status is None:
            risks.append(f"{other.address} does not answer, it may have more")
        elif other.epoch > target.epoch:
            risks.append(f"{other.address} knows a newer epoch ({other.epoch}, not {target.epoch})")
        elif _end(other) > status.log_end:
            risks.append(f"{other.address} has {_end(other) - status.log_end} bytes more: promote that one")
    return risks


def _risk_of_lost_master(members: Sequence[GroupMember], target: ReplicationStatus, lost_master: str) -> str:
    where = f"the master {f'at {lost_master} ' if lost_master else ''}does not answer"
    known_end = max(
        (one.status.ha_client.master_log_end for one in members if one.status and one.status.ha_client), default=-1
    )
    missing = known_end - target.log_end
    if missing > 0:
        return f"{where}, and it had {missing} bytes after offset {target.log_end} that {target.address} lacks"
    what = "had not confirmed (it was a SYNC_MASTER)" if target.master_role == SYNC_MASTER else "had not sent"
    return f"{where}: everything it stored after offset {target.log_end} and {what} is lost"


def _answers(members: Sequence[GroupMember], address: str) -> bool:
    """Return True when the former master answers; it has stepped down then."""
    return any(member.address == address and member.status is not None for member in members)


def _follows(member: GroupMember) -> bool:
    return (
        member.status is not None and member.status.ha_client is not None and member.status.ha_client.state == FOLLOWING
    )


def _end(member: GroupMember) -> int:
    return member.status.log_end if member.status is not None else -1


def _is_end_in_doubt(member: GroupMember) -> bool:
    return member.status is not None and member.status.end_in_doubt


def _furthest_end(members: Sequence[GroupMember]) -> int:
    return max((_end(member) for member in _of_the_group(members)), default=-1)


def _of_the_group(members: Sequence[GroupMember]) -> list[GroupMember]:
    """Return the members whose log may be the group's; all of them when there is none."""
    return [member for member in members if not member.log_problem] or list(members)
