"""Where store times go back is kept, over stops, kills and truncations, on masters and slaves."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.log import time_steps
from pymq.store.log.time_steps import STEP_BACK_MIN_MS, TIME_STEP_COUNT_MAX, TimeSteps
from pymq.store.store import MessageStore
from tests.store.support import ROOT, die, make_store, put

DAY_MS = 86_400_000
FILE = f"{ROOT}/config/timeSteps.json"
BACK_MS = -3 * DAY_MS


def opened(files: MemoryFiles, clock: ManualClock, **settings: Any) -> MessageStore:
    store = make_store(files, clock, segment_size_bytes=1 << 14, **settings)
    store.open()
    return store


def stored(store: MessageStore, clock: ManualClock, body_size: int = 10) -> tuple[list[int], int]:
    """Store messages while the clock goes back by three days and forward again.

    Returns their times, and the number of the first one behind the step back.
    """
    times = []
    for number in range(12):
        times.append(clock.now_ms())
        put(store, "T", 0, b"%d" % (number % 10) * body_size)
        clock.set_wall(clock.now_ms() + {3: BACK_MS, 7: -BACK_MS}.get(number, 60_000))
    return times, 4


def check(store: MessageStore, times: list[int]) -> None:
    for time_ms in times:
        for probe in (time_ms - 1, time_ms, time_ms + 1):
            lower = next((offset for offset, ms in enumerate(times) if ms >= probe), len(times))
            upper = max((offset for offset, ms in enumerate(times) if ms <= probe), default=0)
            assert store.offset_by_time("T", 0, probe) == lower
            assert store.offset_by_time("T", 0, probe, upper=True) == upper


def place(store: MessageStore, offset: int) -> int:
    view = store.queue_view("T", 0)
    assert view is not None
    return view.unit(offset)[0]


def test_a_search_by_time_is_right_after_a_clock_went_back_and_forward() -> None:
    clock = ManualClock()
    store = opened(MemoryFiles(), clock)
    times, first = stored(store, clock)
    assert list(store._log.time_steps.offsets) == [place(store, first)]
    check(store, times)


@pytest.mark.parametrize("how", ["stop", "kill", "kill, without a checkpoint"])
def test_a_start_knows_where_times_went_back(how: str) -> None:
    clock, files = ManualClock(), MemoryFiles()
    store = opened(files, clock)
    times, _ = stored(store, clock)
    if how == "stop":
        store.close()
    else:
        if how == "kill":
            store.checkpoint()
        die(store)
        assert files.exists(FILE) == (how == "kill")
    store = opened(files, clock)
    check(store, times)
    store.close()
    check(opened(files, clock), times)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 300])
def test_a_rebuild_finds_it_in_the_log(count: int) -> None:
    """With numpy, and record by record."""
    clock, files = ManualClock(), MemoryFiles()
    store = make_store(files, clock, segment_size_bytes=1 << 24)
    store.open()
    for body in (bytes(20_000) for _ in range(count)):
        put(store, "T", 0, body)
    before = [clock.now_ms()] * count
    times, _ = stored(store, clock)
    store.close()
    files.remove(FILE)
    files.remove_tree(f"{ROOT}/consumequeue")
    files.remove_tree(f"{ROOT}/digests")
    store = make_store(files, clock, segment_size_bytes=1 << 24)
    store.open()
    check(store, before + times)


@pytest.mark.parametrize("pieces", [[12], [2, 10], [4, 8], [1] * 12])
@pytest.mark.parametrize("body_size", [10, 60_000])
def test_a_slave_notes_it(pieces: list[int], body_size: int) -> None:
    """Whatever the pieces in which it gets and dispatches the log: record by record, or with numpy."""
    clock = ManualClock()
    master, slave = (make_store(MemoryFiles(), clock, segment_size_bytes=1 << 24) for _ in range(2))
    follower = slave.follow()
    master.open()
    slave.open()
    times, first = stored(master, clock, body_size)
    ends = [place(master, number) for number in range(1, 12)] + [master.physical_max_offset]
    start = number = 0
    for count in pieces:
        number += count
        follower.append(start, bytes(master.read_log(start, ends[number - 1] - start)))
        follower.dispatch()
        start = ends[number - 1]
    assert list(slave._log.time_steps.offsets) == [place(slave, first)]
    check(slave, times)


def test_a_truncated_log_forgets_what_lay_behind_its_end() -> None:
    steps = TimeSteps()
    for offset in (10, 20, 30):
        steps.note(offset, DAY_MS, 0)
    steps.truncate(20)
    assert list(steps.offsets) == [10]


def test_short_steps_are_not_noted_and_only_the_newest_are_kept() -> None:
    steps = TimeSteps()
    steps.note(5, STEP_BACK_MIN_MS, 0)
    assert list(steps.offsets) == []
    for offset in range(TIME_STEP_COUNT_MAX + 1, 0, -1):
        steps.note(offset, STEP_BACK_MIN_MS + 1, 0)
        steps.note(offset, STEP_BACK_MIN_MS + 1, 0)
    assert list(steps.offsets) == list(range(2, TIME_STEP_COUNT_MAX + 2))


def test_the_checkpoint_waits_for_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, files = ManualClock(), MemoryFiles()
    store = opened(files, clock)
    times, _ = stored(store, clock)
    with monkeypatch.context() as patch:
        patch.setattr(time_steps.TimeSteps, "save", lambda _: False)
        before = store._checkpoints.newest
        store.checkpoint()
        assert store._checkpoints.newest == before
        assert any("where store times go back" in problem for problem in store.problems)
    die(store)
    check(opened(files, clock), times)


@pytest.mark.parametrize("content", [b"", b'{"physicalOffsets": "x"}', b"[]"])
def test_an_unusable_file_counts_as_empty(content: bytes) -> None:
    clock, files = ManualClock(), MemoryFiles()
    store = opened(files, clock)
    stored(store, clock)
    store.close()
    files.open(FILE).truncate(0)
    files.open(FILE).pwrite(0, content)
    assert opened(files, clock)._log.time_steps.offsets == ()
