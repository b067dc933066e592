"""Offsets by time: both boundaries, equal runs, and the ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.store.memory_fs import MemoryFiles
from tests.store.support import make_store, put

START_MS = 1_000_000


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=30), st.integers(-2, 60))
def test_lower_and_upper(steps: list[int], probe: int) -> None:
    clock = ManualClock(START_MS)
    store = make_store(MemoryFiles(), clock)
    store.open()
    times = []
    for step in steps:
        clock.advance(step)
        put(store, "T", 0, b"x")
        times.append(clock.now_ms())
    wanted_ms = START_MS + probe
    lower = next((i for i, ms in enumerate(times) if ms >= wanted_ms), len(times))
    upper = max((i for i, ms in enumerate(times) if ms <= wanted_ms), default=0)
    assert store.offset_by_time("T", 0, wanted_ms) == lower
    assert store.offset_by_time("T", 0, wanted_ms, upper=True) == upper
    assert [store.store_time("T", 0, i) for i in range(len(times))] == times
    assert store.store_time("T", 0, len(times)) == -1
    assert store.earliest_store_time() == (times[0] if times else -1)


def test_a_queue_that_does_not_exist() -> None:
    store = make_store(MemoryFiles())
    store.open()
    assert store.offset_by_time("T", 0, 5) == store.min_offset("T", 0) == store.max_offset("T", 0) == 0
