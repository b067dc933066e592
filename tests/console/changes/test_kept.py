"""What waits is used once, by the session that made it, and not for long."""

from __future__ import annotations

import pytest

from pymq.clock import ManualClock
from pymq.console.changes import kept as module
from pymq.console.changes.kept import COUNT_OF_SESSION_MAX, Kept
from pymq.errors import NotFoundError

AGE_MS = 600_000


def new(clock: ManualClock | None = None) -> Kept[str]:
    return Kept(clock or ManualClock(), AGE_MS, "nothing is changed")


def test_it_is_used_once_by_the_session_that_made_it() -> None:
    kept = new()
    number = kept.keep("s", "prod", "a plan")
    for session, context, other in (("t", "prod", number), ("s", "test", number), ("s", "prod", number + "x")):
        with pytest.raises(NotFoundError, match="nothing is changed"):
            kept.take(session, context, other)
    assert kept.find("s", "prod", number) == kept.take("s", "prod", number) == "a plan"
    with pytest.raises(NotFoundError):
        kept.take("s", "prod", number)


@pytest.mark.parametrize(("age_ms", "is_there"), [(AGE_MS - 1, True), (AGE_MS, False)])
def test_it_is_not_kept_for_long(age_ms: int, is_there: bool) -> None:
    clock = ManualClock()
    kept = new(clock)
    kept.keep("s", "prod", "old")
    clock.advance(age_ms)
    number = kept.keep("t", "prod", "new")
    assert len(kept) == 1 + is_there and kept.find("t", "prod", number) == "new"


def test_a_session_has_so_many_and_the_oldest_goes() -> None:
    kept = new()
    numbers = [kept.keep("s", "prod", str(at)) for at in range(COUNT_OF_SESSION_MAX + 1)]
    kept.keep("t", "prod", "another's")
    assert len(kept) == COUNT_OF_SESSION_MAX + 1
    with pytest.raises(NotFoundError):
        kept.find("s", "prod", numbers[0])
    assert kept.find("s", "prod", numbers[1]) == "1"


def test_all_sessions_have_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COUNT_MAX", 3)
    kept = new()
    numbers = [kept.keep(str(at), "prod", str(at)) for at in range(4)]
    assert len(kept) == 3
    with pytest.raises(NotFoundError):
        kept.find("0", "prod", numbers[0])


def test_the_end_of_a_session_forgets_its_own() -> None:
    kept = new()
    kept.keep("s", "prod", "mine")
    number = kept.keep("t", "prod", "another's")
    kept.forget_session("s")
    assert len(kept) == 1 and kept.find("t", "prod", number) == "another's"
