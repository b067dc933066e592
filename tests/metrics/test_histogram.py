"""Histograms: a time goes to the bucket of the first bound not below it; buckets are cumulative, in seconds."""

from __future__ import annotations

from pymq.metrics.family import histogram
from pymq.metrics.histogram import TimeHistogram

METRIC = histogram("a_seconds", "", unit="seconds")


def lines(times: TimeHistogram) -> dict[tuple[str, ...], float]:
    return {(reading.suffix, *reading.labels): reading.value for reading in times.family(METRIC).readings if reading}


def test_an_empty_histogram_is_exposed() -> None:
    assert set(lines(TimeHistogram((1, 10))).values()) == {0}


def test_times_at_and_behind_a_bound() -> None:
    times = TimeHistogram((1, 10))
    for time_ms in (0, 1, 2, 10, 11, 5000):
        times.add(time_ms)
    assert lines(times) == {
        ("_bucket", "0.001"): 2,
        ("_bucket", "0.01"): 4,
        ("_bucket", "+Inf"): 6,
        ("_count",): 6,
        ("_sum",): 5.024,
    }
    assert times.count == 6
