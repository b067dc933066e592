"""A deleted topic stays deleted: after a rebuild from the log, and when its deletion was interrupted."""

from __future__ import annotations

import errno
import os

import pytest

from pymq.store import recovery
from pymq.store.deleted_topics import DeletedTopics
from pymq.store.memory_fs import MemoryFiles
from pymq.store.store import MessageStore
from tests.store.support import ROOT, die, everything, make_store, put

PATH = f"{ROOT}/config/deletedTopics.json"


def opened(files: MemoryFiles) -> MessageStore:
    store = make_store(files, segment_size_bytes=1 << 16)
    assert store.open().damaged == []
    return store


@pytest.fixture
def files() -> MemoryFiles:
    """A log of two topics, one of them deleted and used again with one message."""
    files = MemoryFiles()
    store = opened(files)
    for i in range(25):
        put(store, "T", 0, b"old-%d" % i)
        put(store, "Other", 0, b"other-%d" % i)
    assert store.delete_topic("T") == 1
    put(store, "T", 0, b"new")
    store.close()
    return files


OTHERS = [b"other-%d" % i for i in range(25)]


@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("lost", ["consumequeue", "checkpoint"])
def test_a_rebuild_leaves_deleted_records_out(
    files: MemoryFiles, lost: str, bulk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bulk:
        monkeypatch.setattr(recovery, "PLAIN_BYTES_MAX", 0)
    path = f"{ROOT}/{lost}"
    files.remove_tree(path) if files.is_dir(path) else files.remove(path)
    assert everything(opened(files)) == {("T", 0): [b"new"], ("Other", 0): OTHERS}


def test_a_start_finishes_an_interrupted_deletion(files: MemoryFiles) -> None:
    store = opened(files)

    def fault(call: str, path: str) -> None:
        if call == "remove_tree":
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = fault
    with pytest.raises(OSError, match="error"):
        store.delete_topic("Other")
    files.fault = None
    die(store)
    assert everything(opened(files)) == {("T", 0): [b"new"]}


def test_a_topic_whose_deletion_failed_lives_on(files: MemoryFiles) -> None:
    store = opened(files)
    calls: list[str] = []

    def fault(call: str, path: str) -> None:
        if call == "remove_tree":
            calls.append(path)
            if len(calls) > 1:  # one file of several goes
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = fault
    with pytest.raises(OSError, match="error"):
        store.delete_topic("Other")
    files.fault = None
    assert put(store, "Other", 0, b"next").queue_offset == 25
    store.close()
    store = opened(files)
    assert everything(store)["Other", 0][-1] == b"next"
    assert store.delete_topic("Other") == 1
    assert put(store, "Other", 0, b"anew").queue_offset == 0


def test_a_deletion_is_forgotten_with_its_records() -> None:
    files = MemoryFiles()
    files.makedirs(f"{ROOT}/config")
    deleted = DeletedTopics(files, PATH)
    deleted.load()
    assert deleted.end("T") == 0
    deleted.add("T", 1000)
    deleted.add("U", 3000)
    again = DeletedTopics(files, PATH)
    again.load()
    assert (again.end("T"), again.end("U")) == (1000, 3000)
    again.bound(1000, 2000)  # a log that lost its end gives these offsets to others
    assert (again.end("T"), again.end("U")) == (0, 2000)
