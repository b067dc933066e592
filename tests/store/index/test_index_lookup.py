"""Look-ups in damaged index files: a record with the key is found, or the look-up says why not."""

from __future__ import annotations

import struct

import pytest

from pymq.clock import ManualClock
from pymq.errors import CorruptRecordError, StoreUnavailableError
from pymq.model.javahash import index_key_hash
from pymq.model.layout import INDEX_ENTRY_SIZE_BYTES, INDEX_HEADER_SIZE_BYTES, INDEX_SLOT_SIZE_BYTES
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.index import index_service
from pymq.store.index.index_file import OLDER_COUNT_MAX, TIME_CHECK_COUNT_MAX, IndexFile, Walk
from pymq.store.index.index_service import IndexService
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore
from tests.store.support import make_store, put

COUNT = 5
SLOTS = 3
ENTRIES_AT = INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * SLOTS
ALWAYS = (0, 1 << 60)


@pytest.fixture(scope="module")
def store() -> MessageStore:
    """A store with a message for each of the keys k0, k1, …"""
    made = make_store(MemoryFiles(), segment_size_bytes=1 << 14, index_enabled=False)
    made.open()
    for number in range(COUNT):
        put(made, "T", 0, b"%d" % number, keys=f"k{number}")
    return made


def make_index(store: MessageStore) -> tuple[IndexService, MemoryFiles]:
    """Return an index of all messages in one file."""
    files = MemoryFiles()
    files.makedirs("/index")
    settings = StoreSettings(index_slot_count=SLOTS, index_entry_count=50)
    index = IndexService(files, "/index", store._log, ManualClock(), settings)
    index.rebuild_from(0)
    index.is_rebuilding = False
    index.drain()
    assert found(index) == set(range(COUNT)) and len(index.files) == 1
    return index, files


def index_of(store: MessageStore) -> IndexService:
    """Return an index of all messages of a store."""
    files = MemoryFiles()
    files.makedirs("/index")
    settings = StoreSettings(index_slot_count=SLOTS, index_entry_count=50)
    index = IndexService(files, "/index", store._log, ManualClock(), settings)
    index.rebuild_from(0)
    index.is_rebuilding = False
    index.drain()
    return index


def found_in(file: IndexFile, key_hash: int, begin_ms: int, end_ms: int, count_max: int, walk: Walk) -> list[int]:
    steps = file.find_in_steps(key_hash, begin_ms, end_ms, count_max, walk)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return list(end.value)


def found(index: IndexService) -> set[int]:
    """Return the numbers of the keys that are found, or whose look-up says that a record is damaged.

    A look-up that is refused is asked again, a few times.
    """
    numbers = set()
    for number in range(COUNT):
        for _ in range(3):
            try:
                if index.find("T", f"k{number}", 1, *ALWAYS):
                    numbers.add(number)
                break
            except StoreUnavailableError:
                continue
            except CorruptRecordError:
                numbers.add(number)
                break
    return numbers


def flip(index: IndexService, at: int, bit: int) -> tuple[int, int]:
    """Flip a bit of the big-endian 32-bit number at ``at``. Return the number before and after."""
    view = index.files[0]._prepare(index.files[0].count)
    (before,) = struct.unpack_from(">i", view, at)
    view[at + 3 - bit // 8] ^= 1 << bit % 8
    (after,) = struct.unpack_from(">i", view, at)
    return before, after


def places() -> list[int]:
    """Return where each 32-bit number of a link is, a hash or half an offset: slots, then entries without times."""
    slots = [INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * slot for slot in range(SLOTS)]
    entries = [ENTRIES_AT + INDEX_ENTRY_SIZE_BYTES * number for number in range(1, COUNT + 1)]
    return [*slots, *(at + field for at in entries for field in (0, 4, 8, 16))]


def test_a_flipped_bit_of_a_slot_or_an_entry_hides_no_record(store: MessageStore) -> None:
    """Except where the bit was the only one of a link: an emptied link looks like the end of a chain."""
    silent = []
    for at in places():
        for bit in range(32):
            index, _ = make_index(store)
            before, after = flip(index, at, bit)
            is_link = at < ENTRIES_AT or (at - ENTRIES_AT) % INDEX_ENTRY_SIZE_BYTES == 16
            if found(index) != set(range(COUNT)) and not (is_link and before and not after):
                silent.append((at, bit, before, after))
    assert silent == []


def timed(step_ms: int = 10_000) -> tuple[MessageStore, ManualClock, list[int]]:
    """Return a store without an index whose messages k0, k1, … came ``step_ms`` apart, with their times."""
    clock, times = ManualClock(), list[int]()
    made = make_store(MemoryFiles(), clock, segment_size_bytes=1 << 14, index_enabled=False)
    made.open()
    for number in range(COUNT):
        put(made, "T", 0, b"%d" % number, keys=f"k{number} same")
        times.append(clock.now_ms())
        clock.advance(step_ms)
    return made, clock, times


@pytest.mark.parametrize("field", range(1, COUNT + 1))
def test_a_flipped_bit_of_an_entrys_time_hides_no_record_of_a_time_range(field: int) -> None:
    store, _, times = timed()
    for bit in range(32):
        index = index_of(store)
        entry = 2 * field  # each record has two keys
        flip(index, ENTRIES_AT + INDEX_ENTRY_SIZE_BYTES * entry + 12, bit)
        for number, time_ms in enumerate(times):
            for key in (f"k{number}", "same"):
                found = index.find("T", key, 9, time_ms - 1_000, time_ms + 1_000)
                assert len(found) == 1, (field, bit, number, key)


def test_the_number_of_records_that_a_look_up_reads_for_their_times_is_bounded() -> None:
    store, _, times = timed()
    index = index_of(store)
    reads = list[int]()
    walk = Walk(store_ms=lambda offset: reads.append(offset) or -1)
    walk.checks_left = 2
    same = index_key_hash("T", "same")
    assert found_in(index.files[0], same, times[2] + 2_000, times[2] + 3_000, 9, walk) == []
    assert len(reads) == 2
    assert Walk(store_ms=lambda offset: -1).checks_left == TIME_CHECK_COUNT_MAX and Walk().checks_left == 0


def test_times_that_go_back_within_a_file_hide_no_older_record() -> None:
    """A wrong clock went back by days for a while: entries behind those of that while are looked at, too."""
    store, clock, times = timed()
    clock.set_wall(clock.now_ms() - 3 * 86_400_000)
    put(store, "T", 0, b"of a wrong clock", keys="same")
    clock.set_wall(clock.now_ms() + 4 * 86_400_000)
    put(store, "T", 0, b"newest", keys="same")
    index = index_of(store)
    found = index.find("T", "same", 9, times[0], times[-1])
    assert len(found) == COUNT


@pytest.mark.parametrize("older_count", [OLDER_COUNT_MAX, OLDER_COUNT_MAX + 1])
def test_after_many_older_entries_the_rest_counts_as_older(older_count: int) -> None:
    file = IndexFile(MemoryFiles(), "/20260101000000000", 1, OLDER_COUNT_MAX + 10, create=True)
    first_ms, begin_ms = 1_000_000, 5_000_000
    entries = [(7, 0, first_ms), (7, 1, begin_ms)]  # the second one is in the range, and its time is right
    entries += [(7, 2 + number, first_ms + 1_000) for number in range(older_count)]
    entries.append((7, 2 + older_count, begin_ms))
    file.insert(entries)
    wanted = [2 + older_count, 1] if older_count == OLDER_COUNT_MAX else [2 + older_count]
    assert found_in(file, 7, begin_ms, begin_ms + 1_000, 99, Walk()) == wanted


def test_files_that_are_damaged_again_and_again_are_not_made_again_for_ever(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, files = make_index(store)
    for _ in range(index_service.DAMAGED_FILES_MAX):
        flip(index, ENTRIES_AT + INDEX_ENTRY_SIZE_BYTES * COUNT, 31)
        assert found(index) == set(range(COUNT))
    name = index.files[0].path
    flip(index, ENTRIES_AT + INDEX_ENTRY_SIZE_BYTES * COUNT, 31)
    assert found(index) < set(range(COUNT))
    for number in set(range(COUNT)) - found(index):
        with pytest.raises(StoreUnavailableError, match="again and again, 3 times"):
            index.find("T", f"k{number}", 1, *ALWAYS)
    assert files.exists(name)
