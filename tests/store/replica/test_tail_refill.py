"""A log recovers its lost tail, then takes records of its own. A stop that must not count as clean."""

from __future__ import annotations

import errno

import pytest

from pymq.errors import StoreUnavailableError
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.replica.tail_refill import TailRefill
from pymq.store.store import MessageStore
from tests.store.support import ROOT, make_store, put, read_all


def opened(files: MemoryFiles | None = None) -> MessageStore:
    store = make_store(files or MemoryFiles())
    store.open()
    return store


def log_of(store: MessageStore) -> bytes:
    """Return the log, which is one segment."""
    return bytes(store.read_log(0, store.physical_max_offset))


def longer_and_shorter(files: MemoryFiles | None = None) -> tuple[MessageStore, MessageStore]:
    """Return a store with five messages, and one with the first three of them on ``files``."""
    longer, shorter = opened(), opened(files)
    for body in (b"1", b"2", b"3"):
        put(longer, "T", 0, body, keys="k" + body.decode())
    regrowing = TailRefill(shorter)
    regrowing.finish()  # there is nothing to do yet
    regrowing.append(0, log_of(longer))
    regrowing.finish()
    for body in (b"4", b"5"):
        put(longer, "T", 0, body, keys="k" + body.decode())
    return longer, shorter


def test_the_log_refills_in_any_pieces_and_then_takes_own_records() -> None:
    longer, shorter = longer_and_shorter()
    tail = log_of(longer)[shorter.physical_max_offset :]
    regrowing = TailRefill(shorter)
    for piece in (tail[:10], tail[10:]):
        regrowing.append(regrowing.end, piece)
    regrowing.finish()
    assert shorter.synced_offset == shorter.physical_max_offset == longer.physical_max_offset
    put(shorter, "T", 0, b"6")
    assert [message.body for message in read_all(shorter, "T", 0)] == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert [message.queue_offset for message in read_all(shorter, "T", 0)] == [0, 1, 2, 3, 4, 5]
    assert len(shorter.find_by_key("T", "k5", 10)) == 1
    assert shorter.sync() == shorter.dispatched_end == shorter.physical_max_offset
    assert shorter.problems == []


def test_an_incomplete_record_is_dropped_and_its_place_reused() -> None:
    files = MemoryFiles()
    longer, shorter = longer_and_shorter(files)
    regrowing = TailRefill(shorter)
    regrowing.append(regrowing.end, log_of(longer)[regrowing.end : -1])
    regrowing.finish()
    put(shorter, "T", 0, b"other")
    assert [message.body for message in read_all(shorter, "T", 0)] == [b"1", b"2", b"3", b"4", b"other"]
    shorter.close()
    again = make_store(files)
    report = again.open()
    assert report.clean and report.truncated_bytes == 0
    assert [message.body for message in read_all(again, "T", 0)] == [b"1", b"2", b"3", b"4", b"other"]


def test_a_failing_disk_is_reported() -> None:
    files = MemoryFiles()
    longer, shorter = longer_and_shorter(files)

    def fault(call: str, path: str) -> None:
        if call == "sync":
            raise OSError(errno.EIO, "Input/output error", path)

    regrowing = TailRefill(shorter)
    regrowing.append(regrowing.end, log_of(longer)[regrowing.end :])
    files.fault = fault
    with pytest.raises(StoreUnavailableError, match="fsync"):
        regrowing.finish()


def test_a_stop_that_must_not_count_as_clean_is_recovered() -> None:
    files = MemoryFiles()
    store = opened(files)
    put(store, "T", 0, b"1")
    store.close(as_clean=False)
    assert files.exists(f"{ROOT}/abort")
    again = make_store(files)
    assert not again.open().clean
    assert [message.body for message in read_all(again, "T", 0)] == [b"1"]
    again.close()
    assert not files.exists(f"{ROOT}/abort")
