"""The charts of one subject as a part of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, Final

from pymq.console.history.chart import STEP_MS, STEPS, Chart, make_chart
from pymq.console.history.counted import COUNTED, Means
from pymq.console.history.rings import POINTS, Kind, Measure, Subject
from pymq.console.history.sight import Sight
from pymq.console.history.trend import lag_trend

_MEASURES: Final = {
    Kind.topic: ((Measure.in_rate, "Messages in"), (Measure.out_rate, "Messages that groups committed")),
    Kind.group: ((Measure.lag, "Lag"), (Measure.out_rate, "Messages committed")),
    Kind.pair: ((Measure.lag, "Lag on this topic"),),
    Kind.broker: (
        (Measure.in_rate, "Messages in"),
        (Measure.out_rate, "Messages out"),
        (Measure.log_rate, "Log written"),
        (Measure.disk, "Disk in use"),
        (Measure.slave_lag, "Behind its master"),
    ),
    Kind.cluster: (
        (Measure.in_rate, "Messages in"),
        (Measure.out_rate, "Messages out"),
        (Measure.lag, "Lag of all groups"),
        (Measure.send_ms, "Time of 99 % of sends"),
    ),
}
_EMPTY: Final = "The first figures come within a minute or two."
_FULL: Final = "There is no room for the figures of all topics and groups. Those of this page are kept from now on."


@dataclass(frozen=True, slots=True)
class Charts:
    """Charts with their title. ``note``: why there are none, or no new ones; ``trend``: of the lag, in words.

    ``begin_ms``, ``end_ms``: the time of their first and last value (Unix ms). ``key``: makes their ids the only ones
    of the page. ``counted``: the means that charts show, which brokers counted themselves.
    """

    title: str
    charts: Sequence[Chart]
    note: str
    trend: str
    begin_ms: int
    end_ms: int
    key: str = ""
    counted: Means = field(default_factory=dict)

    @property
    def rows(self) -> Iterator[tuple[int, list[float | None], list[float | None]]]:
        """Each minute's time (Unix ms), the values of the charts, and what brokers counted; None where unknown."""
        none = [nan] * STEPS
        columns = [(chart.values, chart.counted or none) for chart in self.charts]
        for at in range(STEPS if columns else 0):
            values, counted = zip(*((values[at], counted[at]) for values, counted in columns), strict=True)
            yield self.begin_ms + at * STEP_MS, _known(values), _known(counted)

    @property
    def counted_ms(self) -> tuple[int, int] | None:
        """The time that ``counted`` is of, from and to (Unix ms); None when no chart shows it."""
        if not self.counted:
            return None
        begin_ms = min(self.end_ms - mean.age_ms - mean.span_ms for mean in self.counted.values())
        return begin_ms, max(self.end_ms - mean.age_ms for mean in self.counted.values())

    def as_record(self) -> dict[str, Any]:
        """Return the values for ``?format=json``: a list of 60 for each measure, with the times of both ends."""
        series = {
            chart.measure.value: [None if isnan(value) else round(value, 3) for value in chart.values]
            for chart in self.charts
        }
        counted = {
            measure.value: {
                "mean": round(mean.per_second, 3),
                "beginMs": self.end_ms - mean.age_ms - mean.span_ms,
                "endMs": self.end_ms - mean.age_ms,
            }
            for measure, mean in self.counted.items()
        }
        times = {"beginMs": self.begin_ms, "endMs": self.end_ms, "stepMs": STEP_MS}
        return {**times, "note": self.note, "countedByBrokers": counted, **series}


def _known(values: Sequence[float]) -> list[float | None]:
    return [None if isnan(value) else value for value in values]


async def charts_of(sight: Sight | None, subject: Subject, now_ms: int, title: str = "Last hour") -> Charts:
    """Return the charts of a subject, or why there are none. Only a person who may see the subject gets them."""
    charts: list[Chart] = []
    counted: Means = {}
    if sight is None:
        note = "This console takes no samples."
    elif refusal := await sight.why_not(subject):
        note = f"No figures of the last hour: {refusal}"
    else:
        had_room = sight.has_room(subject)
        sight.see(subject)
        found = [(measure, name, sight.points(subject, measure)) for measure, name in _MEASURES[subject.kind]]
        by_brokers = COUNTED.get(subject.kind, ())
        if any(measure in by_brokers and (points is None or isnan(points[0])) for measure, _, points in found):
            counted = await sight.counted(subject)
        charts = [
            make_chart(measure, points or [nan] * POINTS, name, counted.get(measure))
            for measure, name, points in found
            if points is not None or measure in counted
        ]
        shown = {chart.measure for chart in charts if chart.mean is not None}
        counted = {measure: mean for measure, mean in counted.items() if measure in shown}
        note = sight.problem or ("" if charts else _EMPTY if had_room else _FULL)
    lags = sight.points(subject, Measure.lag) if sight is not None and charts else None
    begin_ms = now_ms - (STEPS - 1) * STEP_MS
    return Charts(title, charts, note, lag_trend(lags) if lags else "", begin_ms, now_ms, subject.kind, counted)
