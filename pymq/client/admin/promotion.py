"""Carries out a promotion plan, by which one slave of a group becomes its master.

With a running master nothing is lost. The master refuses writes until the slave has everything, and steps down before
the slave is promoted, so two brokers never accept writes at the same time. A failure before the step-down leaves the
master as it was. If the slave says after it that it is still a slave, the old master becomes the master again. A slave
that does not answer may have been asked in time and become the master later: then the old master stays a slave.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from pymq.client.admin.promotion_plan import GroupMember, PromotionPlan
from pymq.clock import Clock
from pymq.errors import PymqError, RefusedError, RequestTimeoutError, UnreachableError
from pymq.model.route import MASTER_ID
from pymq.wire.bodies_replication import (
    FENCE,
    FENCE_MS_MAX,
    FOLLOWING,
    PROMOTE,
    RESUME,
    STEP_DOWN,
    ReplicationStatus,
    RoleAnswer,
    RoleRequest,
)

FENCE_MARGIN_MS = 10_000  # from the end of catching up until the master has stepped down
POLL_MS = 50
STEP_TIMEOUT_MS = 30_000  # closing and opening a store
REJOIN_TIMEOUT_MS = 15_000
LATE_STATUS_TIMEOUT_MS = 15_000


class RoleCalls(Protocol):
    """The calls to brokers (:class:`pymq.client.admin.replication.ReplicationAdmin`)."""

    async def status(self, address: str) -> ReplicationStatus: ...
    async def change_role(self, address: str, request: RoleRequest) -> RoleAnswer: ...


@dataclass(frozen=True, slots=True)
class PromotionResult:
    """``master``: the status of the new master; ``notes``: warnings about steps that did not finish."""

    master: ReplicationStatus
    notes: tuple[str, ...] = ()


class Promotion:
    """Carries out a plan. ``pause(seconds)`` waits between two checks; ``tell(text)`` receives progress messages.

    ``catch_up_timeout_ms``: the longest time for the slave to catch up, while the master refuses writes.
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
        """Promote the target and return the status of the new master.

        Raises UnsafeError as :meth:`PromotionPlan.check` does; UnreachableError, RefusedError or RequestTimeoutError
        when a step fails.
        """
        plan.check(force=force)
        if plan.master is None:
            master = await self._promote(plan, force=True)
            notes = [note for second_master in plan.second_masters for note in await self._rejoined(second_master)]
            return PromotionResult(master, tuple(notes))
        await self._hand_over(plan, plan.master)
        try:
            master = await self._promote(plan, force=False)
        except PymqError as error:
            master = await self._late_status(plan, plan.master, error)
            if master.broker_id != MASTER_ID:
                await self._take_back(plan.master, error)
                raise
        return PromotionResult(master, await self._rejoined(plan.master))

    async def _hand_over(self, plan: PromotionPlan, master: GroupMember) -> None:
        """Wait until the slave has everything, and make the running master step down."""
        calls, target = self._calls, plan.target
        self._tell(f"{master.address} refuses writes until {target.address} has everything")
        fence_ms = min(self._catch_up_timeout_ms + FENCE_MARGIN_MS, FENCE_MS_MAX)
        write_fence = RoleRequest(action=FENCE, epoch=master.epoch, fence_ms=fence_ms)
        fenced = await calls.change_role(master.address, write_fence)
        try:
            await self._caught_up(target.address, master.address, fenced.fence)
            self._tell(f"{master.address} steps down")
            await calls.change_role(
                master.address,
                RoleRequest(
                    action=STEP_DOWN,
                    epoch=master.epoch,
                    broker_id=target.broker_id,
                    master_address=target.address,
                ),
            )
        except PymqError:
            with suppress(PymqError):  # the write fence expires anyway
                await calls.change_role(master.address, RoleRequest(action=RESUME))
            raise
        await self._stepped_down(target.address, master.address)

    async def _caught_up(self, slave: str, master: str, fence: int) -> None:
        """Wait until the slave has the whole log, and the tables that the master read behind the write fence."""

        async def look() -> bool:
            theirs, ours = await self._answered(slave), await self._answered(master)
            if theirs is None or ours is None:
                return False
            ha_client = theirs.ha_client
            if ha_client is None or ha_client.state != FOLLOWING or theirs.log_end != ours.log_end:
                return False
            return 0 < fence == ha_client.metadata_fence

        problem = f"{slave} has not received everything from {master}: the master accepts writes again"
        await self._until(look, self._catch_up_timeout_ms, problem)

    async def _stepped_down(self, slave: str, master: str) -> None:
        """Wait until the slave has lost its master, and the old master reports that it is a slave.

        A master that does not answer is not enough: if it was killed before the change was on its disk, it comes back
        as the master, and slaves that don't know the new one would confirm its writes.
        """

        async def look() -> bool:
            of_slave = await self._answered(slave)
            if of_slave is None or (of_slave.ha_client is not None and of_slave.ha_client.state == FOLLOWING):
                return False
            status = await self._status(master)
            return status is not None and status.broker_id != MASTER_ID

        await self._until(look, STEP_TIMEOUT_MS, f"{master} has not stepped down: see its log and try again")

    async def _promote(self, plan: PromotionPlan, *, force: bool) -> ReplicationStatus:
        target, epoch = plan.target, plan.target.epoch
        self._tell(f"{target.address} becomes the master")
        request = RoleRequest(
            action=PROMOTE,
            epoch=epoch,
            master_role=plan.master.status.role if plan.master is not None and plan.master.status is not None else "",
            force=force,
        )
        await self._calls.change_role(target.address, request)
        found: list[ReplicationStatus] = []

        async def look() -> bool:
            status = await self._status(target.address)
            if status is not None and _is_promoted(status, epoch):
                found.append(status)
            return bool(found)

        await self._until(look, STEP_TIMEOUT_MS, f"{target.address} has not become the master: see its log")
        return found[0]

    async def _late_status(self, plan: PromotionPlan, master: GroupMember, error: PymqError) -> ReplicationStatus:
        """Return the status of the target, which is the master late, or a slave that will not become it any more."""
        target, found = plan.target, list[ReplicationStatus]()

        async def look() -> bool:
            status = await self._status(target.address)
            if status is not None and (status.broker_id != MASTER_ID or _is_promoted(status, target.epoch)):
                found.append(status)
            return bool(found)

        problem = (
            f"{error}; it does not answer and may still become the master, so {master.address} stays a slave: look "
            f"again, or promote {master.address} with --force if {target.address} is gone for good"
        )
        await self._until(look, LATE_STATUS_TIMEOUT_MS, problem)
        return found[0]

    async def _take_back(self, master: GroupMember, error: PymqError) -> None:
        self._tell(f"{master.address} becomes the master again: {error}")

        async def look() -> bool:
            status = await self._status(master.address)
            return status is not None and status.broker_id != MASTER_ID

        await self._until(look, STEP_TIMEOUT_MS, f"{master.address} has not stepped down: see its log")
        await self._calls.change_role(master.address, RoleRequest(action=PROMOTE, epoch=master.epoch))

    async def _rejoined(self, old_master: GroupMember) -> tuple[str, ...]:
        self._tell(f"{old_master.address} joins as a slave")

        async def look() -> bool:
            status = await self._status(old_master.address)
            return status is not None and status.ha_client is not None and status.ha_client.state == FOLLOWING

        try:
            await self._until(look, REJOIN_TIMEOUT_MS, f"{old_master.address} does not follow yet: see its status")
        except RequestTimeoutError as error:
            return (str(error),)
        return ()

    async def _status(self, address: str) -> ReplicationStatus | None:
        """Return None while the broker can't be reached, or refuses requests because it changes its role."""
        try:
            return await self._calls.status(address)
        except (UnreachableError, RefusedError):
            return None

    async def _answered(self, address: str) -> ReplicationStatus | None:
        """Return None for a broker that does not answer in time. Raises UnreachableError for one that is gone."""
        try:
            return await self._calls.status(address)
        except RequestTimeoutError:
            return None

    async def _until(self, look: Callable[[], Awaitable[bool]], timeout_ms: int, problem: str) -> None:
        until_ms = self._clock.monotonic_ms() + timeout_ms
        while not await look():
            if self._clock.monotonic_ms() >= until_ms:
                raise RequestTimeoutError(f"{problem} ({timeout_ms / 1000:g} s)")
            await self._pause(POLL_MS / 1000)


def _is_promoted(status: ReplicationStatus, epoch_before: int) -> bool:
    """Return whether it is a master. A former master has not finished its promotion until its epoch is newer."""
    return status.broker_id == MASTER_ID and status.epoch_history[-1].epoch > epoch_before
