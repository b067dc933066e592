"""Scrubbing finds damage in sealed segments before a read does, and gives digests to blocks without one."""

from __future__ import annotations

import pytest

from pymq.errors import CorruptRecordError
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.integrity import scrubber as scrubber_module
from pymq.store.integrity.digest_file import BLOCK_SIZE_BYTES, UNKNOWN, split_digests
from pymq.store.integrity.scrubber import Scrubber
from pymq.store.store import MessageStore
from tests.store.integrity.test_digests import LOG, SEGMENT_BYTES, SIDE, SIZES, filled, flip, read_one, records
from tests.store.support import drop_oldest, everything, make_store, put


def run_pass(store: MessageStore) -> Scrubber:
    """Run one whole pass in the calling thread."""
    scrubber = store._scrubber
    assert scrubber is not None
    while (piece := scrubber.next_piece()) is not None:
        piece.run()
        scrubber.finish(piece)
    return scrubber


def reopened(files: MemoryFiles) -> MessageStore:
    store = make_store(files, **SIZES)
    store.open()
    return store


def unknown_blocks(store: MessageStore) -> list[int]:
    assert store._digests is not None
    blocks = split_digests(store._digests.table.get(0, 0, SEGMENT_BYTES // BLOCK_SIZE_BYTES))
    return [number for number, digest in enumerate(blocks) if digest == UNKNOWN]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrubber_module, "COMPARED_BYTES", 3 * BLOCK_SIZE_BYTES)
    monkeypatch.setattr(scrubber_module, "PROVEN_BYTES", 2 * BLOCK_SIZE_BYTES)


def test_a_pass_reads_all_sealed_segments_and_no_other() -> None:
    store = filled(MemoryFiles(), 300)
    sealed = [segment for segment in store._log.segments if segment.sealed]
    assert len(sealed) > 1
    scrubber = run_pass(store)
    assert (scrubber.bytes_read, scrubber.pass_count) == (len(sealed) * SEGMENT_BYTES, 1)
    assert (scrubber.found, store.problems) == ({}, [])
    run_pass(store)
    assert (scrubber.bytes_read, scrubber.pass_count) == (2 * len(sealed) * SEGMENT_BYTES, 2)


def test_a_store_with_one_segment_has_nothing_to_scrub() -> None:
    store = filled(MemoryFiles(), 5)
    assert run_pass(store).bytes_read == 0


@pytest.mark.parametrize("block", range(SEGMENT_BYTES // BLOCK_SIZE_BYTES))
def test_a_flipped_bit_in_any_block_is_found_and_logged_once(block: int, caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    store = filled(files, 150)
    at = block * BLOCK_SIZE_BYTES + 77 * block
    flip(files, store, at, 3)
    scrubber = run_pass(store)
    assert scrubber.found == {at: at + 1}
    run_pass(store)
    assert [record.args[:2] for record in caplog.records if isinstance(record.args, tuple)] == [(at, at + 1)]
    assert any(f"first at offset {at}:" in problem for problem in store.problems)


def test_damage_that_is_gone_on_the_second_read_does_not_count() -> None:
    files = MemoryFiles()
    store = filled(files, 150)
    scrubber = store._scrubber
    assert scrubber is not None
    piece = scrubber.next_piece()
    assert piece is not None
    flip(files, store, 500, 3)
    piece.run()
    assert piece.is_suspect
    flip(files, store, 500, 3)
    scrubber.finish(piece)
    assert scrubber.found == {}


def test_blocks_without_digests_get_them() -> None:
    files = MemoryFiles()
    filled(files, 150).close()
    files.remove_tree(SIDE)
    store = reopened(files)
    assert unknown_blocks(store) == list(range(SEGMENT_BYTES // BLOCK_SIZE_BYTES))
    run_pass(store)
    assert unknown_blocks(store) == []
    row = records(store)[2]
    flip(files, store, row[3] + 60, 1)  # a time: no CRC covers it
    with pytest.raises(CorruptRecordError):
        read_one(store, row)


@pytest.mark.parametrize("left", range(1, 100, 3))
def test_records_may_begin_anywhere_before_the_end_of_a_piece(left: int) -> None:
    """The piece may end before the record's magic."""
    files = MemoryFiles()
    store = make_store(files, **SIZES)
    store.open()
    first = put(store, "T", 0, b"")
    put(store, "T", 0, bytes(2 * BLOCK_SIZE_BYTES - left - 2 * first.size_bytes))
    assert put(store, "T", 0, b"x" * 300).physical_offset == 2 * BLOCK_SIZE_BYTES - left
    while len(store._log.segments) < 2:
        put(store, "T", 0, b"x" * 300)
    store.close()
    files.remove_tree(SIDE)
    store = reopened(files)
    assert run_pass(store).found == {}
    assert unknown_blocks(store) == []


def test_blocks_without_digests_and_with_damage_stay_without() -> None:
    files = MemoryFiles()
    filled(files, 150).close()
    files.remove_tree(SIDE)
    row = next(row for row in records(reopened(files.after_kill())) if row[3] > 2 * BLOCK_SIZE_BYTES)
    files.nodes[f"{LOG}/{0:020d}"].data[row[3] + 100] ^= 1  # its body
    store = reopened(files.after_kill())
    scrubber = run_pass(store)
    assert scrubber.found == {row[3]: row[3] + row[4]}
    damaged = range(row[3] // BLOCK_SIZE_BYTES, (row[3] + row[4] - 1) // BLOCK_SIZE_BYTES + 1)
    assert unknown_blocks(store) == list(damaged)


def test_an_unreadable_part_is_reported_and_the_pass_continues() -> None:
    files = MemoryFiles()
    store = filled(files, 300)

    def fault(call: str, path: str) -> None:
        if call == "pread" and path == f"{LOG}/{0:020d}":
            raise OSError(5, "Input/output error", path)

    files.fault = fault
    scrubber = run_pass(store)
    assert set(scrubber.found) == set(range(0, SEGMENT_BYTES, 3 * BLOCK_SIZE_BYTES))
    assert scrubber.pass_count == 1


def test_a_segment_that_is_deleted_meanwhile_is_left_alone() -> None:
    files = MemoryFiles()
    store = filled(files, 300)
    scrubber = store._scrubber
    assert scrubber is not None
    piece = scrubber.next_piece()
    assert piece is not None
    flip(files, store, 500, 3)
    drop_oldest(store)
    piece.run()
    scrubber.finish(piece)
    assert (scrubber.found, scrubber.bytes_read) == ({}, 0)
    assert run_pass(store).bytes_read > 0
    assert sum(map(len, everything(store).values())) > 100
