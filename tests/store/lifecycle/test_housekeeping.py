"""Housekeeping: what ticks write after messages, and that they do nothing at rest."""

from __future__ import annotations

import errno

import pytest

from pymq.clock import ManualClock
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.lifecycle.housekeeping import (
    TAILS_A_TICK,
    TAILS_A_TICK_MIN,
    TICKS_A_ROUND,
    Housekeeping,
)
from pymq.store.store import MessageStore
from tests.store.support import die, make_store, put

MESSAGE_COUNT = 20  # more than one segment
TICK_MS = 1000  # long enough that every tick may write


def filled() -> tuple[MemoryFiles, ManualClock, MessageStore]:
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock)
    store.open()
    for number in range(MESSAGE_COUNT):
        put(store, "T", number % 2, b"x" * 300, keys=f"k{number}")
    return files, clock, store


def tick(clock: ManualClock, store: MessageStore, count: int = 1) -> None:
    for _ in range(count):
        clock.advance(TICK_MS)
        store.tick()


def counted(store: MessageStore) -> int:
    """Return the number of units that the next checkpoint says."""
    return store._checkpoints._written[2].unit_count


def calls_of(files: MemoryFiles) -> list[tuple[str, str]]:
    """Return a list that collects the calls of the file system from now on."""
    calls: list[tuple[str, str]] = []
    files.fault = lambda call, path: calls.append((call, path))
    return calls


def test_a_tick_writes_queues_index_and_checkpoint() -> None:
    files, clock, store = filled()
    calls = calls_of(files)
    tick(clock, store, 3)
    written = {path.rsplit("/", 2)[0] for call, path in calls if call == "pwrite"}
    assert "/store/consumequeue/T" in written
    assert any("digests" in path for call, path in calls)
    assert counted(store) == MESSAGE_COUNT


def test_ticks_without_messages_touch_no_file() -> None:
    files, clock, store = filled()
    tick(clock, store, 3)
    calls = calls_of(files)
    tick(clock, store, 20)
    assert calls == []
    put(store, "T", 0, b"one more")
    tick(clock, store, 3)
    assert any("consumequeue" in path for _, path in calls)


def test_a_segment_that_was_synced_settles_without_another_message() -> None:
    files, clock, store = filled()
    tick(clock, store, 3)
    assert store._log.segments[0].sealed
    calls = calls_of(files)
    store.sync()
    tick(clock, store)
    assert any(call == "pwrite" and "digests" in path for call, path in calls)


@pytest.mark.parametrize("place", ["consumequeue", "digests"])
def test_a_failed_write_is_tried_again(place: str) -> None:
    files, clock, store = filled()

    def full(call: str, path: str) -> None:
        if place in path and call in ("pwrite", "open", "allocate"):
            raise OSError(errno.ENOSPC, "full", path)

    files.fault = full
    tick(clock, store, 3)
    assert any("full" in problem for problem in store.problems)
    files.fault = None
    tick(clock, store)
    assert store.problems == []


def test_keys_inserted_later_move_the_checkpoint() -> None:
    """One batch a tick is inserted, the last one long after the queues are written."""
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock, index_batch_count=100_000)
    store.open()
    for number in range(1000):
        put(store, "T", 0, b"x", keys=f"k{number}")
    assert store._index is not None
    while store._index.waiting:
        tick(clock, store)
    assert store._checkpoints._written[3] == store._index.position()


def tails(store: MessageStore) -> int:
    return sum(bool(queue.tail) for queue in store._queues)


def test_tails_of_many_queues_are_written_in_several_ticks_and_counted_then() -> None:
    clock = ManualClock()
    store = make_store(MemoryFiles(), clock)
    store.open()
    count = TAILS_A_TICK + 10
    for number in range(count):
        put(store, "T", number, b"x")
    left: list[int] = []
    while not left or left[-1]:
        assert counted(store) == 0
        tick(clock, store)
        left.append(tails(store))
    assert left == [*range(count - TAILS_A_TICK_MIN, 0, -TAILS_A_TICK_MIN), 0]
    tick(clock, store)
    assert counted(store) == count
    put(store, "T", 0, b"x")
    tick(clock, store)
    assert tails(store) == 0 and counted(store) == count + 1
    store.close()


@pytest.mark.parametrize(
    ("waiting", "written"),
    [
        (0, 0),
        (TAILS_A_TICK, TAILS_A_TICK),
        (TAILS_A_TICK + 1, TAILS_A_TICK_MIN),
        (TICKS_A_ROUND * TAILS_A_TICK_MIN, TAILS_A_TICK_MIN),
        (TICKS_A_ROUND * 100, 100),
        (TICKS_A_ROUND * TAILS_A_TICK + TICKS_A_ROUND, TAILS_A_TICK),
    ],
)
def test_a_tick_writes_a_share_of_the_tails_of_many_queues(waiting: int, written: int) -> None:
    assert Housekeeping._tails_a_tick(waiting) == written


def test_a_round_counts_what_it_began_with_while_many_queues_get_messages() -> None:
    """No tick writes all tails. The checkpoint vouches for the units of the round's begin; a start adds the rest."""
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock)
    store.open()
    count, ticks, begin = TAILS_A_TICK + 1, 0, (0, 0)
    while counted(store) == 0:
        for number in range(count):
            put(store, "T", number, b"x")
        begin = begin if ticks else store._log.visible_end
        tick(clock, store)
        ticks += 1
        assert tails(store) >= count - TAILS_A_TICK_MIN
    assert ticks == -(-count // TAILS_A_TICK_MIN)
    assert (*store._checkpoints._written[:2], counted(store)) == (*begin, count)
    store.sync()
    store.checkpoint()
    die(store)
    restarted = make_store(files, clock)
    report = restarted.open()
    assert not report.lost and report.scan_start <= begin[0]
    assert {restarted.max_offset("T", number) for number in range(count)} == {ticks}
    restarted.close()


def test_a_round_forgets_queues_that_are_deleted_meanwhile() -> None:
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock)
    store.open()
    count = TAILS_A_TICK + 1
    for number in range(count):
        put(store, "T", number, b"x")
        put(store, "Gone", number, b"x")
    tick(clock, store)
    store.delete_topics("Gone")
    put(store, "Gone", 0, b"of a new topic")
    while counted(store) == 0:
        tick(clock, store)
    assert counted(store) == count
    store.close()


def test_a_whole_write_ends_a_round() -> None:
    """A round's ends are older than those of a write of everything: they would take the checkpoint back."""
    store = make_store(MemoryFiles(), clock := ManualClock())
    store.open()
    count = TAILS_A_TICK + 1
    for number in range(count):
        put(store, "T", number, b"x")
    tick(clock, store)
    put(store, "T", 0, b"x")
    store._housekeeping.write()
    assert counted(store) == count + 1 and tails(store) == 0
    for _ in range(20):
        tick(clock, store)
        assert counted(store) == count + 1
    store.close()


def test_a_deleted_queue_s_tail_is_not_written() -> None:
    files, clock = MemoryFiles(), ManualClock()
    store = make_store(files, clock)
    store.open()
    for number in range(TAILS_A_TICK + 1):
        put(store, "T", number, b"x")
    tick(clock, store)
    store.delete_topics("T")
    tick(clock, store, 3)
    assert files.listdir("/store/consumequeue/T") == []
    store.close()
