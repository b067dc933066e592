"""How long failures are allowed, by a clock that the test moves."""

from __future__ import annotations

from pymq.errors import UnreachableError
from pymq.spark.export.patience import Patience
from pymq.spark.session.job_progress import NoProgress


class Reasons(NoProgress):
    def __init__(self) -> None:
        self.found: list[str] = []

    def trying_again(self, why: str) -> None:
        self.found.append(why)


def test_the_time_begins_with_the_first_failure_and_has_an_end() -> None:
    reasons, now_s = Reasons(), 1000.0
    patience = Patience(60.0, reasons, lambda: now_s)
    found = []
    for now_s in (1000.0, 1059.9, 1060.0):
        found.append(patience.has_some(UnreachableError(f"no answer at {now_s}")))
    assert found == [True, True, False] and reasons.found == ["no answer at 1000.0"]


def test_no_time_allows_no_failure() -> None:
    reasons = Reasons()
    assert not Patience(0, reasons, lambda: 1.0).has_some(UnreachableError("no answer"))
    assert reasons.found == []
