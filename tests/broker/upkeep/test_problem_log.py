"""ProblemLog: each problem is logged once when it appears and once when it ends."""

from __future__ import annotations

import pytest

from pymq.broker.upkeep.problem_log import ProblemLog


class Store:
    def __init__(self) -> None:
        self.problems: list[str] = []


def test_each_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    told = ProblemLog(store)
    for problems in ([], ["a"], ["a"], ["b", "a"], ["b"], ["b"], []):
        store.problems = problems
        told.tick()
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("ERROR", "a"),
        ("ERROR", "b"),
        ("WARNING", "this is over: a"),
        ("WARNING", "this is over: b"),
    ]
