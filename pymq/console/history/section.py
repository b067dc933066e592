"""The charts of one subject as a part of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, Final

from pymq.console.history.chart import STEP_MS, STEPS, Chart, make_chart
from pymq.console.history.rings import Kind, Measure, Subject
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
    of the page.
    """

    title: str
    charts: Sequence[Chart]
    note: str
    trend: str
    begin_ms: int
    end_ms: int
    key: str = ""

    @property
    def rows(self) -> Iterator[tuple[int, list[float | None]]]:
        """Each minute's time (Unix ms), and the values of the charts; None where they are unknown."""
        for at, values in enumerate(zip(*(chart.values for chart in self.charts), strict=True)):
            yield self.begin_ms + at * STEP_MS, [None if isnan(value) else value for value in values]

    def as_record(self) -> dict[str, Any]:
        """Return the values for ``?format=json``: a list of 60 for each measure, with the times of both ends."""
        series = {
            chart.measure.value: [None if isnan(value) else round(value, 3) for value in chart.values]
            for chart in self.charts
        }
        return {"beginMs": self.begin_ms, "endMs": self.end_ms, "stepMs": STEP_MS, "note": self.note, **series}


async def charts_of(sight: Sight | None, subject: Subject, now_ms: int, title: str = "Last hour") -> Charts:
    """Return the charts of a subject, or why there are none. Only a person who may see the subject gets them."""
    charts: list[Chart] = []
    if sight is None:
        note = "This console takes no samples."
    elif refusal := await sight.why_not(subject):
        note = f"No figures of the last hour: {refusal}"
    else:
        had_room = sight.has_room(subject)
        sight.see(subject)
        found = [(measure, name, sight.points(subject, measure)) for measure, name in _MEASURES[subject.kind]]
        charts = [make_chart(measure, points, name) for measure, name, points in found if points is not None]
        note = sight.problem or ("" if charts else _EMPTY if had_room else _FULL)
    lags = sight.points(subject, Measure.lag) if sight is not None and charts else None
    begin_ms = now_ms - (STEPS - 1) * STEP_MS
    return Charts(title, charts, note, lag_trend(lags) if lags else "", begin_ms, now_ms, subject.kind)
