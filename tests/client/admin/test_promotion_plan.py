"""The plan of a promotion, for every state of a group."""

from __future__ import annotations

import pytest

from pymq.client.admin.promotion_plan import GroupMember, common_end
from pymq.errors import NotFoundError, UnreachableError, UnsafeError
from pymq.wire.bodies_replication import EpochEntryBody
from tests.client.admin.groups import A, B, C, away, ha_client, master, plan, slave, status


def test_with_a_live_master_nothing_is_at_risk() -> None:
    found = plan(master(), slave(B, 1, 900), slave(C, 2, 1000))
    assert found.master is not None and found.master.address == A
    assert found.target.address == C, "the one with the longest log"
    assert not found.risks and not found.obstacles
    assert [found.lag_bytes(member) for member in found.members] == [0, 100, 0]
    found.check(force=False)


def test_among_equal_slaves_the_lowest_id_wins() -> None:
    assert plan(master(), slave(C, 2), slave(B, 1)).target.address == B


def test_a_slave_that_does_not_follow_is_never_promoted() -> None:
    members = (master(), slave(B, 1, 1000, state="refused", ha_client=ha_client("refused", problem="digests differ")))
    assert plan(*members, slave(C, 2, 10)).target.address == C
    (obstacle,) = plan(*members, target=B).obstacles
    assert "digests differ" in obstacle and A in obstacle
    with pytest.raises(UnsafeError):
        plan(*members, target=B).check(force=True)


def test_the_named_slave_is_taken() -> None:
    assert plan(master(), slave(B, 1, 1000), slave(C, 2, 10), target=C).target.address == C


def test_without_a_master_the_slave_with_the_newest_log_needs_force() -> None:
    found = plan(away(A, 0), slave(B, 1, 5000, epoch=2), slave(C, 2, 4000, epoch=3))
    assert found.target.address == C and found.master is None and found.lost_master == A
    (risk,) = [text for text in found.risks if A in text]
    assert "after offset 4000" in risk
    with pytest.raises(UnsafeError, match="--force"):
        found.check(force=False)
    found.check(force=True)


def test_the_known_log_end_of_a_dead_master_is_a_risk() -> None:
    found = plan(away(A, 0), slave(B, 1, 900, "waiting", ha_client=ha_client("waiting", master_log_end=1500)))
    assert any("600 bytes" in risk for risk in found.risks)


def test_a_dead_sync_master_loses_only_unconfirmed_messages() -> None:
    found = plan(away(A, 0), slave(B, 1, state="waiting", master_role="SYNC_MASTER"))
    assert any("not confirmed" in risk for risk in found.risks)


def test_a_slave_that_may_have_lost_confirmed_messages_is_picked_last() -> None:
    doubtful = slave(B, 1, 900, "waiting", end_in_doubt=True)
    alone = plan(away(A, 0), doubtful)
    assert any(B in risk and "not shut down cleanly" in risk and "may be missing" in risk for risk in alone.risks)
    both = plan(away(A, 0), doubtful, slave(C, 2, 900, "waiting"))
    assert both.target.address == C
    assert not any("not shut down cleanly" in risk for risk in both.risks)


def test_a_longer_or_silent_slave_is_a_risk() -> None:
    found = plan(away(A, 0), slave(B, 1, 900), slave(C, 2, 1000), away("10.0.0.4:1", 3), target=B)
    texts = "\n".join(found.risks)
    assert f"{C} has 100 bytes more" in texts and "10.0.0.4:1 does not answer" in texts
    newer = plan(away(A, 0), slave(B, 1, 2000, epoch=2), slave(C, 2, 1000, epoch=3), target=B)
    assert any("newer epoch (3, not 2)" in risk for risk in newer.risks)


def test_a_former_master_that_stepped_down_is_no_risk() -> None:
    """A promotion that stopped between its two halves can be repeated without force."""
    found = plan(
        slave(A, 1, state="joining", ha_client=ha_client("joining", B)), slave(B, 1, state="waiting"), target=B
    )
    assert found.risks == () and found.master is None


def test_a_slave_knows_a_lost_master_that_name_servers_forgot() -> None:
    assert plan(slave(B, 1, state="waiting")).lost_master == A


def test_rocketmq_brokers_are_obstacles() -> None:
    apache = GroupMember(A, 0, status(A, 0, protocol_version=0, epoch=0))
    (obstacle,) = plan(apache, slave(B, 1)).obstacles
    assert A in obstacle and "stop it" in obstacle
    other = GroupMember(B, 1, status(B, 1, protocol_version=0, epoch=0))
    (obstacle,) = plan(away(A, 0), other).obstacles
    assert B in obstacle and "brokerId=0" in obstacle


def test_a_pymq_slave_replaces_a_stopped_rocketmq_master() -> None:
    found = plan(slave(B, 1, state="waiting", epoch=0))
    assert not found.obstacles and found.risks


def test_promoting_the_current_master_is_an_obstacle() -> None:
    (obstacle,) = plan(master(), slave(B, 1), target=A).obstacles
    assert "already" in obstacle


def test_of_two_masters_the_newer_epoch_wins() -> None:
    found = plan(master(A, epoch=2), master(C, epoch=3), slave(B, 1))
    assert found.master is not None and found.master.address == C


def with_epochs(member: GroupMember, *entries: tuple[int, int, str]) -> GroupMember:
    assert member.status is not None
    member.status.epoch_history = [EpochEntryBody(epoch, start, epoch_id) for epoch, start, epoch_id in entries]
    return member


def test_of_two_masters_with_equal_epochs_the_operator_chooses() -> None:
    a = with_epochs(master(A, log_end=1500), (1, 0, "a"), (2, 900, "b"))
    c = with_epochs(master(C, log_end=1400), (1, 0, "a"), (2, 1000, "c"))
    members = (a, c, slave(B, 1))
    for target in ("", B):
        (obstacle,) = plan(*members, target=target).obstacles
        assert A in obstacle and C in obstacle and "epoch 2" in obstacle
    found = plan(*members, target=C)
    assert found.target is c and found.second_masters == (a,) and found.master is None and not found.obstacles
    (risk,) = found.risks
    for word in (A, "offset 900", "(600 bytes)", "divergent/"):
        assert word in risk
    with pytest.raises(UnsafeError, match="--force"):
        found.check(force=False)
    found.check(force=True)


def test_two_masters_with_nothing_in_common() -> None:
    a = with_epochs(master(A), (1, 0, "a"))
    c = with_epochs(master(C), (1, 0, "c"))
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
    one, other = with_epochs(master(A, log_end=1000), *ours), with_epochs(master(C, log_end=700), *theirs)
    assert one.status is not None and other.status is not None
    assert common_end(one.status, other.status) == common_end(other.status, one.status) == expected


def test_a_group_without_slaves_has_none_to_promote() -> None:
    with pytest.raises(NotFoundError, match="no slave"):
        plan(master())
    with pytest.raises(UnreachableError, match=B):
        plan(away(A, 0), away(B, 1))
    with pytest.raises(UnreachableError, match=B):
        plan(master(), away(B, 1), target=B)
    with pytest.raises(NotFoundError, match=C):
        plan(master(), slave(B, 1), target=C)


def other_log(address: str, broker_id: int, log_end: int = 5000) -> GroupMember:
    """Return a slave whose bytes its master refused before it died."""
    refused = ha_client("waiting", other_log="the 64 bytes before offset 5000 differ")
    return slave(address, broker_id, log_end, ha_client=refused, message_count=512)


def test_a_slave_whose_log_its_master_refused_is_not_chosen() -> None:
    right = slave(C, 2, 1000, "waiting", message_count=300)
    found = plan(away(A, 0), other_log(B, 1), right)
    assert found.target is right and not found.obstacles
    assert [found.lag_bytes(member) for member in found.members] == [None, 1000, 0]
    assert [found.lag_messages(member) for member in found.members] == [None, 300, 0]
    assert found.members[1].log_problem and not any(B in risk for risk in found.risks)


def test_naming_a_slave_of_another_log_needs_force_and_says_what_is_lost() -> None:
    found = plan(away(A, 0), other_log(B, 1), slave(C, 2, 1000, "waiting"), target=B)
    assert any(f"the log of {B} is not the group's" in risk and "differ" in risk for risk in found.risks)
    with pytest.raises(UnsafeError, match="--force"):
        found.check(force=False)
    found.check(force=True)


def test_a_slave_of_another_log_is_never_taken_by_default() -> None:
    (obstacle,) = plan(away(A, 0), other_log(B, 1)).obstacles
    assert B in obstacle and "name one by its address" in obstacle
    assert not plan(away(A, 0), other_log(B, 1), target=B).obstacles


def test_a_slave_with_other_bytes_beside_silent_members_has_figures_too() -> None:
    other = slave(B, 1, ha_client=ha_client("refused", other_log="digests differ"), message_count=7)
    found = plan(away(A, 0), other, away(C, 2), target=B)
    assert found.target.log_problem
    assert [found.lag_bytes(member) for member in found.members] == [None, 0, None]
    assert [found.lag_messages(member) for member in found.members] == [None, 0, None]
