"""Pauses: of a long time without a broker, one day counts, unless the clock is set back behind it."""

from __future__ import annotations

import errno

import pytest

from pymq.clock import ManualClock
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.lifecycle.pauses import NOTE_INTERVAL_MS, PAUSE_COUNT_MAX, PAUSE_COUNTED_MS, Pauses

START_MS = 1_700_000_000_000
YEAR_MS = 365 * 86_400_000
PATH = "/s/config/pauses.json"


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs("/s/config")
    return files


def started(files: MemoryFiles, now_ms: int, last_store_ms: int = 0) -> tuple[Pauses, str | None]:
    pauses = Pauses(files, "/s", ManualClock(now_ms))
    text = pauses.load(last_store_ms)
    pauses.save()
    return pauses, text


def test_a_pause_counts_a_day_and_only_for_what_was_there_before(files: MemoryFiles) -> None:
    started(files, START_MS)
    pauses, text = started(files, START_MS + YEAR_MS)
    assert "for 365 days by the clock" in str(text) and "deleteExpiredCommitLog" in str(text)
    assert pauses.uncounted_ms(START_MS - 9) == pauses.uncounted_ms(START_MS) == YEAR_MS - PAUSE_COUNTED_MS
    assert pauses.uncounted_ms(START_MS + PAUSE_COUNTED_MS + 1) == pauses.uncounted_ms(START_MS + YEAR_MS) == 0
    # It lasts over restarts, under the same clock.
    pauses, text = started(files, START_MS + YEAR_MS + 5)
    assert text is None and pauses.uncounted_ms(START_MS) == YEAR_MS - PAUSE_COUNTED_MS
    # The clock was wrong, and is right again: there was no pause, also when it is set while the broker runs.
    running = Pauses(files, "/s", clock := ManualClock(START_MS + YEAR_MS + 6))
    running.load(0)
    clock.set_wall(START_MS + 7)
    assert running.note_now() and running.uncounted_ms(START_MS) == 0
    pauses, text = started(files, START_MS + 7)
    assert text is None and pauses.uncounted_ms(START_MS) == 0


@pytest.mark.parametrize(("off_ms", "is_pause"), [(PAUSE_COUNTED_MS, False), (PAUSE_COUNTED_MS + 1, True)])
@pytest.mark.parametrize("from_log", [False, True])
def test_a_day_is_no_pause(files: MemoryFiles, off_ms: int, is_pause: bool, from_log: bool) -> None:
    if not from_log:
        started(files, START_MS)
    pauses, text = started(files, START_MS + off_ms, START_MS if from_log else START_MS - YEAR_MS)
    assert (text is not None) == is_pause and pauses.uncounted_ms(START_MS) == int(is_pause)


def test_the_time_seen_is_saved_each_hour(files: MemoryFiles) -> None:
    pauses = Pauses(files, "/s", clock := ManualClock(START_MS))
    assert pauses.load(0) is None and pauses.note_now()
    pauses.save()
    clock.advance(NOTE_INTERVAL_MS - 1)
    assert not pauses.note_now()
    clock.advance(1)
    assert pauses.note_now()

    def fail(call: str, path: str) -> None:
        raise OSError(errno.ENOSPC, "full", path)

    files.fault = fail
    pauses.save()
    files.fault = None
    assert pauses.note_now()
    pauses.save()
    assert not pauses.note_now()


def test_an_empty_store_has_no_pause_and_a_damaged_file_counts_as_empty(files: MemoryFiles) -> None:
    assert started(files, START_MS)[1] is None
    for raw in (b"{", b"[]", b'{"seenMs": "x", "pauses": 3}'):
        for path in (PATH, PATH + ".bak"):
            file = files.open(path, create=True)
            file.truncate(0)
            file.pwrite(0, raw)
        assert started(files, START_MS + YEAR_MS)[1] is None


def test_pauses_are_bounded(files: MemoryFiles) -> None:
    for number in range(PAUSE_COUNT_MAX + 3):
        pauses, _ = started(files, START_MS + number * YEAR_MS)
    assert pauses.uncounted_ms(0) == PAUSE_COUNT_MAX * (YEAR_MS - PAUSE_COUNTED_MS)
