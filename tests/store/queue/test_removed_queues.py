"""Queues go in one step, and their files later, some at a time."""

from __future__ import annotations

import errno
import os
from collections import Counter

import pytest

from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.queue.removed_queues import QUEUES_A_PIECE, RemovedQueues
from pymq.store.store import MessageStore
from tests.store.support import ROOT, die, everything, make_store, put

ASIDE = f"{ROOT}/deletedqueues"


def with_queues(count: int) -> tuple[MessageStore, MemoryFiles]:
    """Return a store with so many queues of the topic T, whose units are in files, and one of U."""
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    for number in range(count):
        put(store, "T", number, b"%d" % number)
    put(store, "U", 0, b"stays")
    store._housekeeping.write()
    store.checkpoint()
    return store, files


def calls_of_a_deletion(count: int) -> Counter[str]:
    store, files = with_queues(count)
    calls: Counter[str] = Counter()
    files.fault = lambda call, path: calls.update([call])
    assert store.delete_topics("T") == count
    return calls


def test_a_deletion_calls_the_disk_no_more_often_for_more_queues() -> None:
    calls = calls_of_a_deletion(2)
    assert calls == calls_of_a_deletion(40)
    assert calls["remove_tree"] == calls["remove"] == 0


def test_a_piece_removes_a_bounded_number_of_queues() -> None:
    store, files = with_queues(7)
    store.delete_topics("T")
    left = []
    while store.has_waste:
        store._queues.removed.work(3)
        left.append(len(files.listdir(f"{ASIDE}/0")))
    assert left == [4, 1, 0] and files.listdir(ASIDE) == []
    assert everything(store) == {("U", 0): [b"stays"]}


def test_a_worker_s_piece_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = with_queues(1)
    store.delete_topics("T")
    wanted: list[int] = []
    monkeypatch.setattr(RemovedQueues, "_remove_some", lambda _, path, count_max: wanted.append(count_max) or count_max)
    store.delete_segment(None)
    assert wanted == [QUEUES_A_PIECE]


def test_a_new_topic_of_the_name_keeps_its_files() -> None:
    store, files = with_queues(3)
    store.delete_topics("T")
    assert put(store, "T", 1, b"new").queue_offset == 0
    store._housekeeping.write()
    while store.has_waste:
        store.delete_segment(None)
    store.close()
    assert files.listdir(f"{ROOT}/consumequeue/T") == ["1"]
    store = make_store(files)
    store.open()
    assert everything(store) == {("T", 1): [b"new"], ("U", 0): [b"stays"]}


def test_the_next_start_goes_on() -> None:
    store, files = with_queues(5)
    store.delete_topics("T")
    store._queues.removed.work(2)
    die(store)
    store = make_store(files)
    report = store.open()
    assert store.has_waste and report.notes == []
    put(store, "V", 0, b"another")
    store._housekeeping.write()
    store.delete_topics("V")
    assert sorted(files.listdir(ASIDE)) == ["0", "1"]
    while store.has_waste:
        store.delete_segment(None)
    assert files.listdir(ASIDE) == []


def test_a_crash_before_the_checkpoint_makes_no_queue_again() -> None:
    store, files = with_queues(5)
    store.delete_topics("T")
    die(store)
    store = make_store(files)
    report = store.open()
    assert report.notes == [] and report.records_scanned == 0
    assert everything(store) == {("U", 0): [b"stays"]}


def test_what_the_disk_refuses_to_remove_is_tried_again() -> None:
    store, files = with_queues(2)
    store.delete_topics("T")

    def fault(call: str, path: str) -> None:
        if call == "remove_tree":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)

    files.fault = fault
    while store.has_waste:
        store.delete_segment(None)
    text = f"{ASIDE}/0/0/{0:020d} stays: Permission denied; it is deleted, the next pass tries again"
    assert store.problems == [text]
    files.fault = None
    store._expiry.sweep_again()
    assert store.has_waste and store.problems == []
    store.delete_segment(None)
    assert files.listdir(ASIDE) == []


def test_expired_queues_go_the_same_way() -> None:
    store, files = with_queues(3)
    store.delete_queues([("T", 0), ("T", 2)])
    assert files.listdir(f"{ROOT}/consumequeue/T") == ["1"] and sorted(files.listdir(ASIDE)) == ["0", "1"]
    assert set(everything(store)) == {("T", 1), ("U", 0)}
    store.checkpoint()
    die(store)
    store = make_store(files)
    assert store.open().notes == []
    assert set(everything(store)) == {("T", 1), ("U", 0)}


@pytest.mark.parametrize("is_mixed", [False, True])
def test_a_slave_deletes_what_its_master_deleted(is_mixed: bool) -> None:
    store, files = with_queues(3)
    end = store.physical_max_offset
    if is_mixed:
        put(store, "T", 1, b"new")
        store._housekeeping.write()
    assert store.delete_topics_below({"T": end}) == ["T"]
    assert files.listdir(f"{ROOT}/consumequeue") == (["T", "U"] if is_mixed else ["U"])
    assert ("T", 1) in everything(store) or not is_mixed
    assert len(files.listdir(ASIDE)) == (2 if is_mixed else 1)
