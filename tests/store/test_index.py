"""The key index: RocketMQ's bytes, vectorized insertion equal to the plain one, full disks, look-ups."""

from __future__ import annotations

import errno
import os
import random
import struct
from datetime import timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.errors import SearchLimitError
from pymq.model.draft import Draft
from pymq.model.javahash import index_key_hash
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.dispatch.bulk_dispatch import record_keys
from pymq.store.index import index_file, index_lookup, index_service
from pymq.store.index.index_file import IndexFile, Walk
from pymq.store.index.index_service import IndexService
from pymq.store.index.key_hash import key_hashes_in, topic_hash
from pymq.store.index.keyed_records import KeyColumns, KeyedRecords
from pymq.store.scan.bulk import scan_bulk
from pymq.store.scan.columns import Records
from pymq.store.settings import StoreSettings
from tests.store.support import die, everything, found_by_key, make_store, put, stage

KEYS = st.one_of(
    st.text(max_size=40),
    st.text("0123456789ABCDEF", min_size=32, max_size=32),
    st.text(min_size=257, max_size=300),
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["T", "Other", "主题"]), KEYS), min_size=1, max_size=40))
def test_bulk_hashes_equal_the_plain_hash(pairs: list[tuple[str, str]]) -> None:
    pairs = [(topic, key.encode("utf-8", "replace").decode()) for topic, key in pairs]
    keys = [key.encode() for _, key in pairs]
    sizes = np.array([len(key) for key in keys])
    prefixes = np.array([topic_hash(topic) for topic, _ in pairs], np.uint32)
    hashes = key_hashes_in(b"".join(keys), np.cumsum(sizes) - sizes, sizes, prefixes)
    assert hashes.tolist() == [index_key_hash(topic, key) for topic, key in pairs]


def new_file(slots: int = 5, entries: int = 50) -> tuple[IndexFile, MemoryFiles]:
    files = MemoryFiles()
    files.makedirs("/i")
    return IndexFile(files, "/i/20260101000000000", slots, entries, create=True), files


ENTRIES = st.lists(
    st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 1 << 40), st.integers(10_000, 10**13)), max_size=70
)


@settings(deadline=None)
@given(ENTRIES, st.integers(0, 70), st.booleans())
def test_bulk_insertion_writes_the_same_bytes_as_the_plain_one(entries: list, cut: int, preset: bool) -> None:
    import numpy as np

    plain, plain_files = new_file()
    bulk, bulk_files = new_file()
    if preset:
        plain.preset(5_000, 77)
        bulk.preset(5_000, 77)
    for part in (entries[:cut], entries[cut:]):
        taken = plain.insert(part)
        columns = [np.array([entry[i] for entry in part], dtype=np.int64) for i in range(3)]
        assert bulk.insert_bulk(*columns) == taken
    assert bulk_files.read_bytes(bulk.path) == plain_files.read_bytes(plain.path)
    assert bulk.full == plain.full == (len(entries) >= 49)


@pytest.mark.slow
@settings(deadline=None)
@given(ENTRIES.filter(bool), st.data())
def test_rolling_back_restores_every_chain(entries: list, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_file, "_PLAIN_COUNT_MAX", data.draw(st.sampled_from([0, 1 << 13])))
        roll_back(entries, data.draw(st.integers(1, min(len(entries), 49))))


def roll_back(entries: list, count: int) -> None:
    short, short_files = new_file()
    short.insert(entries[: count - 1])
    long, long_files = new_file()
    long.insert(entries)
    long.roll_back(count)
    table = slice(40, 40 + 4 * 5 + 20 * count)
    assert long_files.read_bytes(long.path)[table] == short_files.read_bytes(short.path)[table]
    assert (long.count, long.used_slots) == (short.count, short.used_slots)


def test_golden_bytes() -> None:
    file, files = new_file(slots=2, entries=4)
    file.insert([(5, 100, 1_000_000), (6, 200, 1_002_500), (7, 300, 1_003_999)])
    wanted = struct.pack(">qqqqii", 1_000_000, 1_003_999, 100, 300, 2, 4)
    wanted += struct.pack(">ii", 2, 3)
    wanted += bytes(20) + struct.pack(">iqii iqii iqii", 5, 100, 0, 0, 6, 200, 2, 0, 7, 300, 3, 1)
    assert files.read_bytes(file.path) == wanted
    assert file.full


def found_in(
    file: IndexFile, key_hash: int, begin_ms: int, end_ms: int, count_max: int, walk: Walk | None = None
) -> list[int]:
    steps = file.find_in_steps(key_hash, begin_ms, end_ms, count_max, walk or Walk())
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            found: list[int] = stop.value
            return found


def test_a_long_walk_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "STEP_COUNT", 10)
    file, _ = new_file(slots=1, entries=200)
    file.insert([(7 if number == 0 else 1, number, 10_000) for number in range(95)])
    assert len(list(file.find_in_steps(7, 0, 1 << 60, 10, Walk()))) == 9
    assert found_in(file, 7, 0, 1 << 60, 10) == [0]
    assert len(list(file.find_in_steps(1, 0, 1 << 60, 3, Walk()))) == 0, "what is near needs no rest"


def test_a_walk_ends_when_its_file_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_file, "STEP_COUNT", 10)
    file, _ = new_file(slots=1, entries=200)
    file.insert([(7, number, 10_000) for number in range(95)])
    steps = file.find_in_steps(7, 0, 1 << 60, 99, Walk())
    next(steps)
    file.close()
    with pytest.raises(StopIteration) as stop:
        next(steps)
    assert stop.value.value == list(range(94, 84, -1))


def test_find_walks_a_chain_newest_first_within_the_time() -> None:
    file, _ = new_file(slots=1)
    file.insert([(n % 2, n, 1_000_000 + n * 10_000) for n in range(10)])
    assert found_in(file, 1, 0, 1 << 60, 99) == [9, 7, 5, 3, 1]
    assert found_in(file, 1, 0, 1 << 60, 2) == [9, 7]
    assert found_in(file, 1, 1_030_000, 1_070_000, 99) == [7, 5, 3]
    assert found_in(file, 4, 0, 1 << 60, 99) == []


def test_a_walk_along_a_chain_ends_at_its_limit() -> None:
    file, _ = new_file(slots=1, entries=200)
    file.insert([(7 if number == 0 else 1, number, 10_000) for number in range(100)])
    assert found_in(file, 7, 0, 1 << 60, 10, Walk(100)) == [0]
    walk = Walk(99)
    assert found_in(file, 7, 0, 1 << 60, 10, walk) == [] and walk.left == 0
    assert found_in(file, 1, 0, 1 << 60, 3, Walk(3)) == [99, 98, 97]


def test_a_look_up_in_a_crowded_slot_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_store(MemoryFiles(), index_slot_count=1, index_entry_count=500)
    store.open()
    put(store, "T", 0, b"old", keys="old")
    for number in range(100):
        put(store, "T", 0, b"%d" % number, keys="a b")
    monkeypatch.setattr(index_lookup, "WALK_COUNT_MAX", 201)
    assert found_by_key(store, "T", "old") == [b"old"]
    monkeypatch.setattr(index_lookup, "WALK_COUNT_MAX", 200)
    with pytest.raises(SearchLimitError, match="ask for the message by its id"):
        store.find_by_key("T", "old", 5)
    assert len(store.find_by_key("T", "a", 5)) == 5
    store.close()


@pytest.mark.parametrize("count", [3, 200])
def test_messages_are_found_by_unique_key_and_by_each_word(count: int) -> None:
    clock = ManualClock()
    store = make_store(MemoryFiles(), clock, segment_size_bytes=1 << 16)
    store.open()
    for i in range(count):
        properties = b"UNIQ_KEY\x01U%d\x02KEYS\x01all w%d\x02A\x01b\x02" % (i, i)
        store.stage("T", i % 2, Draft(b"%d" % i, properties, 0, b"\0" * 8, 0))
        store.commit()
        clock.advance(1000)
    for i in (0, count // 2, count - 1):
        assert found_by_key(store, "T", f"U{i}") == found_by_key(store, "T", f"w{i}") == [b"%d" % i]
    assert found_by_key(store, "T", "all") == [b"%d" % i for i in reversed(range(count))][:64]
    assert found_by_key(store, "T", "b") == found_by_key(store, "Other", "U0") == []
    middle_ms = 1_700_000_000_000 + count // 2 * 1000
    assert len(store.find_by_key("T", "all", 64, begin_ms=middle_ms, end_ms=middle_ms)) == 1


def test_keys_are_inserted_at_the_next_tick() -> None:
    store = make_store(MemoryFiles())
    store.open()
    put(store, "T", 0, b"x", keys="k")
    assert store._index is not None
    assert store._index.waiting
    store.tick()
    assert not store._index.waiting


def test_a_start_gives_back_the_pages_it_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    store = make_store(files)
    store.open()
    put(store, "T", 0, b"a", keys="k")
    die(store)
    released = []
    monkeypatch.setattr(IndexFile, "release", lambda file: released.append(file.count))
    again = make_store(files)
    again.open()
    assert released == [2], "once, with the key in it: entries count from 1"
    assert found_by_key(again, "T", "k") == [b"a"]


def test_index_files_are_named_by_local_time_and_names_never_go_back() -> None:
    files = MemoryFiles()
    clock = ManualClock(1_700_000_000_123, timezone(timedelta(hours=8)))  # 2023-11-14 22:13:20 UTC
    store = make_store(files, clock, index_entry_count=3)
    store.open()
    for jump_ms in (0, 60_000, -7_200_000):
        clock.set_wall(clock.now_ms() + jump_ms)
        for i in range(2):  # entry 0 of a file stays empty
            put(store, "T", 0, b"x", keys=f"k{i}")
        store.tick()
    assert files.listdir("/store/index") == ["20231115061320123", "20231115061420123", "20231115061420124"]


def test_a_full_disk_pauses_the_index_alone_and_it_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymq.store.index.index_service._PENDING_COUNT_MAX", 10)
    files = MemoryFiles()
    store = make_store(files, index_entry_count=8)
    store.open()

    def fault(call: str, path: str) -> None:
        if "/index/" in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    files.fault = fault
    for i in range(40):
        put(store, "T", 0, b"%d" % i, keys=f"k{i}")
        store.tick()
    assert any("index pauses" in problem for problem in store.problems)
    files.fault = None
    assert [found_by_key(store, "T", f"k{i}") for i in range(40)] == [[b"%d" % i] for i in range(40)]
    assert store.problems == []
    store.close()
    again = make_store(files, index_entry_count=8)
    assert again.open().records_scanned == 0
    assert [found_by_key(again, "T", f"k{i}") for i in range(40)] == [[b"%d" % i] for i in range(40)]


def test_a_bug_in_the_index_loses_no_message_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(records: object) -> None:
        raise ImportError("no numpy")

    store = make_store(MemoryFiles(), segment_size_bytes=1 << 16, index_batch_count=4)
    store.open()
    assert store._index is not None
    monkeypatch.setattr(store._index, "_insert", broken)
    for i in range(20):  # enough to make a commit insert at once
        put(store, "T", 0, b"%d" % i, keys=f"k{i}")
    store.tick()
    (problem,) = store.problems
    assert "the key index pauses: ImportError: no numpy" in problem
    assert everything(store) == {("T", 0): [b"%d" % i for i in range(20)]}
    monkeypatch.undo()
    store.insert_waiting_keys()
    assert store.problems == []
    assert [found_by_key(store, "T", f"k{i}") for i in (0, 19)] == [[b"0"], [b"19"]]


def waiting_columns(files: MemoryFiles) -> tuple[IndexService, list[KeyColumns]]:
    """Return an index of eight entries a file, and hashed keys k0, k1, … of 40 records, four at a time."""
    store = make_store(files, segment_size_bytes=1 << 14, index_enabled=False)
    store.open()
    for i in range(40):
        put(store, "T", 0, b"%d" % i, keys=f"k{i}")
    (records,) = [part for part in scan_bulk(store._log, 0, check_crc=True) if isinstance(part, Records)]
    settings = StoreSettings(index_slot_count=5, index_entry_count=8)
    files.makedirs("/index")
    index = IndexService(files, "/index", store._log, ManualClock(), settings)
    return index, [record_keys(records.between(first, first + 4)) for first in range(0, 40, 4)]


def found(index: IndexService) -> list[int]:
    """Return the numbers of the keys that the index finds."""
    return [i for i in range(40) if index.find("T", f"k{i}", 1, 0, 1 << 60)]


def test_hashed_keys_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_service, "_COLUMNS_COUNT", 10)
    index, columns = waiting_columns(MemoryFiles())
    index.add_columns(columns[0])
    index.add_columns(columns[1])
    assert index.waiting
    assert index.pending_count == 8
    assert index.next_offset == columns[0].offsets[0]
    assert index.files == []
    index.add_columns(columns[2])
    assert not index.waiting
    index.add_columns(columns[3])
    index.truncate(int(columns[3].offsets[2]))
    assert index.pending_count == 2
    assert found(index) == list(range(14))


def test_hashed_keys_and_records_are_inserted_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    index, columns = waiting_columns(MemoryFiles())
    keyed = KeyedRecords()
    for i in range(4):
        keyed.add("T", b"KEYS\x01k%d\x02" % i, int(columns[0].offsets[i]), int(columns[0].times_ms[i]))
    index.extend(keyed)
    index.add_columns(columns[1])
    assert index.next_offset == columns[0].offsets[0]
    index.work()
    entries = [file.entry(number) for file in index.files for number in range(1, file.count)]
    assert [entry[1] for entry in entries] == [*columns[0].offsets, *columns[1].offsets]


@pytest.mark.parametrize("pending_count_max", [100, 10])
def test_hashed_keys_wait_for_a_disk_with_room(pending_count_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait in memory, or in the log when they are too many."""
    monkeypatch.setattr(index_service, "_COLUMNS_COUNT", 8)
    monkeypatch.setattr(index_service, "_PENDING_COUNT_MAX", pending_count_max)
    files = MemoryFiles()
    index, columns = waiting_columns(files)

    def fault(call: str, path: str) -> None:
        if path.startswith("/index/"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    files.fault = fault
    for each in columns:
        index.add_columns(each)
    assert index.problem is not None
    assert index.next_offset == columns[0].offsets[0]
    assert index.pending_count == (40 if pending_count_max == 100 else 0)
    files.fault = None
    assert found(index) == list(range(40))
    assert index.problem is None


@pytest.mark.parametrize("is_too_much", [False, True])
def test_long_properties_wait_in_the_log(is_too_much: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait in memory up to a limit, then they are read from the log again, at most some at a time."""
    files, words, count = MemoryFiles(), " ".join(map(str, range(100))), 12
    store = make_store(files, segment_size_bytes=1 << 16)
    store.open()
    index = store._index
    assert index is not None

    def fault(call: str, path: str) -> None:
        if "/index/" in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    files.fault = fault
    put(store, "T", 0, b"0", keys=f"k0 {words}")
    one_bytes = index._pending.size_bytes
    assert one_bytes > len(words)
    monkeypatch.setattr(index_service, "_PENDING_BYTES_MAX", count * one_bytes - is_too_much)
    monkeypatch.setattr(index_service, "BATCH_PROPERTIES_BYTES", 3 * one_bytes)
    for number in range(1, count):
        put(store, "T", 0, b"%d" % number, keys=f"k{number % 10} {words}")
    assert len(index._pending) == (0 if is_too_much else count)
    if is_too_much:
        index.work()  # the disk is still full: what was read waits, and no more is read
        assert len(index._pending) == 3
        index.work()
        assert len(index._pending) == 3
    files.fault = None
    assert [len(store.find_by_key("T", f"k{number}", 9, 0, 1 << 60)) for number in range(10)] == [2, 2, *[1] * 8]
    store.tick()
    assert index._pending.size_bytes == 0 and not index.waiting
    store.close()


def test_a_disabled_index_costs_nothing_and_finds_nothing() -> None:
    store = make_store(MemoryFiles(), index_enabled=False)
    store.open()
    put(store, "T", 0, b"x", keys="k")
    assert store.find_by_key("T", "k", 9) == []
    store.close()
    again = make_store(store._files)
    again.open()
    assert found_by_key(again, "T", "k") == [b"x"]


@pytest.mark.slow
def test_a_flipped_byte_of_the_index_never_finds_a_wrong_message() -> None:
    files = MemoryFiles()
    store = make_store(files, segment_size_bytes=1 << 16, index_entry_count=150)
    store.open()
    for i in range(100):
        stage(store, "T", 0, b"%d" % i, keys=f"k{i}")
    store.commit()
    store.tick()
    assert store._index is not None
    view = store._index.files[0]._file.writable_view()
    chance = random.Random(7)
    for at in range(len(view)):
        view[at] ^= 1 << chance.randrange(8)
        for i in (3, 50, 99):
            assert found_by_key(store, "T", f"k{i}") in ([], [b"%d" % i])
    assert len(everything(store)["T", 0]) == 100
