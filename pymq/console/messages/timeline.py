"""A time line as figures of an SVG: a row for each kind of event and group, with bars and points in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

WIDTH: Final = 900
LABEL_WIDTH: Final = 200
ROW_HEIGHT: Final = 28
TOP: Final = 24
MARGIN: Final = 20
BAR_WIDTH_MIN: Final = 3.0
TICKS_MAX: Final = 6
EVENTS_MAX: Final = 200
LABEL_CHARACTERS_MAX: Final = 26
# From here on a linear scale would put all early events into one point.
LOG_RATIO: Final = 50
LOG_BASE: Final = 10


@dataclass(frozen=True, slots=True)
class Mark:
    """A bar from ``x`` on. ``kind``: ``ok`` or ``failed``; ``text``: what it is, for people who point at it."""

    x: float
    y: float
    width: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A line at a time after the begin."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row with its name."""

    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """The figures of a time line. ``left_out``: the number of events that are not on it."""

    height: int
    rows: list[Row]
    marks: list[Mark]
    ticks: list[Tick]
    is_log: bool
    left_out: int
    width: int = WIDTH


def timeline_of(events: Sequence[Mapping[str, Any]]) -> Timeline | None:
    """Return the time line of a trace's events; None when not one of them has a time."""
    timed = [event for event in events if event["time_ms"] > 0]
    shown = timed[:EVENTS_MAX]
    if not shown:
        return None
    begins = [_begin_ms(event) for event in shown]
    first_ms = min(begins)
    ends = [max(begin, event["time_ms"]) - first_ms for begin, event in zip(begins, shown, strict=True)]
    span_ms = max(*ends, 1)
    is_log = _is_log(sorted({begin - first_ms for begin in begins} | set(ends)), span_ms)
    at = _scale(span_ms, is_log=is_log)
    names = list(dict.fromkeys(_row_of(event) for event in shown))
    rows = [Row(TOP + ROW_HEIGHT * (number + 0.5), _cut(name)) for number, name in enumerate(names)]
    marks = []
    for event, begin, end in zip(shown, begins, ends, strict=True):
        x = at(begin - first_ms)
        y = TOP + ROW_HEIGHT * names.index(_row_of(event)) + 6
        kind = "ok" if event["ok"] else "failed"
        marks.append(
            Mark(round(x, 1), y, round(max(at(end) - x, BAR_WIDTH_MIN), 1), kind, _text(event, begin - first_ms))
        )
    ticks = [Tick(round(at(ms), 1), span_text(ms)) for ms in _tick_times(span_ms, is_log=is_log)]
    return Timeline(TOP + ROW_HEIGHT * len(names) + MARGIN, rows, marks, ticks, is_log, len(timed) - len(shown))


def span_text(span_ms: float) -> str:
    """Return a time span with the unit in which it is short: ``0``, ``12 ms``, ``1.5 s``, ``3 min``."""
    if span_ms == 0:
        return "0"
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if span_ms >= unit:
            return f"{span_ms / unit:.3g} {name}"
    return f"{span_ms:.3g} ms"


def _begin_ms(event: Mapping[str, Any]) -> int:
    """Return when what an event says began: a send says its begin, a consumption its end."""
    time_ms: int = event["time_ms"]
    return time_ms - max(0, event["cost_ms"] or 0) if event["event"] == "consumed" else time_ms


def _row_of(event: Mapping[str, Any]) -> str:
    kind: str = event["event"]
    group: str = event["group"]
    return group if group and kind in ("delivered", "consumed") else kind


def _text(event: Mapping[str, Any], after_ms: int) -> str:
    parts = (event["event"], event["group"], event["client"], event["detail"], f"after {span_text(after_ms)}")
    cost = [] if event["cost_ms"] is None else [f"took {span_text(event['cost_ms'])}"]
    return ", ".join([*filter(None, parts), *cost])


def _is_log(times_ms: Sequence[int], span_ms: int) -> bool:
    """Return whether the smallest gap between two events is too small beside the whole span."""
    gaps = [later - earlier for earlier, later in pairwise(times_ms) if later > earlier]
    return bool(gaps) and span_ms > LOG_RATIO * min(gaps)


def _scale(span_ms: int, *, is_log: bool) -> Callable[[float], float]:
    left, width = LABEL_WIDTH, WIDTH - LABEL_WIDTH - MARGIN
    if is_log:
        whole = math.log1p(span_ms)
        return lambda ms: left + width * math.log1p(max(0, ms)) / whole
    return lambda ms: left + width * ms / span_ms


def _tick_times(span_ms: int, *, is_log: bool) -> list[float]:
    if is_log:
        powers = [LOG_BASE**power for power in range(int(math.log10(span_ms)) + 1)]
        step = -(-len(powers) // TICKS_MAX)
        return [0, *powers[::step]]
    return [span_ms * part / (TICKS_MAX - 1) for part in range(TICKS_MAX)]


def _cut(text: str) -> str:
    return text if len(text) <= LABEL_CHARACTERS_MAX else f"{text[: LABEL_CHARACTERS_MAX - 1]}\u2026"
