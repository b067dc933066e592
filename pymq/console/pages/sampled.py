"""Figures of the last hour in the rows of lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymq.console.history.chart import Spark, make_spark
from pymq.console.history.rings import Kind, Measure, Subject
from pymq.console.history.sight import Sight
from pymq.console.history.trend import lag_trend
from pymq.console.pages.lists import Row
from pymq.operations.top.broker_tables import Part

# A figure that the person's own request for the list gave: where it is unknown, the person may not see the row's rates.
_OWN_FIGURE = {Kind.topic: "stored", Kind.group: "lag"}
_MEASURE = {Kind.topic: Measure.in_rate, Kind.group: Measure.lag}
_RATE = {Kind.topic: "in_per_second", Kind.group: "out_per_second"}
_PART = {Kind.topic: Part.ends, Kind.group: Part.lags}


def with_rates(sight: Sight | None, kind: Kind, name: str, rows: Iterable[Row]) -> list[Row]:
    """Return the rows of a list with the rate of the newest sample, None where it is unknown.

    It is ``in_per_second`` of topics, ``out_per_second`` of groups. ``name``: the column with the topic or group.
    """
    column = _RATE[kind]
    return [
        row
        | {
            column: sight.rate(Subject(kind, row[name]))
            if sight is not None and row[_OWN_FIGURE[kind]] is not None
            else None
        }
        for row in rows
    ]


def sparks(sight: Sight | None, kind: Kind, name: str, rows: Iterable[Row]) -> dict[str, Spark]:
    """Return the small lines of shown rows by name: of rates of topics, of lags of groups."""
    found: dict[str, Spark] = {}
    for subject in _visible(sight, kind, name, rows):
        assert sight is not None
        sight.see(subject)
        points = sight.points(subject, _MEASURE[kind])
        if points is not None:
            found[subject.name] = make_spark(_MEASURE[kind], points)
    return found


def trends(sight: Sight | None, name: str, rows: Iterable[Row]) -> dict[str, str]:
    """Return what the lags of shown groups do, in words. Unknown lags are left out."""
    found: dict[str, str] = {}
    for subject in _visible(sight, Kind.group, name, rows):
        assert sight is not None
        points = sight.points(subject, Measure.lag)
        if points is not None and (text := lag_trend(points)):
            found[subject.name] = text
    return found


def sample_note(sight: Sight | None, kind: Kind) -> dict[str, Any]:
    """Return how old the rates of a list are, in ms, and why there are no new ones."""
    if sight is None:
        return {"age_ms": None, "problem": "", "left_out": 0}
    return {"age_ms": sight.age_ms(_PART[kind]), "problem": sight.problem, "left_out": sight.left_out}


def _visible(sight: Sight | None, kind: Kind, name: str, rows: Iterable[Row]) -> list[Subject]:
    if sight is None:
        return []
    return [Subject(kind, row[name]) for row in rows if row[_OWN_FIGURE[kind]] is not None]
