"""Promotion: its steps, their order, and the state after a failed step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy

import pytest

from pymq.client.admin.promotion import LATE_STATUS_TIMEOUT_MS, STEP_TIMEOUT_MS, Promotion, PromotionResult
from pymq.client.admin.promotion_plan import GroupMember, plan_promotion
from pymq.clock import ManualClock
from pymq.errors import PymqError, RefusedError, RequestTimeoutError, UnreachableError, UnsafeError
from pymq.wire.bodies_replication import EpochEntryBody, ReplicationStatus, RoleAnswer, RoleRequest
from tests.client.admin.groups import A, B, away, ha_client, status

FENCE = 1_700_000_000_000  # the number of the master's write fence


class Group:
    """A master and a slave that obey at once or after ``delay`` looks; ``refuses`` names the step that fails."""

    def __init__(self, refuses: str = "") -> None:
        self.clock = ManualClock()
        self.old = status(A, 0, 1000)
        self.new = status(B, 1, 900, ha_client=ha_client(metadata_fence=FENCE - 1))
        self.is_fenced = False
        self.done: list[str] = []
        self.looks = 0
        self.refuses = refuses
        self.catches_up = True
        self.names_fence = True
        self.rejoins = True
        self.dies = False  # the old master, as soon as it gets the request to step down
        self.silent_ms = 0  # the slave answers nothing for so long after it got the request to become the master
        self.answers_ms = 0
        self.late_looks: set[int] = set()  # whose answers come too late
        self.way_ms = 0  # of a status
        self.forgets = False  # that request: it was killed and started again

    @property
    def members(self) -> list[GroupMember]:
        return [GroupMember(A, 0, deepcopy(self.old)), GroupMember(B, 1, deepcopy(self.new))]

    async def pause(self, seconds: float) -> None:
        self.clock.advance(max(1, int(seconds * 1000)))
        if self.is_fenced and self.catches_up and self.new.ha_client is not None:
            self.new.log_end = min(self.new.log_end + 50, self.old.log_end)
            self.new.ha_client.metadata_fence = FENCE if self.names_fence else 0
        if self.new.broker_id == 0 and self.old.broker_id and self.rejoins:
            self.old.ha_client = ha_client(master=B)

    async def status(self, address: str) -> ReplicationStatus:
        self.looks += 1
        self.clock.advance(self.way_ms)
        if self.refuses == "status after" or (self.dies and address == A and "old step_down" in self.done):
            raise UnreachableError("gone")
        if self.looks in self.late_looks:
            raise RequestTimeoutError("no answer in time")
        if address == B and self.clock.monotonic_ms() < self.answers_ms:
            raise UnreachableError("no answer")
        return self.old if address == A else self.new

    async def change_role(self, address: str, request: RoleRequest) -> RoleAnswer:
        role = "old" if address == A else "new"
        deed = f"{role} {request.action}"
        if deed == self.refuses:
            raise RefusedError(29, f"{deed} refused", address)
        self.done.append(deed)
        self._do(address, request)
        return RoleAnswer(log_end=0, epoch=0, fence=FENCE if self.is_fenced and self.names_fence else 0)

    def _do(self, address: str, request: RoleRequest) -> None:
        if request.action == "fence":
            assert 0 < request.fence_ms <= 60_000
            self.is_fenced = True
        elif request.action == "resume":
            self.is_fenced = False
        elif request.action == "step_down":
            assert self.new.log_end == self.old.log_end, "the slave has everything by now"
            assert (request.broker_id, request.master_address) == (1, B)
            self.old.broker_id, self.old.role, self.old.ha_client = 1, "SLAVE", ha_client("waiting", B)
            if self.new.ha_client is not None:
                self.new.ha_client.state = "waiting"
        else:
            assert self.old.broker_id != 0 or request.force, "two masters"
            promoted = self.old if address == A else self.new
            if self.silent_ms:
                self.answers_ms = self.clock.monotonic_ms() + self.silent_ms
                if self.forgets:
                    return
            promoted.broker_id, promoted.role, promoted.ha_client = 0, request.master_role or "ASYNC_MASTER", None
            promoted.epoch_history = [*promoted.epoch_history, EpochEntryBody(3, promoted.log_end, "c" * 16)]

    def run(self, *, force: bool = False, members: list[GroupMember] | None = None) -> PromotionResult:
        promotion = Promotion(self, self.clock, self.pause)
        return asyncio.run(promotion.run(plan_promotion("b", members or self.members), force=force))


def test_a_live_master_hands_over() -> None:
    group = Group()
    group.old.role = "SYNC_MASTER"
    result = group.run()
    assert group.done == ["old fence", "old step_down", "new promote"]
    assert (result.master.address, result.master.log_end, result.master.role) == (B, 1000, "SYNC_MASTER")
    assert result.notes == ()


def test_a_slave_that_does_not_catch_up_changes_nothing() -> None:
    group = Group()
    group.catches_up = False
    with pytest.raises(RequestTimeoutError, match="has not received everything"):
        group.run()
    assert group.done == ["old fence", "old resume"] and not group.is_fenced


def test_tables_read_before_the_fence_do_not_count_however_long_a_status_is_on_its_way() -> None:
    group = Group()
    group.way_ms = 20
    group.catches_up = False
    group.new.log_end = group.old.log_end
    group.new.ha_client = ha_client(metadata_age_ms=30)
    with pytest.raises(RequestTimeoutError, match="has not received everything"):
        group.run()
    assert group.done == ["old fence", "old resume"]


def test_a_master_that_names_no_fence_does_not_step_down() -> None:
    group = Group()
    group.names_fence = False
    with pytest.raises(RequestTimeoutError, match="has not received everything"):
        group.run()
    assert group.done == ["old fence", "old resume"]


@pytest.mark.parametrize("late", range(1, 9))
def test_a_status_that_comes_too_late_is_asked_for_again(late: int) -> None:
    group = Group()
    group.late_looks = {late}
    assert group.run().master.address == B
    assert group.done == ["old fence", "old step_down", "new promote"]


def test_a_handover_waits_for_tables_copied_after_the_write_fence() -> None:
    group = Group()
    group.new.log_end = 1000
    group.run()
    assert group.new.ha_client is None and group.clock.monotonic_ms() > 0


@pytest.mark.parametrize(
    ("refuses", "done"),
    [
        ("old fence", []),
        ("old step_down", ["old fence", "old resume"]),
        ("new promote", ["old fence", "old step_down", "old promote"]),
    ],
)
def test_a_step_that_is_refused_leaves_the_old_master(refuses: str, done: list[str]) -> None:
    group = Group(refuses)
    with pytest.raises(PymqError, match="refused"):
        group.run()
    assert group.done == done
    assert group.old.broker_id == 0 and group.new.broker_id == 1


def test_a_slave_that_answers_late_is_the_master() -> None:
    group = Group()
    group.silent_ms = STEP_TIMEOUT_MS + LATE_STATUS_TIMEOUT_MS // 2
    assert group.run().master.address == B
    assert group.done == ["old fence", "old step_down", "new promote"]


def test_a_slave_that_may_still_become_the_master_keeps_the_old_one_a_slave() -> None:
    group = Group()
    group.silent_ms = 10 * STEP_TIMEOUT_MS
    with pytest.raises(RequestTimeoutError, match=f"may still become the master, so {A} stays a slave"):
        group.run()
    assert group.done == ["old fence", "old step_down", "new promote"] and group.old.broker_id == 1


def test_a_slave_that_forgot_its_promotion_makes_the_old_master_the_master_again() -> None:
    group = Group()
    group.silent_ms, group.forgets = STEP_TIMEOUT_MS + LATE_STATUS_TIMEOUT_MS // 2, True
    with pytest.raises(RequestTimeoutError, match="has not become the master"):
        group.run()
    assert group.done == ["old fence", "old step_down", "new promote", "old promote"]


def test_an_old_master_that_dies_before_stepping_down_may_return_as_master() -> None:
    group = Group()
    group.dies = True
    with pytest.raises(RequestTimeoutError, match="has not stepped down"):
        group.run()
    assert group.done == ["old fence", "old step_down"], "the slave is not promoted beside it"


def test_an_old_master_that_stays_away_is_reported_but_no_failure() -> None:
    group = Group()
    group.rejoins = False
    (note,) = group.run().notes
    assert A in note


def test_without_a_master_promotion_requires_force() -> None:
    group = Group()
    members = [away(A, 0), GroupMember(B, 1, group.new)]
    with pytest.raises(UnsafeError):
        group.run(members=members)
    assert group.done == []
    result = group.run(force=True, members=members)
    assert group.done == ["new promote"] and result.master.broker_id == 0


def test_the_chosen_of_two_masters_starts_an_epoch_and_the_other_follows() -> None:
    group = Group()
    group.new.broker_id, group.new.ha_client = 0, None
    members = group.members
    with pytest.raises(UnsafeError, match="choose"):
        group.run(force=True, members=members)
    promotion = Promotion(group, group.clock, group.pause)
    group.old.broker_id = 1  # it knows the new epoch
    result = asyncio.run(promotion.run(plan_promotion("b", members, B), force=True))
    assert group.done == ["new promote"] and result.notes == ()
    assert result.master.epoch_history[-1].epoch == 3


def test_an_unseen_promotion_times_out() -> None:
    group = Group("status after")
    with pytest.raises(RequestTimeoutError, match="has not become the master"):
        group.run(force=True, members=[away(A, 0), GroupMember(B, 1, group.new)])


def test_each_step_is_reported() -> None:
    group = Group()
    messages: list[str] = []
    tell: Callable[[str], None] = messages.append
    promotion = Promotion(group, group.clock, group.pause, tell=tell)
    asyncio.run(promotion.run(plan_promotion("b", group.members)))
    assert len(messages) == 4 and A in messages[0] and "becomes the master" in messages[2]
