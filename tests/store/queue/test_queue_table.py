"""QueueTable: how a start reads queue files, also when a power loss took one from the middle."""

from __future__ import annotations

import pytest

from pymq.store.disk.memory_fs import MemoryFiles
from tests.store.support import ROOT, die, everything, make_store, put

QUEUE = f"{ROOT}/consumequeue/T/0"


def queue_file(number: int) -> str:
    return f"{QUEUE}/{number * 200:020d}"


@pytest.mark.parametrize("lost", [2, 3, 4])
def test_a_lost_unsynced_file_does_not_drop_older_ones(lost: int) -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    for number in range(20):
        put(store, "T", 0, b"%d" % number)
    store._housekeeping.write()
    store.checkpoint()
    for number in range(20, 60):
        put(store, "T", 0, b"%d" % number)
    store._housekeeping.write()
    # The log's newer bytes are gone, and one of the queue's newer files.
    after = files.after_power_loss(lambda path, _: "commitlog" not in path, lambda path: path != queue_file(lost))
    die(store)
    store = make_store(after)
    store.open()
    assert store.max_offset("T", 0) == 20
    assert everything(store) == {("T", 0): [b"%d" % number for number in range(20)]}
    assert put(store, "T", 0, b"next").queue_offset == 20
    store._housekeeping.write()
    assert [path for path in sorted(after.nodes) if path.startswith(QUEUE)] == [queue_file(n) for n in range(3)]


def test_a_file_deleted_by_hand_is_made_again() -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    for number in range(60):
        put(store, "T", 0, b"%d" % number)
    store.close()
    files.remove(queue_file(1))
    store = make_store(files)
    store.open()
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, 60)
    assert everything(store) == {("T", 0): [b"%d" % number for number in range(60)]}


def test_several_queues_of_a_topic_at_once() -> None:
    store = make_store(MemoryFiles())
    store.open()
    put(store, "T", 1, b"one")
    put(store, "U", 2, b"of another topic")
    views = store.queue_views_of("T", range(3))
    assert views == [None, store.queue_view("T", 1), None]
    assert store.queue_views_of("T", range(1, 1)) == []
