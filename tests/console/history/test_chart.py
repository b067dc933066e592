"""Points of an hour as the line of an SVG, in words and in minutes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isnan, nan

import pytest

from pymq.console.history.chart import (
    HEIGHT,
    SPARK_STEPS,
    STEP_POINTS,
    STEPS,
    line_of,
    make_chart,
    make_spark,
    steps,
    value_text,
)
from pymq.console.history.counted import Mean
from pymq.console.history.rings import POINTS, Measure


def hour(*last: float) -> list[float]:
    """Return the points of an hour that end with these minutes, the earlier ones unknown."""
    known = [value for value in last for _ in range(STEP_POINTS)]
    return [nan] * (POINTS - len(known)) + known


def test_a_minute_of_a_rate_is_the_mean_of_its_known_points_and_of_a_lag_the_last_one() -> None:
    points = [1.0, nan, 3.0, nan, nan, nan, *[nan] * STEP_POINTS]
    rate = steps(points, 2, is_rate=True)
    lag = steps(points, 2, is_rate=False)
    assert (rate[0], lag[0]) == (2.0, 3.0)
    assert isnan(rate[1]) and isnan(lag[1])


def test_a_line_goes_from_zero_to_the_greatest_value() -> None:
    assert line_of([0, 5, 10], 10, 100) == "M0 100h1L10 53L20 6"
    assert line_of([0, 0], 10, 100) == "M0 100h1L10 100"


def test_a_gap_breaks_the_line_and_a_lone_point_is_a_dot() -> None:
    assert line_of([1, nan, 1, 1, nan, 1], 10, 10) == "M0 1h1M20 1h1L30 1M50 1h1"
    assert line_of([nan, nan], 10, 10) == ""


def test_a_chart_says_in_words_what_it_shows() -> None:
    chart = make_chart(Measure.in_rate, hour(812, 0, 12.5, 640))
    assert len(chart.values) == STEPS and chart.known == [812, 0, 12.5, 640]
    assert chart.description == ("0 to 812 a second in the last hour, last 640; 56 of 60 minutes are not known")
    assert chart.now == 640 and chart.title == "Messages in"
    assert max(int(y) for _, y in re.findall(r"[ML](\d+) (\d+)", chart.line)) == HEIGHT


@pytest.mark.parametrize(
    ("last", "now"), [((5.0, nan), 5.0), ((5.0, nan, nan, nan), None), ((), None), ((nan, 7.0), 7.0)]
)
def test_an_old_figure_is_not_the_one_of_now(last: tuple[float, ...], now: float | None) -> None:
    """The minute that has just begun may have no figure yet."""
    chart = make_chart(Measure.lag, hour(*last))
    assert chart.now == now
    assert chart.known or chart.description == "no figure of the last hour is known"


def test_a_chart_of_an_hour_is_small() -> None:
    chart = make_chart(Measure.in_rate, [float(point * 37 % 1000) for point in range(POINTS)])
    assert len(chart.line) < 700
    spark = make_spark(Measure.in_rate, [float(point * 37 % 1000) for point in range(POINTS)])
    assert len(spark.line) < 260


def test_a_small_line_has_words_too() -> None:
    spark = make_spark(Measure.in_rate, hour(*([1.5] * 2 + [812] * 2)))
    assert spark.description == "last hour: 1.5 to 812 a second"
    assert spark.width == (SPARK_STEPS - 1) * 4
    assert make_spark(Measure.in_rate, hour()).description == "last hour: not known"


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.25, "0.2"), (9.96, "10.0"), (5.0, "5"), (12.6, "13"), (1e6, "1,000,000")]
)
def test_a_number_has_as_many_digits_as_one_reads(value: float, text: str) -> None:
    assert value_text(value) == text


def known(values: Sequence[float]) -> dict[int, float]:
    return {at: value for at, value in enumerate(values) if not isnan(value)}


def test_what_brokers_counted_is_drawn_before_the_first_own_value_in_one_scale() -> None:
    chart = make_chart(Measure.in_rate, hour(5, nan, 10), mean=Mean(20.0, 3_600_000))
    assert known(chart.counted) == dict.fromkeys(range(STEPS - 3), 20.0), "and not in the gap"
    assert chart.counted_line.startswith("M0 6h1L10 6") and chart.line.startswith("M570 76h1")
    assert chart.mean == 20.0 and chart.shown == [5, 10, 20.0] and chart.now == 10
    assert chart.description == (
        "5 to 10 a second in the last hour, last 10; before that, brokers counted a mean of 20 a second; "
        "1 of 60 minutes are not known"
    )


def test_a_mean_is_drawn_only_over_the_time_that_it_is_of() -> None:
    ten_minutes = Mean(20.0, 600_000, age_ms=1_200_000)
    assert list(known(make_chart(Measure.in_rate, hour(), mean=ten_minutes).counted)) == list(range(29, 40))
    full = make_chart(Measure.in_rate, hour(*[1.0] * STEPS), mean=Mean(20.0, 4_200_000))
    assert not known(full.counted) and full.mean is None and not full.counted_line
    past = make_chart(Measure.in_rate, hour(), mean=Mean(20.0, 600_000, age_ms=36_000_000))
    assert past.mean is None


def test_a_chart_without_own_values_has_the_mean_and_says_that_now_is_unknown() -> None:
    chart = make_chart(Measure.in_rate, hour(), mean=Mean(20.0, 3_600_000))
    assert chart.now is None and chart.shown == [20.0]
    assert chart.description == (
        "no figure of the last hour is known; before that, brokers counted a mean of 20 a second"
    )
