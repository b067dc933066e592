"""A lag's change in words."""

from __future__ import annotations

from math import nan

import pytest

from pymq.console.history.trend import WINDOW_POINTS, lag_trend


def line(first: float, step: float) -> list[float]:
    """Return the points of five minutes; ``step``: a point."""
    return [first + step * at for at in range(WINDOW_POINTS)]


@pytest.mark.parametrize(
    ("points", "text"),
    [
        (line(0, 1200), "growing, 120 a second"),
        (line(100, 2), "growing, 12 a minute"),
        (line(10, 0.1), "growing, less than 1 a minute"),
        (line(100_000, -1000), "falling, empty in 12 min at this rate"),
        (line(1000, -30), "falling, empty in 43 s at this rate"),
        (line(1_000_000, -1000), "falling, empty in 3 h at this rate"),
        (line(100_000_000, -100_000), "falling, empty in 3 h at this rate"),
        (line(10_000_000, -9_000), "falling, empty in 3 h at this rate"),
        (line(5000, 0), "steady"),
        (line(100_000, 10), "steady"),
        (line(5, 0), "steady"),
        (line(290, -10), "nothing waits"),
        ([0.0] * 30, "nothing waits"),
        ([], ""),
        ([5.0], ""),
        ([nan] * 30, ""),
        ([*line(0, 100), *[nan] * WINDOW_POINTS], ""),
        ([*[nan] * 20, *line(100, 2)], "growing, 12 a minute"),
    ],
)
def test_a_lag_in_words(points: list[float], text: str) -> None:
    assert lag_trend(points) == text


def test_gaps_do_not_matter_and_only_the_last_five_minutes_count() -> None:
    points = [*line(900_000, -1000), *line(100, 100)]
    points[-10:-1] = [nan] * 9
    assert lag_trend(points) == "growing, 10 a second"


def test_a_lag_that_jumps_about_is_no_trend() -> None:
    assert lag_trend([100.0, 101.0] * 15) == "steady"
    assert lag_trend([35.0, 5.0, 20.0, 0.0, 30.0, 15.0, 25.0, 10.0, 5.0, 30.0]) == "steady"
    assert lag_trend([100.0 * at + 300 * (at % 2) for at in range(30)]) == "growing, 10 a second"
