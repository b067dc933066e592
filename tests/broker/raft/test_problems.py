"""Problems of a node: shown for a minute after they came last, and logged once meanwhile."""

from __future__ import annotations

import pytest

from pymq.broker.raft.problems import PROBLEM_SHOWN_MS, PROBLEMS_MAX, RecentProblems
from pymq.clock import ManualClock


def test_a_problem_that_came_no_more_is_over(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    problems = RecentProblems(clock)
    problems.note("no space")
    clock.advance(PROBLEM_SHOWN_MS)
    assert problems.texts() == ["no space"]
    problems.note("no space")
    assert caplog.messages == ["no space"], "it was not over"
    clock.advance(PROBLEM_SHOWN_MS + 1)
    assert problems.texts() == []
    problems.note("no space")
    assert problems.texts() == ["no space"] and caplog.messages == ["no space"] * 2


def test_the_one_that_came_longest_ago_goes_beyond_the_limit() -> None:
    problems = RecentProblems(ManualClock())
    for number in [*range(PROBLEMS_MAX), 0, PROBLEMS_MAX]:
        problems.note(f"problem {number}")
    assert problems.texts() == [f"problem {number}" for number in (*range(2, PROBLEMS_MAX), 0, PROBLEMS_MAX)]
