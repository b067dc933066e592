"""TailRound: what came after its begin is not counted, however long the look at all queues takes."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from pymq.clock import ManualClock
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.queue import tail_round
from pymq.store.store import MessageStore
from tests.store.lifecycle.test_housekeeping import counted, tails, tick
from tests.store.support import die, everything, make_store, put
from tests.store.test_batch_model import BATCHES, stage_batch, write_topics

LOOKS = 4  # instead of LOOKS_A_CALL
COUNT = 3 * LOOKS - 1  # three ticks look at so many queues, and the third writes


@pytest.fixture(autouse=True)
def few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_round, "LOOKS_A_CALL", LOOKS)


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(files: MemoryFiles, clock: ManualClock) -> MessageStore:
    store = make_store(files, clock)
    store.open()
    for number in range(COUNT):
        put(store, "T", number, b"first")
    return store


def ends(store: MessageStore) -> list[int]:
    return [store.max_offset(*queue) for queue in sorted(store.queues())]


def assert_starts(
    store: MessageStore,
    files: MemoryFiles,
    clock: ManualClock,
    begin: int,
    read: Callable[[MessageStore], Any] = everything,
) -> None:
    """Kill the store behind its next checkpoint. A start believes it, and all messages are there."""
    wanted = read(store)
    store.sync()
    store.checkpoint()
    die(store)
    restarted = make_store(files, clock)
    report = restarted.open()
    assert not report.lost and not report.notes and report.scan_start == begin
    assert read(restarted) == wanted
    restarted.close()


def test_a_call_looks_at_some_queues(store: MessageStore, clock: ManualClock) -> None:
    left = []
    for _ in range(3):
        tick(clock, store)
        left.append(tails(store))
    assert left == [COUNT, COUNT, 0] and counted(store) == COUNT
    store.close()


def test_units_that_come_during_the_look_are_not_counted(
    store: MessageStore, files: MemoryFiles, clock: ManualClock
) -> None:
    begin = store._log.visible_end
    for number in range(3):
        tick(clock, store)
        assert counted(store) == (COUNT if number == 2 else 0)
        for queue_id in range(COUNT + number):  # also in queues that are new
            put(store, "T", queue_id, b"later")
    assert store._checkpoints._written[:2] == begin
    assert_starts(store, files, clock, begin[0])


def test_a_tail_that_is_written_meanwhile_is_counted_as_it_was(
    store: MessageStore, files: MemoryFiles, clock: ManualClock
) -> None:
    begin = store._log.visible_end
    tick(clock, store)
    for queue_id in (0, COUNT - 1):  # one that the round has looked at, and one that it has not
        put(store, "T", queue_id, b"later")
        queue = store._queues.get("T", queue_id)
        assert queue is not None
        store._queues.write_tail(queue)
        put(store, "T", queue_id, b"last")
        store._queues.write_tail(queue)
    tick(clock, store, 2)
    assert counted(store) == COUNT
    assert_starts(store, files, clock, begin[0])


def test_queues_that_are_deleted_meanwhile_are_not_counted(
    store: MessageStore, files: MemoryFiles, clock: ManualClock
) -> None:
    tick(clock, store)
    store.delete_topics("T")
    put(store, "T", 0, b"of a new topic")
    begin = store._log.visible_end[0]
    tick(clock, store, 2)
    assert counted(store) == 0
    tick(clock, store)
    assert counted(store) == 1
    assert_starts(store, files, clock, begin)


def test_a_queue_that_is_deleted_after_a_round_is_not_counted(store: MessageStore, clock: ManualClock) -> None:
    tick(clock, store, 3)
    put(store, "U", 0, b"x")
    store.delete_topics("T")
    assert counted(store) == 0
    store.close()


def test_messages_of_batch_queues_are_counted_as_they_were(files: MemoryFiles, clock: ManualClock) -> None:
    write_topics(files)
    store = make_store(files, clock)
    store.open()

    def put_batches(bodies: list[bytes]) -> None:
        for queue_id in range(COUNT):
            stage_batch(store, BATCHES, queue_id, bodies)
        store.commit()

    put_batches([b"1", b"2", b"3"])
    begin = store._log.visible_end[0]
    for _ in range(3):
        tick(clock, store)
        put_batches([b"4", b"5"])
    noted = store._checkpoints._written[2]
    assert [(end, noted.message_end(queue)) for queue, end in noted] == [(1, 3)] * COUNT
    assert ends(store) == [9] * COUNT
    assert_starts(store, files, clock, begin, ends)


def test_a_failed_write_begins_the_round_again(store: MessageStore, files: MemoryFiles, clock: ManualClock) -> None:
    def full(call: str, path: str) -> None:
        if "consumequeue" in path and call in ("pwrite", "open", "allocate"):
            raise OSError(errno.ENOSPC, "full", path)

    files.fault = full
    tick(clock, store, 3)
    assert any("full" in problem for problem in store.problems) and counted(store) == 0
    put(store, "T", 0, b"later")
    files.fault = None
    tick(clock, store, 3)
    assert store.problems == [] and tails(store) == 0 and counted(store) == COUNT + 1
    store.close()
