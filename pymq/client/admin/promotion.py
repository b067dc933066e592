"""Promotion: one slave of a group becomes its master, by a plan that shows what would be lost.

The plan is made of what the members say (:func:`plan_promotion`, pure); :func:`promote` carries it out with two calls
(:class:`RoleCalls`). With a living master nothing is lost: it takes no writes until the slave has everything, and steps
down before the slave is promoted, so that at no moment two brokers take writes. Whatever fails before that leaves the
master as it was; if the slave fails behind it, the old master is made the master again. Of two masters of one epoch,
which were made out of sight of each other, the chosen one begins another reign, and the other steps down when it hears
of that: what it has behind the point up to which both logs are equal is cut there, and kept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from pymq.clock import Clock
from pymq.config.values import SYNC_MASTER
from pymq.errors import NotFoundError, PymqError, RefusedError, RequestTimeoutError, UnreachableError, UnsafeError
from pymq.model.route import MASTER_ID
from pymq.wire.bodies_replication import ReignBody, ReplicationStatus, RoleAnswer, RoleRequest

FREEZE_MARGIN_MS = 10_000  # for what comes behind the catching up, until the master has stepped down
FREEZE_MS_MAX = 60_000  # more is refused by brokers
POLL_MS = 50
STEP_TIMEOUT_MS = 30_000  # closing and opening a store
REJOIN_TIMEOUT_MS = 15_000
FOLLOWING = "following"


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One broker of the group. ``registered_id``: by the name servers, -1 unknown; ``status``: None when it does not
    answer, and ``error`` says why."""

    address: str
    registered_id: int = -1
    status: ReplicationStatus | None = None
    error: str = ""

    @property
    def broker_id(self) -> int:
        return self.status.broker_id if self.status is not None else self.registered_id

    @property
    def is_pymq(self) -> bool:
        return self.status is not None and self.status.protocol_version > 0

    @property
    def epoch(self) -> int:
        return self.status.lineage[-1].epoch if self.status is not None and self.status.lineage else 0


@dataclass(frozen=True, slots=True)
class PromotionPlan:
    """What is going to be done. ``target`` becomes the master, ``master`` is the living one that steps down (None:
    there is none; ``lost_master`` is where it was, empty when nobody knows). ``rivals``: masters of the epoch of the
    target, which is one too: they become its slaves.

    ``risks``: why messages could be lost, which only ``--force`` allows; ``obstacles``: why it can't be done at all.
    """

    broker_name: str
    members: tuple[GroupMember, ...]
    target: GroupMember
    master: GroupMember | None
    lost_master: str = ""
    rivals: tuple[GroupMember, ...] = field(default=())
    risks: tuple[str, ...] = field(default=())
    obstacles: tuple[str, ...] = field(default=())

    def lag_bytes(self, member: GroupMember) -> int | None:
        """How many bytes of the furthest log that is known the member lacks; None when it does not say."""
        return None if member.status is None else _furthest_end(self.members) - member.status.log_end

    def lag_messages(self, member: GroupMember) -> int | None:
        """How many messages of the member that has most it lacks."""
        if member.status is None or member.status.message_count < 0:
            return None
        most = max(other.status.message_count for other in self.members if other.status is not None)
        return most - member.status.message_count

    def check(self, *, force: bool) -> None:
        """Raises UnsafeError for what can't be done, or could lose messages and is not forced."""
        if self.obstacles:
            raise UnsafeError("; ".join(self.obstacles))
        if self.risks and not force:
            raise UnsafeError(f"{'; '.join(self.risks)}: --force does it all the same")


def plan_promotion(broker_name: str, members: Sequence[GroupMember], target_address: str = "") -> PromotionPlan:
    """The plan for the broker at ``target_address``, by default for the slave that has most.

    Raises NotFoundError when there is no slave to promote, UnreachableError when none answers.
    """
    masters = _newest_masters(members)
    if len(masters) > 1:
        return _choice(broker_name, members, masters, target_address)
    master = _living_master(members)
    target = _target(broker_name, members, master, target_address)
    lost = next((one.address for one in members if one.registered_id == MASTER_ID and one.status is None), "")
    if not lost and target.status is not None and target.status.link is not None:
        lost = target.status.link.master_address
    obstacles = [*_own_obstacles(target), *(_obstacles_with_master(target, master) if master is not None else [])]
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
    """Those of the newest epoch that a living master has: one, or several that were made out of sight of each other."""
    masters = [member for member in members if member.is_pymq and member.broker_id == MASTER_ID]
    newest = max((member.epoch for member in masters), default=0)
    return [member for member in masters if member.epoch == newest]


def _choice(
    broker_name: str, members: Sequence[GroupMember], masters: Sequence[GroupMember], target_address: str
) -> PromotionPlan:
    """The plan for a group with several masters of one epoch: one of them must be named."""
    target = next((master for master in masters if master.address == target_address), None)
    rivals = tuple(master for master in masters if master is not target)
    where = " and ".join(master.address for master in masters)
    which = f"{where} are both masters of epoch {masters[0].epoch}: choose one of them, by its address"
    return PromotionPlan(
        broker_name,
        tuple(members),
        target or masters[0],
        None,
        rivals=rivals,
        risks=tuple(_risk_of_rival(target, rival) for rival in rivals) if target is not None else (),
        obstacles=() if target is not None else (which,),
    )


def _risk_of_rival(target: GroupMember, rival: GroupMember) -> str:
    """What the rival has that the target lacks."""
    assert target.status is not None and rival.status is not None
    common = common_end(target.status, rival.status)
    who = f"{rival.address} is a master of epoch {rival.epoch} too"
    if common is None:
        return (
            f"{who}, and both logs have nothing in common: it can't follow {target.address} and must begin again with "
            "an empty directory"
        )
    size = rival.status.log_end - common
    return (
        f"{who}: both logs are equal up to offset {common} at most, what it has behind that ({size} bytes) is cut from "
        "its log and kept in its directory, in diverged/"
    )


def common_end(ours: ReplicationStatus, theirs: ReplicationStatus) -> int | None:
    """Up to where both logs are equal by their lineages: the lesser end of the newest reign that both have; None when
    they share none."""
    other_ends = _reign_ends(theirs)
    shared = [min(end, other_ends[reign]) for reign, end in _reign_ends(ours).items() if reign in other_ends]
    return shared[-1] if shared else None


def _reign_ends(status: ReplicationStatus) -> dict[ReignBody, int]:
    starts = [reign.start for reign in status.lineage[1:]]
    return dict(zip(status.lineage, [*starts, status.log_end], strict=True)) if status.lineage else {}


def _target(broker_name: str, members: Sequence[GroupMember], master: GroupMember | None, address: str) -> GroupMember:
    if address:
        target = next((member for member in members if member.address == address), None)
        if target is None:
            known = ", ".join(member.address for member in members) or "none"
            raise NotFoundError(f"{address} is none of {broker_name}'s brokers: they are {known}")
        if target.status is None:
            raise UnreachableError(f"{address} can't be promoted, it does not answer: {target.error}")
        return target
    slaves = [member for member in members if member.broker_id != MASTER_ID]
    living = [member for member in slaves if member.status is not None]
    if not slaves:
        raise NotFoundError(f"{broker_name} has no slave that is registered: there is nobody to promote")
    if not living:
        raise UnreachableError(f"no slave of {broker_name} answers: {slaves[0].error}")
    following = [member for member in living if master is not None and _follows(member)]
    return max(
        following or living,
        key=lambda member: (member.epoch, _end(member), not _is_end_in_doubt(member), -member.broker_id),
    )


def _own_obstacles(target: GroupMember) -> list[str]:
    if not target.is_pymq:
        return [f"{target.address} is no PyMQ broker: restart it with brokerId=0 and brokerRole=ASYNC_MASTER instead"]
    if target.broker_id == MASTER_ID:
        return [f"{target.address} is the master already"]
    return []


def _obstacles_with_master(target: GroupMember, master: GroupMember) -> list[str]:
    assert target.status is not None
    if target is master:
        return []
    if not master.is_pymq:
        return [f"the master at {master.address} is no PyMQ broker and can't be told to step down: stop it, then again"]
    if not _follows(target):
        link = target.status.link
        state = f"{link.state} {link.problem}".strip() if link is not None else "no link"
        return [
            f"{target.address} does not follow the living master at {master.address} ({state}): mend that, or stop the "
            "master first"
        ]
    return []


def _risks(members: Sequence[GroupMember], target: GroupMember, lost_master: str) -> list[str]:
    """Without a living master: what could be lost."""
    status = target.status
    assert status is not None
    risks = [] if _answers(members, lost_master) else [_risk_of_lost_master(members, status, lost_master)]
    if _is_end_in_doubt(target):
        risks.append(
            f"{target.address} was not stopped in order and has not had all of its master's log since: messages that "
            "it had confirmed may be missing at its log's end"
        )
    for other in members:
        if other is target or other.address == lost_master:
            continue
        if other.status is None:
            risks.append(f"{other.address} does not answer, it may have more")
        elif other.epoch > target.epoch:
            risks.append(f"{other.address} knows a newer reign (epoch {other.epoch}, not {target.epoch})")
        elif _end(other) > status.log_end:
            risks.append(f"{other.address} has {_end(other) - status.log_end} bytes more: promote that one")
    return risks


def _risk_of_lost_master(members: Sequence[GroupMember], target: ReplicationStatus, lost_master: str) -> str:
    where = f"the master {f'at {lost_master} ' if lost_master else ''}does not answer"
    known_end = max((one.status.link.master_log_end for one in members if one.status and one.status.link), default=-1)
    missing = known_end - target.log_end
    if missing > 0:
        return f"{where}, and it had {missing} bytes behind offset {target.log_end} that {target.address} lacks"
    what = "had not confirmed (it was a SYNC_MASTER)" if target.master_role == SYNC_MASTER else "had not sent"
    return f"{where}: what it took behind offset {target.log_end} and {what} is lost"


def _answers(members: Sequence[GroupMember], address: str) -> bool:
    """The former master is there, and has stepped down."""
    return any(member.address == address and member.status is not None for member in members)


def _follows(member: GroupMember) -> bool:
    return member.status is not None and member.status.link is not None and member.status.link.state == FOLLOWING


def _end(member: GroupMember) -> int:
    return member.status.log_end if member.status is not None else -1


def _is_end_in_doubt(member: GroupMember) -> bool:
    return member.status is not None and member.status.end_in_doubt


def _furthest_end(members: Sequence[GroupMember]) -> int:
    return max((_end(member) for member in members), default=-1)


class RoleCalls(Protocol):
    """What is asked of brokers (:class:`pymq.client.admin.replication.ReplicationAdmin`)."""

    async def status(self, address: str) -> ReplicationStatus: ...
    async def change_role(self, address: str, request: RoleRequest) -> RoleAnswer: ...


@dataclass(frozen=True, slots=True)
class PromotionResult:
    """``master``: what the new master says of itself; ``notes``: what did not end as it should."""

    master: ReplicationStatus
    notes: tuple[str, ...] = ()


class Promotion:
    """Carries a plan out. ``pause(seconds)`` waits between two looks; ``tell`` hears what is being done.

    ``catch_up_timeout_ms``: how long the slave may take for what it lacks, while the master takes no writes.
    """

    def __init__(
        self,
        calls: RoleCalls,
        clock: Clock,
        pause: Callable[[float], Awaitable[None]],
        *,
        catch_up_timeout_ms: int = 20_000,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._pause = pause
        self._catch_up_timeout_ms = catch_up_timeout_ms
        self._tell = tell

    async def run(self, plan: PromotionPlan, *, force: bool = False) -> PromotionResult:
        """The new master. Raises UnsafeError as :meth:`PromotionPlan.check`; UnreachableError, RefusedError or
        RequestTimeoutError when a step fails."""
        plan.check(force=force)
        if plan.master is None:
            master = await self._promote(plan, force=True)
            notes = [note for rival in plan.rivals for note in await self._rejoined(rival)]
            return PromotionResult(master, tuple(notes))
        await self._hand_over(plan, plan.master)
        try:
            master = await self._promote(plan, force=False)
        except PymqError as error:
            await self._take_back(plan.master, error)
            raise
        return PromotionResult(master, await self._rejoined(plan.master))

    async def _hand_over(self, plan: PromotionPlan, master: GroupMember) -> None:
        """The living master has stepped down, and the slave has everything."""
        calls, target = self._calls, plan.target
        self._tell(f"{master.address} takes no writes until {target.address} has everything")
        freeze_ms = min(self._catch_up_timeout_ms + FREEZE_MARGIN_MS, FREEZE_MS_MAX)
        freeze = RoleRequest(action="freeze", epoch=master.epoch, freeze_ms=freeze_ms)
        frozen_at_ms = self._clock.monotonic_ms()
        await calls.change_role(master.address, freeze)
        try:
            await self._caught_up(target.address, master.address, frozen_at_ms)
            self._tell(f"{master.address} steps down")
            await calls.change_role(
                master.address,
                RoleRequest(
                    action="step_down",
                    epoch=master.epoch,
                    broker_id=target.broker_id,
                    master_address=target.address,
                ),
            )
        except PymqError:
            with suppress(PymqError):  # the freeze ends by itself, too
                await calls.change_role(master.address, RoleRequest(action="resume"))
            raise
        await self._stepped_down(target.address, master.address)

    async def _caught_up(self, slave: str, master: str, frozen_at_ms: int) -> None:
        """The slave has the log and, since the freeze, copied the tables."""

        async def look() -> bool:
            theirs, ours = await self._calls.status(slave), await self._calls.status(master)
            link = theirs.link
            if link is None or link.state != FOLLOWING or theirs.log_end != ours.log_end:
                return False
            return 0 <= link.metadata_age_ms <= self._clock.monotonic_ms() - frozen_at_ms

        what = f"{slave} has not got everything from {master}"
        await self._until(look, self._catch_up_timeout_ms, f"{what}: the master goes on")

    async def _stepped_down(self, slave: str, master: str) -> None:
        """The slave has lost its master, which says itself that it is a slave now.

        One that says nothing is not enough: killed before the change was on its disk, it comes back as the master, and
        slaves that have not heard of the new one would confirm what it takes.
        """

        async def look() -> bool:
            link = (await self._calls.status(slave)).link
            if link is not None and link.state == FOLLOWING:
                return False
            status = await self._status(master)
            return status is not None and status.broker_id != MASTER_ID

        await self._until(look, STEP_TIMEOUT_MS, f"{master} has not stepped down: see its log, then again")

    async def _promote(self, plan: PromotionPlan, *, force: bool) -> ReplicationStatus:
        target, epoch = plan.target, plan.target.epoch
        self._tell(f"{target.address} becomes the master")
        request = RoleRequest(
            action="promote",
            epoch=epoch,
            master_role=plan.master.status.role if plan.master is not None and plan.master.status is not None else "",
            force=force,
        )
        await self._calls.change_role(target.address, request)
        found: list[ReplicationStatus] = []

        async def look() -> bool:
            status = await self._status(target.address)
            # Whoever becomes the master begins a reign; one that was a master before is not done until it has.
            if status is not None and status.broker_id == MASTER_ID and status.lineage[-1].epoch > epoch:
                found.append(status)
            return bool(found)

        await self._until(look, STEP_TIMEOUT_MS, f"{target.address} has not become the master: see its log")
        return found[0]

    async def _take_back(self, master: GroupMember, error: PymqError) -> None:
        self._tell(f"{master.address} becomes the master again: {error}")

        async def look() -> bool:
            status = await self._status(master.address)
            return status is not None and status.broker_id != MASTER_ID

        await self._until(look, STEP_TIMEOUT_MS, f"{master.address} has not stepped down: see its log")
        await self._calls.change_role(master.address, RoleRequest(action="promote", epoch=master.epoch))

    async def _rejoined(self, old_master: GroupMember) -> tuple[str, ...]:
        self._tell(f"{old_master.address} joins as a slave")

        async def look() -> bool:
            status = await self._status(old_master.address)
            return status is not None and status.link is not None and status.link.state == FOLLOWING

        try:
            await self._until(look, REJOIN_TIMEOUT_MS, f"{old_master.address} does not follow yet: see its status")
        except RequestTimeoutError as error:
            return (str(error),)
        return ()

    async def _status(self, address: str) -> ReplicationStatus | None:
        """None while the broker is away, or changes its role and answers nothing."""
        try:
            return await self._calls.status(address)
        except (UnreachableError, RefusedError):
            return None

    async def _until(self, look: Callable[[], Awaitable[bool]], timeout_ms: int, problem: str) -> None:
        until_ms = self._clock.monotonic_ms() + timeout_ms
        while not await look():
            if self._clock.monotonic_ms() >= until_ms:
                raise RequestTimeoutError(f"{problem} ({timeout_ms / 1000:g} s)")
            await self._pause(POLL_MS / 1000)
