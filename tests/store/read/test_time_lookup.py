"""Offsets by time: both boundaries, runs of equal times, the ends of a queue, and damaged records."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.queue.placeholder_units import fill_lost
from pymq.store.read import time_lookup as lookup
from pymq.store.store import MessageStore
from tests.store.support import ROOT, make_store, put

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


TIMES = st.lists(st.integers(0, 3), min_size=1, max_size=30)


def stored(steps: list[int]) -> tuple[MessageStore, MemoryFiles, list[int]]:
    """Return a queue with a message for each step (ms since the one before), and their store times."""
    clock, files = ManualClock(START_MS), MemoryFiles()
    store = make_store(files, clock, segment_size_bytes=1 << 16, digests_enabled=False)
    store.open()
    times = []
    for step in steps:
        clock.advance(step)
        put(store, "T", 0, b"x")
        times.append(clock.now_ms())
    return store, files, times


def flip(store: MessageStore, files: MemoryFiles, offset: int, place: int, bits: int) -> None:
    at = store._queues.make("T", 0).unit(offset)[0] + place
    files.nodes[f"{ROOT}/commitlog/{0:020d}"].data[at] ^= bits


@settings(deadline=None)
@given(TIMES, st.sets(st.integers(0, 29)), st.integers(-2, 60), st.integers(1, 3))
def test_unreadable_records_hide_no_other_record(steps: list[int], bad: set[int], probe: int, bad_max: int) -> None:
    store, files, times = stored(steps)
    bad = {offset for offset in bad if offset < len(times)}
    for offset in bad:
        flip(store, files, offset, 4, 1)  # in the magic number
    wanted_ms = START_MS + probe
    good = [(offset, ms) for offset, ms in enumerate(times) if offset not in bad]
    lower = next((offset for offset, ms in good if ms >= wanted_ms), len(times))
    assert store.offset_by_time("T", 0, wanted_ms) == lower
    later = next((offset for offset, ms in good if ms > wanted_ms), len(times))
    assert store.offset_by_time("T", 0, wanted_ms, upper=True) == max(later - 1, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "_BAD_RECORDS_MAX", bad_max)
        assert 0 <= store.offset_by_time("T", 0, wanted_ms) <= len(times)


@settings(deadline=None)
@given(TIMES, st.data(), st.integers(-2, 60))
def test_a_time_damaged_to_be_later_hides_no_message(steps: list[int], data: st.DataObject, probe: int) -> None:
    store, files, times = stored(steps)
    flip(store, files, data.draw(st.integers(0, len(times) - 1)), 58, 0x10)  # thousands of years
    wanted_ms = START_MS + probe
    lower = next((offset for offset, ms in enumerate(times) if ms >= wanted_ms), len(times))
    assert store.offset_by_time("T", 0, wanted_ms) <= lower


def test_blank_and_placeholders_are_passed_over() -> None:
    store, _, _ = stored([1] * 4)
    queue = store._queues.make("T", 0)
    fill_lost(queue, 30, *queue.unit(3)[:2], segment_size_bytes=0)
    fill_lost(queue, 35, *queue.unit(3)[:2], segment_size_bytes=1 << 16)
    put(store, "T", 0, b"x")
    assert store.offset_by_time("T", 0, START_MS + 2) == 1
    assert store.offset_by_time("T", 0, START_MS + 4) == 3
    assert store.offset_by_time("T", 0, START_MS + 5) == 36


def test_a_queue_that_does_not_exist() -> None:
    store = make_store(MemoryFiles())
    store.open()
    assert store.offset_by_time("T", 0, 5) == store.min_offset("T", 0) == store.max_offset("T", 0) == 0
