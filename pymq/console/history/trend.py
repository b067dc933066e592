"""How a lag changes, in words."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, sqrt
from typing import Final

from pymq.console.history.rings import POINT_MS

WINDOW_POINTS: Final = 30  # five minutes
NOISE_FACTOR: Final = 2.0  # a change must be so much larger than what a lag jumps about
STEADY_PART: Final = 0.02  # of the lag: a change in the window that is too small to speak of
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400


def lag_trend(points: Sequence[float]) -> str:
    """Return what the lag does: ``growing, 120 a second``, ``falling, empty in 3 min at this rate`` or ``steady``.

    ``points``: the newest last. Those of the last five minutes count. Returns ``nothing waits`` for a lag of 0, and an
    empty text when there are not two points, or the last known one is older.
    """
    window = points[-WINDOW_POINTS:]
    known = [(at * POINT_MS / 1000, value) for at, value in enumerate(window) if not isnan(value)]
    if len(known) < 2:
        return ""
    lag = known[-1][1]
    if lag <= 0:
        return "nothing waits"
    per_second, noise = _line(known)
    if abs(per_second) * WINDOW_POINTS * POINT_MS / 1000 < max(1.0, lag * STEADY_PART, noise * NOISE_FACTOR):
        return "steady"
    if per_second > 0:
        return f"growing, {_rate(per_second)}"
    return f"falling, empty in {_span(lag / -per_second)} at this rate"


def _line(known: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the slope of the straight line that fits best, and how far values are from it (standard deviation)."""
    count = len(known)
    mean_at = sum(at for at, _ in known) / count
    mean_value = sum(value for _, value in known) / count
    spread = sum((at - mean_at) ** 2 for at, _ in known)
    slope = sum((at - mean_at) * (value - mean_value) for at, value in known) / spread
    rest = sum((value - mean_value - slope * (at - mean_at)) ** 2 for at, value in known)
    return slope, sqrt(rest / count)


def _rate(per_second: float) -> str:
    if per_second >= 1:
        return f"{per_second:,.0f} a second"
    return f"{per_second * _MINUTE_S:,.0f} a minute" if per_second * _MINUTE_S >= 1 else "less than 1 a minute"


def _span(seconds: float) -> str:
    for unit, name in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:.0f} s"
