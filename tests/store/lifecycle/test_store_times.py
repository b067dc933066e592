"""StoreTimes: the newest record's time counts, unless it alone is far ahead of the clock."""

from __future__ import annotations

import pytest

from pymq.clock import CLOCK_UNSET_BEFORE_MS
from pymq.store.lifecycle.store_times import StoreTimes
from pymq.store.write.store_time import STORE_TIME_AHEAD_MAX_MS, next_store_ms

NOW_MS = 1_700_000_000_000
EDGE_MS = NOW_MS + STORE_TIME_AHEAD_MAX_MS
FAR_MS = EDGE_MS + 1


@pytest.mark.parametrize(
    ("checkpoint_ms", "records", "last_ms"),
    [
        (0, [], 0),
        (NOW_MS, [], NOW_MS),
        (FAR_MS, [], FAR_MS),  # another machine's clock: no record contradicts it
        (NOW_MS - 9, [NOW_MS - 5, NOW_MS - 3], NOW_MS - 3),
        (NOW_MS - 9, [FAR_MS, NOW_MS - 3], NOW_MS - 3),
        (FAR_MS, [NOW_MS - 3], NOW_MS - 3),
        (NOW_MS - 9, [NOW_MS - 5, FAR_MS], NOW_MS - 5),
        (NOW_MS - 9, [FAR_MS], NOW_MS - 9),
        (0, [FAR_MS], 0),
        (NOW_MS - 9, [NOW_MS - 5, EDGE_MS], EDGE_MS),  # the clock was set back by a day
        (NOW_MS - 9, [FAR_MS, FAR_MS + 1], FAR_MS + 1),
        (FAR_MS, [FAR_MS + 1], FAR_MS + 1),
    ],
)
def test_the_time_that_counts(checkpoint_ms: int, records: list[int], last_ms: int) -> None:
    times = StoreTimes(checkpoint_ms, NOW_MS)
    for one_ms in records:
        times.add(one_ms)
    assert times.last_ms == last_ms and times.has_record == bool(records)
    together = StoreTimes(checkpoint_ms, NOW_MS)
    if records:
        together.add(*records[-2:])
    assert together.last_ms == last_ms


def test_another_scan_starts_over() -> None:
    times = StoreTimes(NOW_MS, NOW_MS)
    times.add(1, 2)
    times.restart()
    assert times.last_ms == NOW_MS and not times.has_record


@pytest.mark.parametrize(
    ("last_ms", "now_ms", "next_ms"),
    [
        (NOW_MS, NOW_MS + 1, NOW_MS + 1),
        (NOW_MS, NOW_MS, NOW_MS),
        (NOW_MS, NOW_MS - 1, NOW_MS),
        (EDGE_MS, NOW_MS, EDGE_MS),  # a clock set back by a day
        (FAR_MS, NOW_MS, NOW_MS),  # the last time came from a wrong clock
        (FAR_MS, CLOCK_UNSET_BEFORE_MS, CLOCK_UNSET_BEFORE_MS),
        (FAR_MS, CLOCK_UNSET_BEFORE_MS - 1, FAR_MS),  # this clock was never set
    ],
)
def test_the_next_time(last_ms: int, now_ms: int, next_ms: int) -> None:
    assert next_store_ms(last_ms, now_ms) == next_ms
