"""Plans wait for a while for the session that made them, and are used once."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.console.changes import plans as module
from pymq.console.changes.plan import Outcome, Plan
from pymq.console.changes.plans import AGE_MAX_MS, COUNT_OF_SESSION_MAX, Plans
from pymq.errors import NotFoundError


async def does_nothing(admin: Any) -> Outcome:
    return Outcome([], {})


def plan(title: str = "Move billing", confirm: str = "") -> Plan:
    return Plan(title, "offset reset", "group billing", [], {}, ("offset", "reset"), does_nothing, confirm=confirm)


def test_a_plan_is_used_once_by_the_session_that_made_it() -> None:
    plans = Plans(ManualClock())
    number = plans.keep("s", "prod", plan())
    for session, context, other in (("t", "prod", number), ("s", "test", number), ("s", "prod", number + "x")):
        with pytest.raises(NotFoundError, match="nothing is changed"):
            plans.take(session, context, other)
    assert plans.find("s", "prod", number).title == "Move billing"
    assert plans.take("s", "prod", number).title == "Move billing"
    with pytest.raises(NotFoundError):
        plans.take("s", "prod", number)


@pytest.mark.parametrize(("age_ms", "is_there"), [(AGE_MAX_MS - 1, True), (AGE_MAX_MS, False)])
def test_a_plan_is_not_kept_for_long(age_ms: int, is_there: bool) -> None:
    clock = ManualClock()
    plans = Plans(clock)
    plans.keep("s", "prod", plan())
    clock.advance(age_ms)
    number = plans.keep("t", "prod", plan())
    assert len(plans) == 1 + is_there and plans.find("t", "prod", number)


def test_a_session_has_so_many_and_the_oldest_goes() -> None:
    plans = Plans(ManualClock())
    numbers = [plans.keep("s", "prod", plan(str(at))) for at in range(COUNT_OF_SESSION_MAX + 1)]
    plans.keep("t", "prod", plan())
    assert len(plans) == COUNT_OF_SESSION_MAX + 1
    with pytest.raises(NotFoundError):
        plans.find("s", "prod", numbers[0])
    assert plans.find("s", "prod", numbers[1])


def test_all_sessions_have_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COUNT_MAX", 3)
    plans = Plans(ManualClock())
    numbers = [plans.keep(str(at), "prod", plan()) for at in range(4)]
    assert len(plans) == 3
    with pytest.raises(NotFoundError):
        plans.find("0", "prod", numbers[0])


def test_the_end_of_a_session_forgets_its_plans() -> None:
    plans = Plans(ManualClock())
    plans.keep("s", "prod", plan())
    kept = plans.keep("t", "prod", plan())
    plans.forget_session("s")
    assert len(plans) == 1 and plans.find("t", "prod", kept)


@pytest.mark.parametrize(
    ("confirm", "typed", "is_confirmed"), [("", "", True), ("a", "a", True), ("a", "", False), ("a", "A", False)]
)
def test_a_loss_is_confirmed_by_its_name(confirm: str, typed: str, is_confirmed: bool) -> None:
    assert plan(confirm=confirm).is_confirmed_by(typed) is is_confirmed
