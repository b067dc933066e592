"""How long failures are allowed, by a clock that the test moves."""

from __future__ import annotations

from pymq.errors import UnreachableError
from pymq.spark.export.patience import Patience


def test_the_time_begins_with_the_first_failure_and_has_an_end() -> None:
    reasons: list[str] = []
    now_s = 1000.0
    patience = Patience(60.0, reasons.append, lambda: now_s)
    found = []
    for now_s in (1000.0, 1059.9, 1060.0):
        found.append(patience.has_some(UnreachableError(f"no answer at {now_s}")))
    assert found == [True, True, False] and reasons == ["no answer at 1000.0"]


def test_no_time_allows_no_failure() -> None:
    reasons: list[str] = []
    assert not Patience(0, reasons.append, lambda: 1.0).has_some(UnreachableError("no answer"))
    assert reasons == []
