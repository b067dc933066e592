"""Digests: a read finds every flipped bit, which costs one message. Rewritten bytes lose their digests."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import CorruptRecordError, UnreadableError
from pymq.model.record import decode_records
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.integrity import digests as digests_module
from pymq.store.integrity.damage import explain, find_flip
from pymq.store.integrity.digest_file import (
    BLOCK_SIZE_BYTES,
    BLOCKS_PER_PAGE,
    BLOCKS_PER_SECTOR,
    DIGEST_SIZE_BYTES,
    PAGES_IN_MEMORY_MAX,
    SECTOR_SIZE_BYTES,
    DigestFiles,
    DigestHeader,
    OpenBlock,
)
from pymq.store.integrity.digests import Digests, block_digests
from pymq.store.store import MessageStore
from tests.store.support import ROOT, die, everything, make_store, put, stage

LOG = f"{ROOT}/commitlog"
SIDE = f"{ROOT}/digests"
SEGMENT_BYTES = 1 << 15
SIZES: dict[str, Any] = {"segment_size_bytes": SEGMENT_BYTES, "queue_file_size_bytes": 4000}


def filled(files: MemoryFiles, count: int, **sizes: int) -> MessageStore:
    """Return a store of ``count`` messages of uneven sizes in two queues and a second topic, all digested."""
    store = make_store(files, **{**SIZES, **sizes})
    store.open()
    chance = random.Random(5)
    for i in range(count):
        body = chance.randbytes(chance.randrange(20, 400))
        stage(store, "AB"[i % 7 == 0], i % 2, body, tags="t", keys=f"k{i}")
        if i % 10 == 9:
            store.commit()
    store.commit()
    store.tick()
    return store


def segment_path(store: MessageStore, offset: int) -> tuple[str, int]:
    segment = store._log.find(offset)
    assert segment is not None
    return segment.file.path, offset - segment.start


def flip(files: MemoryFiles, store: MessageStore, offset: int, bit: int) -> None:
    path, at = segment_path(store, offset)
    files.nodes[path].data[at] ^= 1 << bit


def records(store: MessageStore) -> list[tuple[str, int, int, int, int]]:
    """Return (topic, queue id, queue offset, physical offset, size) of every message, from its unit."""
    found = []
    for topic, queue_id in store.queues():
        queue = store._queues.get(topic, queue_id)
        assert queue is not None
        for offset in range(queue.min_offset, queue.max_offset):
            physical_offset, size, _ = queue.unit(offset)
            found.append((topic, queue_id, offset, physical_offset, size))
    return sorted(found, key=lambda row: row[3])


def read_one(store: MessageStore, row: tuple[str, int, int, int, int]) -> bytes:
    result = store.get(row[0], row[1], row[2], 1, 1 << 20)
    return b"".join(result.chunks)


def test_catching_up_gives_mapped_pages_back(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, budget = 1 << 16, 1 << 15
    monkeypatch.setattr(digests_module, "RESIDENT_BYTES_MAX", limit)
    store = filled(MemoryFiles(), 0, segment_size_bytes=1 << 20)
    put(store, "T", 0, bytes(600_000))
    (segment,) = store._log.segments
    released = []
    monkeypatch.setattr(type(segment.file), "release", lambda file, view: released.append(len(view)))
    assert store._digests is not None
    resident = []
    while store._digests.next_offset < 590_000:
        store._digests.work(budget)
        resident.append(segment.resident_bytes)
    assert max(resident) <= limit
    assert len(released) == 600_000 // (limit + budget), "each time one piece more than the limit was read"


@pytest.mark.slow
def test_any_flipped_bit_costs_exactly_one_message() -> None:
    """Flips a few bits of every byte of 100 messages, and every bit of one of them."""
    files = MemoryFiles()
    store = filled(files, 100)
    rows = records(store)
    assert len(store._log.segments) > 1
    good = [read_one(store, row) for row in rows]
    flips = [(row, at, (at * 5) % 8) for number, row in enumerate(rows) for at in range(number % 13, row[4], 13)]
    flips += [(rows[50], at, bit) for at in range(0, rows[50][4], 2) for bit in range(8)]
    for row, at, bit in flips:
        number = rows.index(row)
        flip(files, store, row[3] + at, bit)
        with pytest.raises(CorruptRecordError, match=f"offset {row[2]} is corrupt at {row[3]} "):
            read_one(store, row)
        for other in (number - 1, number + 1):
            if 0 <= other < len(rows):
                assert read_one(store, rows[other]) == good[other]
        flip(files, store, row[3] + at, bit)
    assert read_one(store, rows[50]) == good[50]
    assert store._refusals.count == len(rows)


def test_a_pull_ends_before_damage_and_the_next_continues_behind_it() -> None:
    files = MemoryFiles()
    store = filled(files, 100)
    rows = [row for row in records(store) if row[:2] == ("A", 1)]
    bad = rows[len(rows) // 2]
    flip(files, store, bad[3] + bad[4] - 1, 3)
    before = store.get("A", 1, bad[2] - 3, 32, 1 << 20)
    assert [m.queue_offset for m in decode_records(b"".join(before.chunks))] == [bad[2] - 3, bad[2] - 2, bad[2] - 1]
    with pytest.raises(CorruptRecordError, match=f"go on at offset {bad[2] + 1}"):
        store.get("A", 1, bad[2], 32, 1 << 20)
    assert store.get("A", 1, bad[2] + 1, 1, 1 << 20).count == 1
    with pytest.raises(CorruptRecordError):
        store.get("A", 1, bad[2], 32, 1 << 20, frozenset({ord("t")}))


def test_look_ups_by_id_and_key_refuse_damage_and_find_the_rest() -> None:
    files = MemoryFiles()
    store = filled(files, 60)
    put(store, "A", 0, b"first", keys="twice")
    put(store, "A", 0, b"second", keys="twice")
    store.tick()
    first, second = records(store)[-2:]
    flip(files, store, second[3] + 60, 0)  # its store time
    with pytest.raises(CorruptRecordError):
        store.record_at(second[3])
    assert [decode_records(raw)[0].body for raw in store.find_by_key("A", "twice", 9)] == [b"first"]
    flip(files, store, first[3] + 60, 0)
    with pytest.raises(CorruptRecordError):
        store.find_by_key("A", "twice", 9)
    assert store._refusals.count == 2
    assert any(f"first at {second[3]}" in problem for problem in store.problems)


def test_damage_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    store = filled(files, 30)
    row = records(store)[7]
    flip(files, store, row[3] + 50, 1)
    for _ in range(3):
        with pytest.raises(CorruptRecordError):
            read_one(store, row)
    assert (store._refusals.count, len(caplog.records)) == (1, 1)


def test_damage_larger_than_a_bit_costs_the_records_that_fail_their_crc() -> None:
    files = MemoryFiles()
    store = filled(files, 100)
    rows = records(store)
    bad = next(row for row in rows if row[4] > 300 and row[3] > 2 * BLOCK_SIZE_BYTES)
    path, at = segment_path(store, bad[3] + 120)
    files.nodes[path].data[at : at + 100] = bytes(100)
    for row in rows:
        if row == bad:
            with pytest.raises(CorruptRecordError):
                read_one(store, row)
        else:
            assert len(read_one(store, row)) == row[4]


def test_unexplained_damage_costs_every_record_of_its_block() -> None:
    files = MemoryFiles()
    store = filled(files, 100)
    rows = records(store)
    bad = next(row for row in rows if row[3] > 2 * BLOCK_SIZE_BYTES)
    flip(files, store, bad[3] + 41, 0)  # two bits of the born time, which the CRC does not cover
    flip(files, store, bad[3] + 42, 5)
    segment = store._log.find(bad[3])
    assert segment is not None
    start = segment.start + digests_module.block_start(bad[3] - segment.start)
    for row in rows:
        if row[3] < start + BLOCK_SIZE_BYTES and start < row[3] + row[4]:
            with pytest.raises(CorruptRecordError):
                read_one(store, row)
        else:
            assert len(read_one(store, row)) == row[4]


def test_damage_before_a_block_is_complete_stays_known() -> None:
    files = MemoryFiles()
    store = make_store(files, **SIZES)
    store.open()
    put(store, "A", 0, b"x" * 50, tags="t")
    store.tick()
    flip(files, store, 45, 2)  # its born time
    for _ in range(40):
        put(store, "A", 0, b"y" * 200)
        store.tick()
    store.close()
    store = make_store(files, **SIZES)
    store.open()
    with pytest.raises(CorruptRecordError):
        store.get("A", 0, 0, 1, 1 << 20)
    assert store.get("A", 0, 1, 32, 1 << 20).count == 32


def test_digests_of_all_messages_survive_a_clean_stop() -> None:
    files = MemoryFiles()
    store = filled(files, 100)
    last = records(store)[-1]
    store.close()
    store = make_store(files, **SIZES)
    store.open()
    for row in (records(store)[3], last):
        assert len(read_one(store, row)) == row[4]
        flip(files, store, row[3] + 60, 4)
        with pytest.raises(CorruptRecordError):
            read_one(store, row)


def test_checkpointed_digests_survive_a_kill() -> None:
    files = MemoryFiles()
    store = filled(files, 60)
    store.close()
    store = make_store(files, **SIZES)
    store.open()
    put(store, "A", 0, b"after the checkpoint")
    store.tick()
    row = records(store)[5]
    die(store)
    files.nodes[f"{LOG}/{0:020d}"].data[row[3] + 60] ^= 1
    store = make_store(files.after_kill(), **SIZES)
    assert not store.open().clean
    with pytest.raises(CorruptRecordError):
        read_one(store, row)
    assert everything_but(store, row)


def everything_but(store: MessageStore, bad: tuple[str, int, int, int, int]) -> bool:
    return all(len(read_one(store, row)) == row[4] for row in records(store) if row != bad)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 60))
def test_a_power_loss_never_makes_good_messages_look_damaged(seed: int, before: int, after: int) -> None:
    """Digests of bytes that the power loss took are dropped, no matter which sectors of the side file survived."""
    chance = random.Random(seed)
    files = MemoryFiles()
    store = filled(files, before)
    store.sync()
    for i in range(after):
        put(store, "A", 0, chance.randbytes(chance.randrange(1, 500)), keys=f"later{i}")
        if chance.random() < 0.2:
            store.tick()
            assert store._digests is not None
            store._digests.write()
    die(store)
    rate = chance.choice([0.0, 0.5, 1.0])
    files = files.after_power_loss(lambda path, page: chance.random() < rate, lambda path: chance.random() < rate)
    for round_ in range(2):
        store = make_store(files, **SIZES)
        store.open()
        everything(store)
        for i in range(20):
            put(store, "B", 0, b"%d" % (i + round_))
        store.tick()
        everything(store)
        store.close()
    assert store._refusals.count == 0


def test_digests_of_what_another_broker_may_have_changed_are_dropped() -> None:
    files = MemoryFiles()
    store = filled(files, 100)
    store.close()
    settled = {start: store._digests.table.header(start).settled for start in store._digests.table.segment_starts()}
    newest = max(settled)
    assert [start for start, done in settled.items() if not done] == [newest]
    files.nodes[f"{ROOT}/checkpoint"].data[64:140] = bytes(76)  # as Apache leaves it
    store = make_store(files, **SIZES)
    store.open()
    assert store._digests is not None
    assert not any(store._digests.table.get(newest, 0, 2))
    row = records(store)[3]
    flip(files, store, row[3] + 60, 4)
    with pytest.raises(CorruptRecordError):
        read_one(store, row)


def test_a_rewritten_segment_loses_its_digests() -> None:
    files = MemoryFiles()
    filled(files, 150).close()
    path = f"{LOG}/{0:020d}"
    files.nodes[f"{ROOT}/checkpoint"].data[64:140] = bytes(76)
    files.nodes[path].data[SEGMENT_BYTES - 3] ^= 0xFF
    store = make_store(files, **SIZES)
    store.open()
    assert store._digests is not None
    assert not any(store._digests.table.get(0, 0, SEGMENT_BYTES // BLOCK_SIZE_BYTES))
    everything(store)


def test_a_record_without_digest_is_checked_by_its_crc() -> None:
    files = MemoryFiles()
    store = filled(files, 100)
    store.close()
    files.remove_tree(SIDE)
    store = make_store(files, **SIZES)
    store.open()
    row = records(store)[4]
    flip(files, store, row[3] + 95, 4)
    with pytest.raises(CorruptRecordError):
        read_one(store, row)
    assert everything_but(store, row)


def test_digest_files_are_deleted_with_their_segments() -> None:
    files = MemoryFiles()
    store = filled(files, 300)
    assert store._digests is not None
    store.sync()
    store._digests.write()
    assert store._digests.table.segment_starts() == [segment.start for segment in store._log.segments]
    store._log.drop_oldest()
    store._digests.write()
    assert store._digests.table.segment_starts() == [segment.start for segment in store._log.segments]
    gone = store._log.segments[0].start
    store.close()
    files.remove(f"{LOG}/{gone:020d}")
    store = make_store(files, **SIZES)
    store.open()
    assert not files.exists(f"{SIDE}/{gone:020d}")


def test_a_disk_that_takes_no_digests_is_a_problem_and_costs_nothing_else() -> None:
    files = MemoryFiles()
    store = filled(files, 10)

    def fault(call: str, path: str) -> None:
        if path.startswith(SIDE) and call in ("pwrite", "open", "sync"):
            raise OSError(28, "No space left on device", path)

    files.fault = fault
    put(store, "A", 0, b"still taken")
    store.tick()
    assert store._digests is not None
    store._digests.write()
    assert any("digests" in problem and "No space left" in problem for problem in store.problems)
    assert everything(store)
    files.fault = None
    store._digests.write()
    assert store.problems == []
    store.close()


@pytest.mark.slow
def test_no_flipped_bit_of_a_side_file_costs_a_message() -> None:
    files = MemoryFiles()
    store = filled(files, 120)
    store.close()
    before = {path: bytes(node.data) for path, node in files.nodes.items()}
    sides = [(path, at) for path in before if path.startswith(SIDE) for at in range(0, len(before[path]), 9)]
    assert len({path for path, _ in sides}) == 3  # two segments, and all queues
    for path, at in sides:
        for name, content in before.items():
            files.nodes[name].data[:] = content
        files.nodes[path].data[at] ^= 1 << at % 8
        store = make_store(files, **SIZES)
        store.open()
        everything(store)
        store.tick()
        assert everything_but(store, ("", 0, 0, 0, 0))
        assert store._refusals.count == 0
        store.close()


def test_an_unreadable_sector_is_an_error_of_that_read_alone() -> None:
    files = MemoryFiles()
    store = filled(files, 150)
    first, *_, last = records(store)
    good = read_one(store, last)

    def fault(call: str, path: str) -> None:
        if call == "pread" and path == f"{LOG}/{0:020d}":
            raise OSError(5, "Input/output error", path)

    files.fault = fault
    with pytest.raises(UnreadableError, match=r"can't be read at 0: Input/output error \(errno 5\)"):
        read_one(store, first)
    with pytest.raises(UnreadableError):
        store.record_at(first[3])
    assert read_one(store, last) == good
    files.fault = None
    assert len(read_one(store, first)) == first[4]


def test_a_shortened_sealed_segment_is_an_error_not_a_signal() -> None:
    files = MemoryFiles()
    store = filled(files, 150)
    row = next(row for row in records(store) if row[3] > SEGMENT_BYTES // 2)
    files.nodes[f"{LOG}/{0:020d}"].resize(SEGMENT_BYTES // 2)
    with pytest.raises(UnreadableError, match="shorter than a segment"):
        read_one(store, row)
    assert read_one(store, records(store)[0])


def test_digesting_much_data_is_done_in_portions() -> None:
    files = MemoryFiles()
    store = make_store(files, **SIZES)
    store.open()
    for i in range(200):
        stage(store, "A", 0, b"z" * 300, keys=str(i))
    store.commit()
    digests = store._digests
    assert digests is not None
    digests.work(BLOCK_SIZE_BYTES)
    assert digests.next_offset == BLOCK_SIZE_BYTES
    digests.work(BLOCK_SIZE_BYTES + 1)
    assert digests.next_offset == 3 * BLOCK_SIZE_BYTES
    digests.work()
    assert digests.next_offset == store.physical_max_offset - store.physical_max_offset % BLOCK_SIZE_BYTES


def test_segments_need_not_be_whole_blocks() -> None:
    files = MemoryFiles()
    store = filled(files, 100, segment_size_bytes=10_000)
    rows = records(store)
    last_of_first = [row for row in rows if row[3] < 10_000][-1]
    flip(files, store, last_of_first[3] + 50, 1)
    with pytest.raises(CorruptRecordError):
        read_one(store, last_of_first)
    assert everything_but(store, last_of_first)


# -- the side file --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first", [0, 1, BLOCKS_PER_SECTOR - 1, BLOCKS_PER_SECTOR, BLOCKS_PER_PAGE - 1, BLOCKS_PER_PAGE, 3 * BLOCKS_PER_PAGE]
)
def test_digests_are_read_back_from_the_file(first: int) -> None:
    files = MemoryFiles()
    files.makedirs(SIDE)
    table = DigestFiles(files, SIDE)
    digests = random.Random(first).randbytes(70 * DIGEST_SIZE_BYTES)
    table.put(4096, first, digests)
    tail = OpenBlock(8192, 17, b"12345678")
    table.write(4096, DigestHeader(settled=True, tail=tail))
    again = DigestFiles(files, SIDE)
    assert bytes(again.get(4096, first, first + 70)) == digests
    assert again.header(4096) == DigestHeader(settled=True, tail=tail)
    assert not any(again.get(4096, first + 70, first + 72))
    assert again.header(0) is None


@pytest.mark.parametrize("bit", range(0, SECTOR_SIZE_BYTES * 8, 7))
def test_a_damaged_sector_is_unknown_and_its_neighbors_are_not(bit: int) -> None:
    files = MemoryFiles()
    files.makedirs(SIDE)
    table = DigestFiles(files, SIDE)
    table.put(0, 0, b"\x01" * (3 * BLOCKS_PER_SECTOR * DIGEST_SIZE_BYTES))
    table.write(0, DigestHeader())
    files.nodes[table.path(0)].data[2 * SECTOR_SIZE_BYTES + bit // 8] ^= 1 << bit % 8
    again = DigestFiles(files, SIDE)
    assert again.get(0, 0, BLOCKS_PER_SECTOR) == b"\x01" * (BLOCKS_PER_SECTOR * DIGEST_SIZE_BYTES)
    assert not any(again.get(0, BLOCKS_PER_SECTOR, 2 * BLOCKS_PER_SECTOR))
    assert all(again.get(0, 2 * BLOCKS_PER_SECTOR, 3 * BLOCKS_PER_SECTOR))


def test_a_sector_of_another_place_is_unknown() -> None:
    files = MemoryFiles()
    files.makedirs(SIDE)
    table = DigestFiles(files, SIDE)
    table.put(0, 0, b"\x01" * (2 * BLOCKS_PER_SECTOR * DIGEST_SIZE_BYTES))
    table.write(0, DigestHeader())
    data = files.nodes[table.path(0)].data
    data[SECTOR_SIZE_BYTES : 2 * SECTOR_SIZE_BYTES] = data[2 * SECTOR_SIZE_BYTES : 3 * SECTOR_SIZE_BYTES]
    assert not any(DigestFiles(files, SIDE).get(0, 0, BLOCKS_PER_SECTOR))


def test_the_number_of_pages_in_memory_is_bounded() -> None:
    files = MemoryFiles()
    files.makedirs(SIDE)
    table = DigestFiles(files, SIDE)
    for page in range(PAGES_IN_MEMORY_MAX + 20):
        table.get(0, page * BLOCKS_PER_PAGE, page * BLOCKS_PER_PAGE + 1)
    assert len(table._pages) == PAGES_IN_MEMORY_MAX


def test_a_page_stays_in_memory_when_all_others_wait_to_be_written() -> None:
    files = MemoryFiles()
    files.makedirs(SIDE)
    table = DigestFiles(files, SIDE)
    digest = b"\x01" * DIGEST_SIZE_BYTES
    for page in range(PAGES_IN_MEMORY_MAX + 2):  # a disk that takes no writes for a while
        table.put(0, page * BLOCKS_PER_PAGE, digest)
    table.write(0, DigestHeader())
    assert len(table._pages) == PAGES_IN_MEMORY_MAX
    again = DigestFiles(files, SIDE)
    for page in (0, PAGES_IN_MEMORY_MAX, PAGES_IN_MEMORY_MAX + 1):
        assert again.get(0, page * BLOCKS_PER_PAGE, page * BLOCKS_PER_PAGE + 1) == digest


def test_golden_bytes_of_a_side_file() -> None:
    files = MemoryFiles()
    files.makedirs(SIDE)
    table = DigestFiles(files, SIDE)
    table.put(0x10000, 0, block_digests(memoryview(b"a" * 4096 + b"b" * 4096)))
    table.write(0x10000, DigestHeader(settled=True, tail=OpenBlock(0x2000, 5, b"\x11" * 8)))
    data = bytes(files.nodes[table.path(0x10000)].data)
    assert data[:48].hex() == (
        "50594d5144494701" "0000000000010000" "00001000" "00000001"
        "0000000000002000" "00000005" "1111111111111111" "00000000"
    )  # fmt: skip
    assert data[504:512].hex() == GOLDEN_HEADER_SUM
    assert data[512:528].hex() == GOLDEN_DIGESTS
    assert len(data) == 1024


GOLDEN_HEADER_SUM = "7116288218f10c30"
GOLDEN_DIGESTS = "88a30670e919701e0df704f8066c4e09"


# -- explaining -----------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(st.binary(min_size=1, max_size=300), st.data())
def test_the_flipped_bit_is_found(block: bytes, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, 8 * len(block) - 1))
    damaged = bytearray(block)
    damaged[bit // 8] ^= 1 << bit % 8
    assert find_flip(bytes(damaged), block_digests(memoryview(block)), range(len(block))) == bit


def test_no_single_bit_explains_two_flipped_bits() -> None:
    block = bytes(64)
    assert find_flip(b"\x03" + block[1:], block_digests(memoryview(block)), range(64)) is None


def test_a_record_that_extends_far_into_the_block_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    store = make_store(files, segment_size_bytes=1 << 18)
    store.open()
    put(store, "A", 0, random.Random(1).randbytes(100_000))
    small = put(store, "A", 0, b"n" * 300)
    put(store, "A", 0, b"m" * 300)
    segment = store._log.segments[0]
    at = digests_module.block_start(small.physical_offset)
    flip(files, store, small.physical_offset + 150, 0)
    flip(files, store, small.physical_offset + 151, 0)
    block = bytes(segment.read(at, BLOCK_SIZE_BYTES))
    spans = explain(segment, at, block, b"\0" * 7 + b"\1")
    assert spans[0] == (small.physical_offset, small.physical_offset + small.size_bytes)


def test_an_explanation_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    store = filled(files, 60)
    row = records(store)[9]
    flip(files, store, row[3] + 60, 0)
    calls = []
    monkeypatch.setattr(digests_module, "explain", lambda *args: calls.append(args) or explain(*args))
    for _ in range(5):
        with pytest.raises(CorruptRecordError):
            read_one(store, row)
    assert len(calls) == 1


def test_a_store_without_digests_writes_none() -> None:
    files = MemoryFiles()
    store = make_store(files, digests_enabled=False)
    store.open()
    put(store, "A", 0, b"x")
    store.tick()
    store.close()
    assert not files.exists(SIDE)
    assert isinstance(Digests(files, SIDE, store._log).problem, type(None))
