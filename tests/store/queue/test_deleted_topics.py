"""A deleted topic stays deleted: after a rebuild from the log, and when its deletion was interrupted."""

from __future__ import annotations

import errno
import os

import pytest

from pymq.errors import StoreUnavailableError
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.queue.deleted_topics import DeletedTopics
from pymq.store.scan import fast_scanner
from pymq.store.store import MessageStore
from tests.store.support import ROOT, die, everything, make_store, put

PATH = f"{ROOT}/config/deletedTopics.json"


def opened(files: MemoryFiles) -> MessageStore:
    store = make_store(files, segment_size_bytes=1 << 16)
    assert store.open().damaged == []
    return store


@pytest.fixture
def files() -> MemoryFiles:
    """Return a log of two topics, one of them deleted and used again with one message."""
    files = MemoryFiles()
    store = opened(files)
    for i in range(25):
        put(store, "T", 0, b"old-%d" % i)
        put(store, "Other", 0, b"other-%d" % i)
    assert store.delete_topics("T") == 1
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
        monkeypatch.setattr(fast_scanner, "PLAIN_BYTES_MAX", 0)
    path = f"{ROOT}/{lost}"
    files.remove_tree(path) if files.is_dir(path) else files.remove(path)
    assert everything(opened(files)) == {("T", 0): [b"new"], ("Other", 0): OTHERS}


def failing(files: MemoryFiles, call: str, after_count: int = 0) -> None:
    """Let a call fail from the ``after_count``-th on."""
    seen: list[str] = []

    def fault(called: str, path: str) -> None:
        if called == call:
            seen.append(path)
            if len(seen) > after_count:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = fault


@pytest.mark.parametrize("call", ["replace consumequeue", "remove_tree"])
@pytest.mark.parametrize("used_again", [False, True])
@pytest.mark.parametrize("clean", [False, True])
def test_a_start_drops_what_a_deletion_left(files: MemoryFiles, call: str, used_again: bool, clean: bool) -> None:
    store = opened(files)
    name, _, _ = call.partition(" ")

    def fault(called: str, path: str) -> None:
        if called == name and "queue" in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    files.fault = fault
    assert store.delete_topics("Other") == 1
    store.delete_segment(None)
    assert files.is_dir(f"{ROOT}/deletedqueues/1") is (name == "remove_tree")
    files.fault = None
    if used_again:
        assert put(store, "Other", 0, b"anew").queue_offset == 0
    store.close() if clean else die(store)
    wanted = {("T", 0): [b"new"], **({("Other", 0): [b"anew"]} if used_again else {})}
    store = opened(files)
    assert everything(store) == wanted
    assert put(store, "Other", 0, b"next").queue_offset == int(used_again)


def test_a_deletion_that_can_not_be_saved_does_not_happen(files: MemoryFiles) -> None:
    store = opened(files)
    failing(files, "replace")
    with pytest.raises(StoreUnavailableError, match="deletedTopics"):
        store.delete_topics("Other")
    files.fault = None
    assert put(store, "Other", 0, b"next").queue_offset == 25
    store.close()
    assert everything(opened(files)) == {("T", 0): [b"new"], ("Other", 0): [*OTHERS, b"next"]}


def test_a_topic_is_usable_when_its_deletion_may_have_reached_the_disk(files: MemoryFiles) -> None:
    store = opened(files)
    failing(files, "sync_dir")
    with pytest.raises(StoreUnavailableError, match="deletedTopics"):
        store.delete_topics("Other")
    files.fault = None
    assert put(store, "Other", 0, b"next").queue_offset == 25
    die(store)
    store = opened(files)
    assert everything(store)["Other", 0][-1] == b"next"
    assert put(store, "Other", 0, b"after").queue_offset == 26


def test_a_deletion_is_forgotten_with_its_records() -> None:
    files = MemoryFiles()
    files.makedirs(f"{ROOT}/config")
    deleted = DeletedTopics(files, PATH)
    deleted.load()
    assert deleted.end("T") == 0
    deleted.raise_to({"T": 1000})
    deleted.raise_to({"U": 3000})
    again = DeletedTopics(files, PATH)
    again.load()
    assert (again.end("T"), again.end("U")) == (1000, 3000)
    again.bound(1000, 2000)  # a log that lost its end reuses these offsets
    assert (again.end("T"), again.end("U")) == (0, 2000)
