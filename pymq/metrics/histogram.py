"""Counts times by their length, with a few additions for each, and exports them as a Prometheus histogram."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from pymq.metrics.family import BUCKET, COUNT, SUM, Family, Metric, Reading

# Upper bounds of the usual times in a broker, from a fast disk's flush to a stuck disk's.
TIME_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)


class TimeHistogram:
    """Counts times by ``bounds_ms``, in ascending order. One thread at a time may add while another one reads."""

    def __init__(self, bounds_ms: Sequence[int] = TIME_BOUNDS_MS) -> None:
        self._bounds_ms = tuple(bounds_ms)
        self._counts = [0] * (len(self._bounds_ms) + 1)
        self._total_ms = 0

    def add(self, time_ms: int) -> None:
        self._counts[bisect_left(self._bounds_ms, time_ms)] += 1
        self._total_ms += time_ms

    @property
    def count(self) -> int:
        return sum(self._counts)

    def family(self, metric: Metric) -> Family:
        """Return the family with times in seconds, as Prometheus wants them."""
        counts = list(accumulate(self._counts))
        bounds = [*(f"{bound_ms / 1000:g}" for bound_ms in self._bounds_ms), "+Inf"]
        buckets = [Reading((bound,), count, BUCKET) for bound, count in zip(bounds, counts, strict=True)]
        return Family(metric, [*buckets, Reading((), counts[-1], COUNT), Reading((), self._total_ms / 1000, SUM)])
