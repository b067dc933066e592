"""The start beside members that do not say what they are: who is waited for, who refuses it, who does not count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pymq.broker.replication.roles.group_probe import Member
from pymq.broker.replication.roles.unclear_members import UNCLEAR_MS_MAX, StartDecision, decide_start
from tests.broker.replication.asking import THEIRS, THIRD, status

FAILING = Member(THEIRS, 0, answered=True, is_failing=True)
CHANGING = Member(THEIRS, 0, answered=True, is_changing=True)
UNREADABLE = Member(THEIRS, 0, answered=True, is_unreadable=True)
UNPROVEN = Member(THEIRS, 1, answered=True, status=status(THEIRS, 1, 7), doubt="no answer", is_unproven=True)
ALL = (FAILING, CHANGING, UNREADABLE, UNPROVEN)


def decided(*unclear: Member, waited_ms: int, confirmed: str = "") -> StartDecision:
    return decide_start("broker-a", unclear, lambda address: address == confirmed, waited_ms)


def test_without_unclear_members_nothing_is_awaited() -> None:
    assert decided(waited_ms=0) == StartDecision()


@pytest.mark.parametrize("other", ALL)
@pytest.mark.parametrize("waited_ms", [0, UNCLEAR_MS_MAX - 1])
def test_a_member_that_had_a_place_is_asked_again(other: Member, waited_ms: int) -> None:
    assert decided(other, waited_ms=waited_ms, confirmed=THEIRS) == StartDecision(must_wait=True)


@pytest.mark.parametrize("other", ALL)
def test_a_member_that_had_a_place_keeps_a_master_from_starting(other: Member) -> None:
    decision = decided(other, waited_ms=UNCLEAR_MS_MAX, confirmed=THEIRS)
    assert not decision.must_wait
    for word in (THEIRS, "broker-a", str(UNCLEAR_MS_MAX), "stop that one"):
        assert word in decision.refusal


@pytest.mark.parametrize("other", ALL)
def test_a_stranger_keeps_no_master_from_starting(other: Member) -> None:
    assert decided(other, waited_ms=UNCLEAR_MS_MAX - 1).must_wait == (other is not UNREADABLE)
    decision = decided(other, waited_ms=UNCLEAR_MS_MAX)
    assert not decision.must_wait and not decision.refusal
    (warning,) = decision.warnings
    for word in (THEIRS, "no place", "--name"):
        assert word in warning


def test_an_answer_that_no_broker_sends_is_not_awaited() -> None:
    decision = decided(UNREADABLE, waited_ms=0)
    assert not decision.must_wait and decision.warnings


def test_one_of_several_that_had_a_place_decides() -> None:
    other = replace(FAILING, address=THIRD)
    assert THIRD in decided(UNREADABLE, other, waited_ms=UNCLEAR_MS_MAX, confirmed=THIRD).refusal
    assert len(decided(UNREADABLE, other, waited_ms=UNCLEAR_MS_MAX).warnings) == 2
