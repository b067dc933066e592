"""The reaction of a master to another master of its group."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory
from pymq.broker.replication.roles.group_probe import Member
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.roles.role_file import RoleRecord, role_at_start
from pymq.broker.replication.roles.second_master import Findings, Ourselves, judge
from pymq.config.values import BROKER_ID_MAX
from pymq.model.epochs import EPOCH_JUMP_MAX
from pymq.wire.bodies_replication import EpochEntryBody, HaClientState
from tests.broker.replication.asking import OURS, THEIRS, THIRD, status


def member(address: str, broker_id: int, epoch: int = 0, registered_id: int | None = None, **fields: object) -> Member:
    reported = status(address, broker_id, epoch, **fields)
    return Member(address, broker_id if registered_id is None else registered_id, answered=True, status=reported)


def epoch_history(epoch: int = 3, epoch_id: str = "b" * 16) -> EpochHistory:
    return EpochHistory((EpochEntry(1, 0, epoch_id), EpochEntry(epoch, 70, "f" * 16)))


def found(*members: Member, is_starting: bool = False) -> Findings:
    return judge(Ourselves("DefaultCluster", "broker-a", OURS, epoch_history(), is_starting), members)


def test_a_master_alone_or_with_slaves_stays_master() -> None:
    assert found() == Findings()
    assert found(member(THEIRS, 1, 3), member(THIRD, 2)) == Findings()


def test_an_older_master_does_not_keep_the_newer_one_away() -> None:
    findings = found(member(THEIRS, 0, 2))
    assert findings.step_down is None and not findings.second_master
    (warning,) = findings.warnings
    for word in (THEIRS, "epoch 2", "ours is 3"):
        assert word in warning


def test_a_newer_master_is_followed_with_the_id_it_left() -> None:
    findings = found(member(THEIRS, 0, 4, former_id=2), member(THIRD, 1, 4))
    assert findings.step_down == Role(2, master_address=THEIRS)
    for word in (THEIRS, "epoch 4", "ours is 3"):
        assert word in findings.why


@pytest.mark.parametrize(
    ("former_id", "others", "expected"),
    [
        (-1, (), 1),
        (0, (), 1),
        (1, (1,), 2),
        (5, (1, 2), 5),
        (BROKER_ID_MAX, (), BROKER_ID_MAX),
        (BROKER_ID_MAX + 1, (1,), 2),
        (-1, (1, 2, 4), 3),
    ],
)
def test_which_id_is_free(former_id: int, others: tuple[int, ...], expected: int) -> None:
    slaves = [member(f"10.0.0.{20 + number}:1", number, 4) for number in others]
    findings = found(member(THEIRS, 0, 4, former_id=former_id), *slaves)
    assert findings.step_down is not None and findings.step_down.broker_id == expected


def test_a_slave_with_a_newer_epoch_proves_an_absent_newer_master() -> None:
    findings = found(member(THEIRS, 2, 5))
    assert findings.step_down == Role(1)
    slave = member(THEIRS, 2, 5, ha_client=HaClientState(master_address=THIRD))
    follows = found(slave, Member(THIRD, 0, answered=False))
    assert follows.step_down == Role(1, master_address=THIRD)
    assert found(slave).step_down == Role(1), "a master that is no member is not followed on a slave's word"
    assert "slave 2 of an absent master" in findings.why


def test_the_newest_master_counts_before_a_slave_as_new() -> None:
    findings = found(member(THIRD, 1, 5), member(THEIRS, 0, 5))
    assert findings.step_down is not None and findings.step_down.master_address == THEIRS


@pytest.mark.parametrize("broker_id", [0, 1], ids=["master", "slave"])
def test_at_start_a_newer_master_is_followed_only_with_its_history(broker_id: int) -> None:
    shared = member(THEIRS, broker_id, epoch_history=[EpochEntryBody(1, 0, "b" * 16), EpochEntryBody(9, 50, "c" * 16)])
    assert found(shared, is_starting=True).step_down is not None
    other = member(THEIRS, broker_id, epoch_history=[EpochEntryBody(1, 0, "e" * 16), EpochEntryBody(9, 50, "c" * 16)])
    serving = found(other)
    assert serving.step_down is None, "one that serves goes on beside another history"
    assert bool(serving.second_master) == (broker_id == 0) and THEIRS in serving.distrusted[0]
    new = Ourselves("DefaultCluster", "broker-a", OURS, EpochHistory(), is_starting=True)
    refused = judge(new, [other])
    assert refused.step_down is None
    for word in (OURS, THEIRS, "epoch 9", "--id 1" if broker_id == 0 else "--id 2", "store recover"):
        assert word in refused.second_master
    own = found(other, is_starting=True)
    assert bool(own.second_master) == (broker_id == 0), "beside a slave of another history a master's own log counts"
    assert own.step_down is None and bool(own.distrusted) == (broker_id == 1)


@pytest.mark.parametrize("is_starting", [False, True])
@pytest.mark.parametrize("broker_id", [0, 1])
def test_an_epoch_that_jumps_too_far_proves_nothing(broker_id: int, is_starting: bool) -> None:
    def with_epoch(epoch: int) -> Findings:
        return found(member(THEIRS, broker_id, epoch), is_starting=is_starting)

    assert with_epoch(3 + EPOCH_JUMP_MAX).step_down is None, "the step within its history is too large as well"
    steps = [EpochEntryBody(1, 0, "b" * 16), EpochEntryBody(500, 50, "c" * 16)]
    near = [*steps, EpochEntryBody(3 + EPOCH_JUMP_MAX, 60, "d" * 16)]
    assert found(member(THEIRS, broker_id, epoch_history=near), is_starting=is_starting).step_down is not None
    far = [*steps, EpochEntryBody(4 + EPOCH_JUMP_MAX, 60, "d" * 16)]
    findings = found(member(THEIRS, broker_id, epoch_history=far), is_starting=is_starting)
    assert findings.step_down is None and findings.distrusted
    assert not (is_starting and findings.second_master), "a wrong number keeps no master from starting"


@pytest.mark.parametrize("epoch", [9, 4 + EPOCH_JUMP_MAX])
def test_a_newer_master_of_another_history_keeps_no_master_from_starting_without_a_proof(epoch: int) -> None:
    steps = [EpochEntryBody(1, 0, "e" * 16), EpochEntryBody(500, 50, "c" * 16)]
    history = [entry for entry in steps if entry.epoch <= epoch] + [EpochEntryBody(epoch, 60, "d" * 16)]
    stranger = member(THEIRS, 0, epoch_history=history)
    if epoch == 9:
        assert found(stranger, is_starting=True).second_master
        stranger = replace(stranger, doubt="it has not proved that it has our log")
    findings = found(stranger, is_starting=True)
    assert not findings.second_master and findings.step_down is None and THEIRS in findings.distrusted[0]


def test_a_newer_member_counts_beside_one_of_another_history() -> None:
    liar = member(THIRD, 0, epoch_history=[EpochEntryBody(900, 0, "e" * 16)])
    findings = found(liar, member(THEIRS, 0, 4))
    assert findings.step_down == Role(1, master_address=THEIRS) and THIRD in findings.distrusted[0]


def test_an_older_master_of_another_history_is_a_second_master_that_needs_another_name() -> None:
    findings = found(member(THEIRS, 0, epoch_history=[EpochEntryBody(2, 0, "e" * 16)]))
    assert findings.step_down is None and "another --name" in findings.second_master


@pytest.mark.parametrize(
    "other",
    [member(THEIRS, 0, 3), member(THEIRS, 0), Member(THEIRS, 0, answered=True)],
    ids=["same epoch", "without an epoch history", "RocketMQ's"],
)
def test_a_master_that_cannot_be_overruled_is_a_second_master(other: Member) -> None:
    findings = found(other)
    assert findings.step_down is None
    for word in (OURS, THEIRS, "broker-a", "stop one"):
        assert word in findings.second_master


@pytest.mark.parametrize(("flags_id", "slave_id", "expected"), [(0, 2, 1), (1, 3, 2), (1, 2, 3), (2, 1, 3), (7, 7, 1)])
def test_beside_a_master_of_the_same_epoch_a_given_id_makes_a_slave(
    flags_id: int, slave_id: int, expected: int
) -> None:
    """A slave that was promoted keeps its flags: with their id it would be the master again."""
    members = [member(THEIRS, 0, 3), member(THIRD, slave_id, 3)]
    found = judge(Ourselves("DefaultCluster", "broker-a", OURS, epoch_history(), True, flags_id), members)
    assert f"--id {expected}" in found.second_master and found.second_master_address == THEIRS
    kept = RoleRecord(broker_id=0, configured_id=flags_id)
    assert role_at_start(kept, expected).role == Role(expected, former_id=0)
    assert role_at_start(kept, flags_id).role.is_master


@pytest.mark.parametrize("flag", ["is_changing", "is_failing", "is_unreadable"])
def test_a_broker_that_does_not_say_what_it_is_is_no_second_master(flag: str) -> None:
    flags: dict[str, Any] = {flag: True}
    other = replace(Member(THEIRS, 0, answered=True), **flags)
    started = found(other, is_starting=True)
    assert started.unclear == (other,) and not started.second_master and not started.distrusted
    running = found(other)
    assert not running.second_master and THEIRS in running.distrusted[0]
    assert found(replace(other, registered_id=1), is_starting=True) == Findings(), "a slave"


@pytest.mark.parametrize("epoch", [3, 4])
def test_a_member_that_gave_no_proof_yet_is_unclear(epoch: int) -> None:
    other = replace(member(THEIRS, 0, epoch), doubt="no answer", is_unproven=True)
    assert found(other, is_starting=True).unclear == (other,)
    assert found(other, member(THIRD, 0, 5), is_starting=True).step_down is not None, "another one's word counts"
    refuted = replace(other, is_unproven=False)
    assert found(refuted, is_starting=True).unclear == ()


def test_an_operator_chooses_one_of_two_serving_masters() -> None:
    findings = found(member(THEIRS, 0, 3))
    assert f"pymq broker promote {OURS} --force" in findings.second_master and findings.second_master_address == THEIRS


def test_a_registered_master_without_an_answer_counts_as_dead() -> None:
    findings = found(Member(THEIRS, 0, answered=False))
    assert findings.step_down is None and not findings.second_master
    (warning,) = findings.warnings
    assert THEIRS in warning


def test_a_registered_master_that_reports_a_slave_role_is_a_slave() -> None:
    assert found(member(THEIRS, 1, 3, registered_id=0)) == Findings()


@pytest.mark.parametrize("fields", [{"cluster": "other"}, {"broker_name": "broker-b"}])
def test_brokers_of_another_group_at_a_reused_address_count_for_nothing(fields: dict[str, Any]) -> None:
    assert found(member(THEIRS, 0, 9, **fields)) == Findings()
