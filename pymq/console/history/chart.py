"""Charts: the points of an hour as lines of an SVG, and as the numbers of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Final

from pymq.console.history.counted import Mean
from pymq.console.history.rings import POINT_MS, POINTS, RATES, Measure
from pymq.units import format_bytes

STEPS: Final = 60  # of a chart: a minute each
STEP_POINTS: Final = POINTS // STEPS
STEP_MS: Final = POINT_MS * STEP_POINTS
SPARK_STEPS: Final = 30
HEIGHT: Final = 100
SPARK_HEIGHT: Final = 20
NOW_MS: Final = 120_000  # a figure that is older is not the one of now
HEAD_ROOM: Final = 0.06  # of the height, above the greatest value
_STEP_WIDTH: Final = 10
_SPARK_WIDTH: Final = 4

TITLES: Final = {
    Measure.in_rate: "Messages in",
    Measure.out_rate: "Messages out",
    Measure.lag: "Lag",
    Measure.send_ms: "Time of 99 % of sends",
    Measure.log_rate: "Log written",
    Measure.disk: "Disk in use",
    Measure.slave_lag: "Behind its master",
}
UNITS: Final = {
    Measure.in_rate: "a second",
    Measure.out_rate: "a second",
    Measure.lag: "messages",
    Measure.send_ms: "ms",
    Measure.log_rate: "a second",
    Measure.disk: "%",
    Measure.slave_lag: "",
}
_BYTES: Final = frozenset({Measure.log_rate, Measure.slave_lag})


@dataclass(frozen=True, slots=True)
class Chart:
    """One series. ``values``: a value each minute, the newest last, NaN where it is unknown; ``line``: of a path.

    ``age_ms``: of the newest known point; None without one. ``counted``: the mean that brokers counted themselves, each
    minute before the first known value, NaN in others; ``counted_line``: of a path. Both lines have one scale.
    """

    measure: Measure
    title: str
    unit: str
    values: Sequence[float]
    line: str
    age_ms: int | None
    counted: Sequence[float] = ()
    counted_line: str = ""
    width: int = (STEPS - 1) * _STEP_WIDTH
    height: int = HEIGHT

    @property
    def known(self) -> list[float]:
        """The values that are known."""
        return [value for value in self.values if not isnan(value)]

    @property
    def mean(self) -> float | None:
        """What brokers counted themselves before the first known value; None where that is unknown."""
        return next((value for value in self.counted if not isnan(value)), None)

    @property
    def shown(self) -> list[float]:
        """The values that lines show."""
        return self.known if self.mean is None else [*self.known, self.mean]

    @property
    def now(self) -> float | None:
        """The newest value, None when it is unknown."""
        if self.age_ms is None or self.age_ms > NOW_MS:
            return None
        return self.known[-1]

    @property
    def description(self) -> str:
        """What the line shows, in words."""
        known = self.known
        unit = f" {self.unit}" if self.unit else ""
        before = "" if self.mean is None else f"; before that, brokers counted a mean of {self.text(self.mean)}{unit}"
        if not known:
            return f"no figure of the last hour is known{before}"
        missing = len(self.values) - len(known) - sum(not isnan(value) for value in self.counted)
        now = "now unknown" if self.now is None else f"last {self.text(self.now)}"
        gaps = f"; {missing} of {len(self.values)} minutes are not known" if missing else ""
        return f"{self.text(min(known))} to {self.text(max(known))}{unit} in the last hour, {now}{before}{gaps}"

    def text(self, value: float | None) -> str:
        """Return a value of this chart, a dash for one that is unknown."""
        if value is None:
            return "\u2013"
        return format_bytes(round(value)) if self.measure in _BYTES else value_text(value)


@dataclass(frozen=True, slots=True)
class Spark:
    """A small line of a row."""

    line: str
    description: str
    width: int = (SPARK_STEPS - 1) * _SPARK_WIDTH
    height: int = SPARK_HEIGHT


def make_chart(measure: Measure, points: Sequence[float], title: str | None = None, mean: Mean | None = None) -> Chart:
    """Return the chart of the points of an hour. ``mean``: what brokers counted, for the time before the first one."""
    values = steps(points, STEPS, is_rate=measure in RATES)
    counted = [] if mean is None else counted_steps(values, mean)
    top = _top([*values, *counted])
    line = line_of(values, _STEP_WIDTH, HEIGHT, top)
    last = next((at for at in range(len(points) - 1, -1, -1) if not isnan(points[at])), None)
    age_ms = None if last is None else (len(points) - 1 - last) * POINT_MS
    counted_line = line_of(counted, _STEP_WIDTH, HEIGHT, top)
    return Chart(measure, title or TITLES[measure], UNITS[measure], values, line, age_ms, counted, counted_line)


def counted_steps(values: Sequence[float], mean: Mean) -> list[float]:
    """Return a mean in each step that it is of and that is before the first known value, NaN in others."""
    first_known = next((at for at, value in enumerate(values) if not isnan(value)), len(values))
    newest = len(values) - 1
    begin = max(0, newest - (mean.age_ms + mean.span_ms) // STEP_MS)
    end = min(first_known, len(values) - mean.age_ms // STEP_MS)
    return [mean.per_second if begin <= at < end else nan for at in range(len(values))]


def make_spark(measure: Measure, points: Sequence[float]) -> Spark:
    """Return the small line of the points of an hour."""
    values = steps(points, SPARK_STEPS, is_rate=measure in RATES)
    known = [value for value in values if not isnan(value)]
    text = f"{value_text(min(known))} to {value_text(max(known))} {UNITS[measure]}" if known else "not known"
    return Spark(line_of(values, _SPARK_WIDTH, SPARK_HEIGHT), f"last hour: {text}")


def steps(points: Sequence[float], count: int, *, is_rate: bool) -> list[float]:
    """Return one value for each of ``count`` steps: the mean of known rates, the last known of other figures."""
    size = len(points) // count
    found = []
    for begin in range(0, size * count, size):
        known = [value for value in points[begin : begin + size] if not isnan(value)]
        found.append(nan if not known else sum(known) / len(known) if is_rate else known[-1])
    return found


def _top(values: Sequence[float]) -> float:
    return max((value for value in values if not isnan(value)), default=0.0) or 1.0


def line_of(values: Sequence[float], step_width: int, height: int, top: float | None = None) -> str:
    """Return the path of a line from 0 to ``top``, else the greatest value. It is broken where a value is unknown."""
    top = _top(values) if top is None else top
    parts: list[str] = []
    is_drawing = False
    for at, value in enumerate(values):
        if isnan(value):
            is_drawing = False
            continue
        place = f"{at * step_width} {height - round(value / top * height * (1 - HEAD_ROOM))}"
        if is_drawing:
            parts.append(f"L{place}")
        else:
            parts.append(f"M{place}h1")  # so that a point without neighbors is seen
            is_drawing = True
    return "".join(parts)


def value_text(value: float) -> str:
    """Return a number with as many digits as one reads."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.1f}"
