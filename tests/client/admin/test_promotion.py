"""Promotion: the plan for every state of a group, and what is left when a step fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from pymq.client.admin.promotion import (
    GroupMember,
    Promotion,
    PromotionPlan,
    PromotionResult,
    common_end,
    plan_promotion,
)
from pymq.clock import ManualClock
from pymq.errors import NotFoundError, PymqError, RefusedError, RequestTimeoutError, UnreachableError, UnsafeError
from pymq.wire.bodies_replication import MasterLinkState, ReignBody, ReplicationStatus, RoleAnswer, RoleRequest

A, B, C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


def status(address: str, broker_id: int, log_end: int = 1000, epoch: int = 2, **fields: Any) -> ReplicationStatus:
    given = {"cluster": "c", "broker_name": "b", "role": "SLAVE" if broker_id else "ASYNC_MASTER", **fields}
    reigns = [ReignBody(number, 0, f"{number:016x}") for number in range(1, epoch + 1)]
    return ReplicationStatus(address=address, broker_id=broker_id, log_end=log_end, lineage=reigns, **given)


def link(state: str = "following", master: str = A, **fields: Any) -> MasterLinkState:
    return MasterLinkState(master_address=master, state=state, **{"metadata_age_ms": 0, **fields})


def master(address: str = A, **fields: Any) -> GroupMember:
    return GroupMember(address, 0, status(address, 0, **fields))


def slave(address: str, broker_id: int, log_end: int = 1000, state: str = "following", **fields: Any) -> GroupMember:
    given = {"link": link(state), **fields}
    return GroupMember(address, broker_id, status(address, broker_id, log_end, **given))


def away(address: str, registered_id: int) -> GroupMember:
    return GroupMember(address, registered_id, error=f"no connection to {address}")


def plan(*members: GroupMember, target: str = "") -> PromotionPlan:
    return plan_promotion("b", members, target)


# -- the plan ------------------------------------------------------------------------------------------------------


def test_with_a_living_master_nothing_is_at_risk() -> None:
    found = plan(master(), slave(B, 1, 900), slave(C, 2, 1000))
    assert found.master is not None and found.master.address == A
    assert found.target.address == C, "the one that has most"
    assert not found.risks and not found.obstacles
    assert [found.lag_bytes(member) for member in found.members] == [0, 100, 0]
    found.check(force=False)


def test_of_equal_slaves_the_one_with_the_lowest_id() -> None:
    assert plan(master(), slave(C, 2), slave(B, 1)).target.address == B


def test_a_slave_that_does_not_follow_is_not_picked_and_refused_when_named() -> None:
    members = (master(), slave(B, 1, 1000, state="refused", link=link("refused", problem="digests differ")))
    assert plan(*members, slave(C, 2, 10)).target.address == C
    (obstacle,) = plan(*members, target=B).obstacles
    assert "digests differ" in obstacle and A in obstacle
    with pytest.raises(UnsafeError):
        plan(*members, target=B).check(force=True)


def test_the_named_slave_is_taken() -> None:
    assert plan(master(), slave(B, 1, 1000), slave(C, 2, 10), target=C).target.address == C


def test_without_a_master_the_furthest_slave_of_the_newest_reign_is_taken_and_force_is_needed() -> None:
    found = plan(away(A, 0), slave(B, 1, 5000, epoch=2), slave(C, 2, 4000, epoch=3))
    assert found.target.address == C and found.master is None and found.lost_master == A
    (risk,) = [text for text in found.risks if A in text]
    assert "behind offset 4000" in risk
    with pytest.raises(UnsafeError, match="--force"):
        found.check(force=False)
    found.check(force=True)


def test_what_a_dead_master_is_known_to_have_had_is_told() -> None:
    found = plan(away(A, 0), slave(B, 1, 900, "waiting", link=link("waiting", master_log_end=1500)))
    assert any("600 bytes" in risk for risk in found.risks)


def test_of_a_dead_sync_master_only_what_was_unconfirmed_is_lost() -> None:
    found = plan(away(A, 0), slave(B, 1, state="waiting", master_role="SYNC_MASTER"))
    assert any("not confirmed" in risk for risk in found.risks)


def test_a_slave_that_may_have_lost_what_it_had_confirmed_is_a_risk_and_the_last_to_be_picked() -> None:
    doubtful = slave(B, 1, 900, "waiting", end_in_doubt=True)
    alone = plan(away(A, 0), doubtful)
    assert any(B in risk and "not stopped in order" in risk and "may be missing" in risk for risk in alone.risks)
    both = plan(away(A, 0), doubtful, slave(C, 2, 900, "waiting"))
    assert both.target.address == C
    assert not any("not stopped in order" in risk for risk in both.risks)


def test_another_slave_that_has_more_or_does_not_answer_is_a_risk() -> None:
    found = plan(away(A, 0), slave(B, 1, 900), slave(C, 2, 1000), away("10.0.0.4:1", 3), target=B)
    texts = "\n".join(found.risks)
    assert f"{C} has 100 bytes more" in texts and "10.0.0.4:1 does not answer" in texts
    newer = plan(away(A, 0), slave(B, 1, 2000, epoch=2), slave(C, 2, 1000, epoch=3), target=B)
    assert any("newer reign (epoch 3, not 2)" in risk for risk in newer.risks)


def test_a_former_master_that_has_stepped_down_is_no_risk() -> None:
    """A promotion that broke off between its two halves is run again without force."""
    found = plan(slave(A, 1, state="joining", link=link("joining", B)), slave(B, 1, state="waiting"), target=B)
    assert found.risks == () and found.master is None


def test_the_lost_master_is_known_by_the_slave_when_name_servers_have_forgotten_it() -> None:
    assert plan(slave(B, 1, state="waiting")).lost_master == A


def test_rocketmq_brokers_can_not_be_told() -> None:
    apache = GroupMember(A, 0, status(A, 0, protocol_version=0, epoch=0))
    (obstacle,) = plan(apache, slave(B, 1)).obstacles
    assert A in obstacle and "stop it" in obstacle
    other = GroupMember(B, 1, status(B, 1, protocol_version=0, epoch=0))
    (obstacle,) = plan(away(A, 0), other).obstacles
    assert B in obstacle and "brokerId=0" in obstacle


def test_a_stopped_rocketmq_master_leaves_its_place_to_a_pymq_slave() -> None:
    found = plan(slave(B, 1, state="waiting", epoch=0))
    assert not found.obstacles and found.risks


def test_who_is_the_master_already_is_told_so() -> None:
    (obstacle,) = plan(master(), slave(B, 1), target=A).obstacles
    assert "already" in obstacle


def test_of_two_masters_the_newer_is_the_living_one() -> None:
    found = plan(master(A, epoch=2), master(C, epoch=3), slave(B, 1))
    assert found.master is not None and found.master.address == C


def with_reigns(member: GroupMember, *reigns: tuple[int, int, str]) -> GroupMember:
    assert member.status is not None
    member.status.lineage = [ReignBody(epoch, start, reign_id) for epoch, start, reign_id in reigns]
    return member


def test_of_two_masters_as_old_an_operator_chooses_and_is_told_what_the_other_loses() -> None:
    a = with_reigns(master(A, log_end=1500), (1, 0, "a"), (2, 900, "b"))
    c = with_reigns(master(C, log_end=1400), (1, 0, "a"), (2, 1000, "c"))
    members = (a, c, slave(B, 1))
    for target in ("", B):
        (obstacle,) = plan(*members, target=target).obstacles
        assert A in obstacle and C in obstacle and "epoch 2" in obstacle
    found = plan(*members, target=C)
    assert found.target is c and found.rivals == (a,) and found.master is None and not found.obstacles
    (risk,) = found.risks
    for word in (A, "offset 900", "(600 bytes)", "diverged/"):
        assert word in risk
    with pytest.raises(UnsafeError, match="--force"):
        found.check(force=False)
    found.check(force=True)


def test_two_masters_with_nothing_in_common() -> None:
    a = with_reigns(master(A), (1, 0, "a"))
    c = with_reigns(master(C), (1, 0, "c"))
    (risk,) = plan(a, c, target=A).risks
    assert C in risk and "empty directory" in risk


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([(1, 0, "a")], [(1, 0, "a")], 700),
        ([(1, 0, "a"), (2, 500, "b")], [(1, 0, "a")], 500),
        ([(1, 0, "a"), (2, 500, "b")], [(1, 0, "a"), (2, 500, "b"), (3, 600, "c")], 600),
        ([(1, 0, "a"), (2, 500, "b")], [(1, 0, "a"), (2, 400, "c")], 400),
        ([(1, 0, "a")], [(1, 0, "b")], None),
        ([], [(1, 0, "b")], None),
    ],
)
def test_up_to_where_two_logs_are_equal(
    ours: list[tuple[int, int, str]], theirs: list[tuple[int, int, str]], expected: int | None
) -> None:
    one, other = with_reigns(master(A, log_end=1000), *ours), with_reigns(master(C, log_end=700), *theirs)
    assert one.status is not None and other.status is not None
    assert common_end(one.status, other.status) == common_end(other.status, one.status) == expected


def test_nobody_to_promote() -> None:
    with pytest.raises(NotFoundError, match="no slave"):
        plan(master())
    with pytest.raises(UnreachableError, match=B):
        plan(away(A, 0), away(B, 1))
    with pytest.raises(UnreachableError, match=B):
        plan(master(), away(B, 1), target=B)
    with pytest.raises(NotFoundError, match=C):
        plan(master(), slave(B, 1), target=C)


# -- the deed ------------------------------------------------------------------------------------------------------


class Group:
    """A master and a slave that do as they are told, at once or after ``delay`` looks; ``refuses``: what fails."""

    def __init__(self, refuses: str = "") -> None:
        self.clock = ManualClock()
        self.old = status(A, 0, 1000)
        self.new = status(B, 1, 900, link=link(metadata_age_ms=10_000))
        self.is_frozen = False
        self.done: list[str] = []
        self.looks = 0
        self.refuses = refuses
        self.catches_up = True
        self.rejoins = True
        self.dies = False  # the old master, as soon as it was told to step down

    @property
    def members(self) -> list[GroupMember]:
        return [GroupMember(A, 0, deepcopy(self.old)), GroupMember(B, 1, deepcopy(self.new))]

    async def pause(self, seconds: float) -> None:
        self.clock.advance(max(1, int(seconds * 1000)))
        if self.is_frozen and self.catches_up and self.new.link is not None:
            self.new.log_end = min(self.new.log_end + 50, self.old.log_end)
            self.new.link.metadata_age_ms = 0
        if self.new.broker_id == 0 and self.old.broker_id and self.rejoins:
            self.old.link = link(master=B)

    async def status(self, address: str) -> ReplicationStatus:
        self.looks += 1
        if self.refuses == "status after" or (self.dies and address == A and "old step_down" in self.done):
            raise UnreachableError("gone")
        return self.old if address == A else self.new

    async def change_role(self, address: str, request: RoleRequest) -> RoleAnswer:
        who = "old" if address == A else "new"
        deed = f"{who} {request.action}"
        if deed == self.refuses:
            raise RefusedError(29, f"{deed} refused", address)
        self.done.append(deed)
        self._do(address, request)
        return RoleAnswer(log_end=0, epoch=0)

    def _do(self, address: str, request: RoleRequest) -> None:
        if request.action == "freeze":
            assert 0 < request.freeze_ms <= 60_000
            self.is_frozen = True
        elif request.action == "resume":
            self.is_frozen = False
        elif request.action == "step_down":
            assert self.new.log_end == self.old.log_end, "the slave has everything by now"
            assert (request.broker_id, request.master_address) == (1, B)
            self.old.broker_id, self.old.role, self.old.link = 1, "SLAVE", link("waiting", B)
            if self.new.link is not None:
                self.new.link.state = "waiting"
        else:
            assert self.old.broker_id != 0 or request.force, "two masters"
            promoted = self.old if address == A else self.new
            promoted.broker_id, promoted.role, promoted.link = 0, request.master_role or "ASYNC_MASTER", None
            promoted.lineage = [*promoted.lineage, ReignBody(3, promoted.log_end, "c" * 16)]

    def run(self, *, force: bool = False, members: list[GroupMember] | None = None) -> PromotionResult:
        promotion = Promotion(self, self.clock, self.pause)
        return asyncio.run(promotion.run(plan_promotion("b", members or self.members), force=force))


def test_a_living_master_hands_over() -> None:
    group = Group()
    group.old.role = "SYNC_MASTER"
    result = group.run()
    assert group.done == ["old freeze", "old step_down", "new promote"]
    assert (result.master.address, result.master.log_end, result.master.role) == (B, 1000, "SYNC_MASTER")
    assert result.notes == ()


def test_a_slave_that_does_not_catch_up_changes_nothing() -> None:
    group = Group()
    group.catches_up = False
    with pytest.raises(RequestTimeoutError, match="has not got everything"):
        group.run()
    assert group.done == ["old freeze", "old resume"] and not group.is_frozen


def test_tables_that_are_not_copied_since_the_freeze_are_waited_for() -> None:
    group = Group()
    group.new.log_end = 1000
    group.run()
    assert group.new.link is None and group.clock.monotonic_ms() > 0


@pytest.mark.parametrize(
    ("refuses", "done"),
    [
        ("old freeze", []),
        ("old step_down", ["old freeze", "old resume"]),
        ("new promote", ["old freeze", "old step_down", "old promote"]),
    ],
)
def test_a_step_that_is_refused_leaves_the_old_master(refuses: str, done: list[str]) -> None:
    group = Group(refuses)
    with pytest.raises(PymqError, match="refused"):
        group.run()
    assert group.done == done
    assert group.old.broker_id == 0 and group.new.broker_id == 1


def test_an_old_master_that_dies_before_it_says_that_it_has_stepped_down_may_come_back_as_master() -> None:
    group = Group()
    group.dies = True
    with pytest.raises(RequestTimeoutError, match="has not stepped down"):
        group.run()
    assert group.done == ["old freeze", "old step_down"], "the slave is not promoted beside it"


def test_an_old_master_that_does_not_come_back_is_told_and_no_failure() -> None:
    group = Group()
    group.rejoins = False
    (note,) = group.run().notes
    assert A in note


def test_without_a_master_the_slave_is_promoted_by_force_alone() -> None:
    group = Group()
    members = [away(A, 0), GroupMember(B, 1, group.new)]
    with pytest.raises(UnsafeError):
        group.run(members=members)
    assert group.done == []
    result = group.run(force=True, members=members)
    assert group.done == ["new promote"] and result.master.broker_id == 0


def test_the_chosen_of_two_masters_begins_a_reign_and_the_other_follows() -> None:
    group = Group()
    group.new.broker_id, group.new.link = 0, None
    members = group.members
    with pytest.raises(UnsafeError, match="choose"):
        group.run(force=True, members=members)
    promotion = Promotion(group, group.clock, group.pause)
    group.old.broker_id = 1  # it has heard of the new reign
    result = asyncio.run(promotion.run(plan_promotion("b", members, B), force=True))
    assert group.done == ["new promote"] and result.notes == ()
    assert result.master.lineage[-1].epoch == 3


def test_a_promotion_that_nobody_sees_ends_in_time() -> None:
    group = Group("status after")
    with pytest.raises(RequestTimeoutError, match="has not become the master"):
        group.run(force=True, members=[away(A, 0), GroupMember(B, 1, group.new)])


def test_what_is_being_done_is_told() -> None:
    group = Group()
    told: list[str] = []
    tell: Callable[[str], None] = told.append
    promotion = Promotion(group, group.clock, group.pause, tell=tell)
    asyncio.run(promotion.run(plan_promotion("b", group.members)))
    assert len(told) == 4 and A in told[0] and "becomes the master" in told[2]
