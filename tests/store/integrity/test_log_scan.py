"""LogScan: finds damaged blocks anywhere in the log, and takes only bytes that their digests fit."""

from __future__ import annotations

import pytest

from pymq.errors import CorruptRecordError
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.integrity import log_scan as log_scan_module
from pymq.store.integrity.digest_file import BLOCK_SIZE_BYTES
from pymq.store.integrity.log_scan import LogScan
from pymq.store.store import MessageStore
from tests.store.integrity.test_digests import SEGMENT_BYTES, filled, flip, read_one, records


def scan_of(store: MessageStore) -> LogScan:
    assert store.scan is not None
    return store.scan


def scanned(store: MessageStore) -> dict[int, int]:
    scan = scan_of(store)
    while not scan.is_over:
        scan.step(2 * BLOCK_SIZE_BYTES)
    return scan.damaged


def good(store: MessageStore, start: int, size: int) -> bytes:
    return bytes(store.read_log(start, size))


def test_a_sound_log_has_no_damaged_blocks() -> None:
    store = filled(MemoryFiles(), 300)
    assert store.physical_max_offset > 2 * SEGMENT_BYTES and scanned(store) == {}


@pytest.mark.parametrize("place", ["sealed", "open", "tail"])
def test_damage_is_found_and_mended_in_each_part_of_the_log(place: str) -> None:
    files = MemoryFiles()
    store = filled(files, 300)
    end = store.physical_max_offset
    newest = end // SEGMENT_BYTES * SEGMENT_BYTES
    at = {"sealed": BLOCK_SIZE_BYTES + 100, "open": newest + 100, "tail": end - 10}[place]
    start = at // BLOCK_SIZE_BYTES * BLOCK_SIZE_BYTES
    size = min(BLOCK_SIZE_BYTES, end - start)
    before = good(store, start, size)
    for bit in (1, 3, 6):
        flip(files, store, at, bit)
    assert scanned(store) == {start: start + size}
    scan, damaged = scan_of(store), good(store, start, size)
    wrong = bytearray(before)
    wrong[7] ^= 1
    for data in (bytes(wrong), before[:-1], before + b"x", bytes(size)):
        assert not scan.mend(start, data), "bytes from elsewhere count by their digest alone"
        assert good(store, start, size) == damaged
    assert scan.mend(start, before) and scan.damaged == {}
    assert good(store, start, size) == before and not scan.mend(start + SEGMENT_BYTES, before)


def test_what_a_reader_meets_is_looked_at() -> None:
    """Also behind the part that a start looks at."""
    files = MemoryFiles()
    store = filled(files, 300)
    assert scanned(store) == {}
    row = records(store)[20]
    last = row[3] + row[4] - 5
    start = last // BLOCK_SIZE_BYTES * BLOCK_SIZE_BYTES
    before, body = good(store, start, BLOCK_SIZE_BYTES), read_one(store, row)
    flip(files, store, last, 2)
    with pytest.raises(CorruptRecordError):
        read_one(store, row)
    scan = scan_of(store)
    scan.step(BLOCK_SIZE_BYTES)
    for each in list(scan.damaged):
        scan.mend(each, before if each == start else good(store, each, BLOCK_SIZE_BYTES))
    assert start not in scan.damaged and read_one(store, row) == body


def test_a_start_looks_at_so_many_of_the_newest_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_scan_module, "SCANNED_BYTES_MAX", SEGMENT_BYTES)
    files = MemoryFiles()
    store = filled(files, 300)
    flip(files, store, 100, 1)
    assert scanned(store) == {}, "the scrubber finds it"


def test_so_many_damaged_blocks_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_scan_module, "PLACES_MAX", 3)
    files = MemoryFiles()
    store = filled(files, 300)
    for block in range(5):
        flip(files, store, block * BLOCK_SIZE_BYTES + 9, 1)
    assert len(scanned(store)) == 3


def test_what_is_gone_needs_nothing() -> None:
    files = MemoryFiles()
    store = filled(files, 300)
    end = store.physical_max_offset
    flip(files, store, end - 10, 1)
    flip(files, store, 100, 1)
    assert len(scanned(store)) == 2
    scan_of(store).forget_behind(end - 20)
    assert list(scan_of(store).damaged) == [0]
