"""An index file that a start found is proven before its first look-up: no emptied slot or link hides a record."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.clock import ManualClock
from pymq.errors import StoreUnavailableError, UnreadableError
from pymq.model.layout import INDEX_ENTRY, INDEX_ENTRY_SIZE_BYTES, INDEX_HEADER_SIZE_BYTES, INDEX_SLOT_SIZE_BYTES
from pymq.store.disk.checkpoint import Checkpoint
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.index import entry_proof, index_service
from pymq.store.index.entry_proof import Prover
from pymq.store.index.index_file import DamagedEntryError, IndexFile
from pymq.store.index.index_service import IndexService
from pymq.store.settings import StoreSettings
from pymq.store.store import MessageStore
from tests.store.support import make_store, put

COUNT = 12
SLOTS = 4
ENTRIES = 9  # 8 in the first file, which is full, and 4 in the second
ENTRIES_AT = INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * SLOTS
SETTINGS = StoreSettings(index_slot_count=SLOTS, index_entry_count=ENTRIES)
ALWAYS = (0, 1 << 60)


@pytest.fixture(scope="module")
def store() -> MessageStore:
    """A store with a message for each of the keys k0, k1, … a second apart."""
    clock = ManualClock()
    made = make_store(MemoryFiles(), clock, segment_size_bytes=1 << 14, index_enabled=False)
    made.open()
    for number in range(COUNT):
        put(made, "T", 0, b"%d" % number, keys=f"k{number}")
        clock.advance(1000)
    return made


@pytest.fixture(params=[True, False], ids=["numpy", "plain"])
def may_use_numpy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Short pieces, read with and without numpy."""
    monkeypatch.setattr(entry_proof, "ENTRIES_A_PIECE", 3)
    monkeypatch.setattr(entry_proof, "SLOTS_A_PIECE", 3)
    return bool(request.param)


def written(store: MessageStore) -> MemoryFiles:
    """Return the files of an index of all messages."""
    files = MemoryFiles()
    files.makedirs("/index")
    index = IndexService(files, "/index", store._log, ManualClock(), SETTINGS)
    index.rebuild_from(0)
    index.is_rebuilding = False
    index.drain()
    index.disk.close()
    return files


def started(store: MessageStore, files: MemoryFiles, *, bulk_ready: bool = True) -> IndexService:
    """Return the index that a start finds."""
    index = IndexService(files, "/index", store._log, ManualClock(), SETTINGS)
    index.bulk_ready = bulk_ready
    start = index.load(Checkpoint(), 0, clean=True)
    assert start == store.physical_max_offset and not index.notes
    return index


def paths(files: MemoryFiles) -> list[str]:
    return [f"/index/{name}" for name in files.listdir("/index")]


def overwrite(files: MemoryFiles, path: str, at: int, data: bytes) -> bytes:
    """Write over bytes of a file; return those before."""
    file = files.open(path)
    before = file.pread(at, len(data))
    file.pwrite(at, data)
    file.close()
    return before


def places() -> Iterator[tuple[int, int]]:
    """Yield where each slot and each link is, as the number of the file and the place in it."""
    for number in range(2):
        yield from ((number, INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * slot) for slot in range(SLOTS))
        yield from ((number, ENTRIES_AT + INDEX_ENTRY_SIZE_BYTES * entry + 16) for entry in range(1, ENTRIES))


def found(index: IndexService) -> list[int]:
    return [number for number in range(COUNT) if index.find("T", f"k{number}", 9, *ALWAYS)]


def test_no_emptied_slot_or_link_hides_a_record(store: MessageStore, may_use_numpy: bool) -> None:
    emptied = 0
    for number, at in places():
        files = written(store)
        before = overwrite(files, paths(files)[number], at, bytes(4))
        emptied += any(before)
        index = started(store, files, bulk_ready=may_use_numpy)
        assert found(index) == list(range(COUNT)), (number, at)
        assert index._damage_count == any(before)
    assert emptied == COUNT  # each entry is named once


def test_a_sound_file_is_proven_once(store: MessageStore, may_use_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    index = started(store, written(store), bulk_ready=may_use_numpy)
    assert [file.is_proven for file in index.files] == [False, False]
    assert found(index) == list(range(COUNT))
    assert [file.is_proven for file in index.files] == [True, True]
    monkeypatch.setattr(Prover, "_prove_some", lambda *_: pytest.fail("proven again"))
    assert found(index) == list(range(COUNT)) and index._damage_count == 0


def test_only_files_of_the_time_that_is_asked_for_are_proven(store: MessageStore) -> None:
    index = started(store, written(store))
    index.find("T", "k11", 1, index.files[1].begin_ms, ALWAYS[1])
    assert [file.is_proven for file in index.files] == [False, True]


@pytest.mark.parametrize("more", [0, 1])
def test_keys_that_are_inserted_during_the_proof_do_not_disturb_it(store: MessageStore, more: int) -> None:
    index = started(store, written(store))
    file = index.files[1]
    steps = index.prover.prove_in_steps(file, 1 << 20)
    for _ in range(more):
        next(steps)
    file.insert([(slot, file.end_offset, file.end_ms) for slot in range(4)])
    for _ in steps:
        pass
    assert file.is_proven


def test_a_slot_of_an_entry_that_does_not_count_yet_is_no_damage(store: MessageStore) -> None:
    """A broker died between the two writes."""
    files = written(store)
    index = started(store, files)
    file = index.files[1]
    view = file._prepare(file.count)
    empty = next(slot for slot in range(SLOTS) if not any(file.raw_slots(slot, 1)))
    struct.pack_into(">i", view, INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * empty, file.count)
    for _ in index.prover.prove_in_steps(file, 1 << 20):
        pass
    assert file.is_proven


def test_exchanged_offsets_and_other_times_are_found(store: MessageStore, may_use_numpy: bool) -> None:
    for field, value in (("offsets", struct.pack(">q", 7)), ("times", struct.pack(">i", 90))):
        files = written(store)
        at = ENTRIES_AT + INDEX_ENTRY_SIZE_BYTES * 4 + (4 if field == "offsets" else 12)
        overwrite(files, paths(files)[0], at, value)
        index = started(store, files, bulk_ready=may_use_numpy)
        assert found(index) == list(range(COUNT)) and index._damage_count == 1, field


@pytest.mark.parametrize("at", [0, 8])
def test_a_header_with_other_times_than_its_records_is_not_believed(store: MessageStore, at: int) -> None:
    files = written(store)
    overwrite(files, paths(files)[0], at, struct.pack(">q", 1))
    index = IndexService(files, "/index", store._log, ManualClock(), SETTINGS)
    index.load(Checkpoint(), 0, clean=True)
    assert "says other times than its records" in index.notes[0]


def test_an_older_file_that_counts_more_entries_than_fit_is_not_believed(store: MessageStore) -> None:
    files = written(store)
    overwrite(files, paths(files)[0], INDEX_HEADER_SIZE_BYTES - 4, struct.pack(">i", ENTRIES + 1))
    index = IndexService(files, "/index", store._log, ManualClock(), SETTINGS)
    assert index.load(Checkpoint(), 0, clean=True) == 0
    assert "has a header that can't be true" in index.notes[0]


def test_an_entry_that_leads_into_a_record_is_damage_of_the_index(store: MessageStore) -> None:
    files = written(store)
    at = ENTRIES_AT + INDEX_ENTRY_SIZE_BYTES * 3
    (offset,) = struct.unpack(">q", overwrite(files, paths(files)[0], at + 4, bytes(8)))
    overwrite(files, paths(files)[0], at + 4, struct.pack(">q", offset + 1))
    index = started(store, files)
    assert found(index) == list(range(COUNT)) and index._damage_count == 1


def test_a_look_up_reads_a_bounded_number_of_bytes_and_ticks_go_on(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_service, "_PROOF_BYTES_AT_ONCE", 1)
    monkeypatch.setattr(index_service, "_PROOF_BYTES_A_TICK", 1)
    index = started(store, written(store))
    with pytest.raises(StoreUnavailableError, match="compared with itself first: try again"):
        index.find("T", "k0", 1, *ALWAYS)
    for _ in range(5):
        index.prove_some()
    assert [file.is_proven for file in index.files] == [False, True]
    with pytest.raises(StoreUnavailableError, match="try again"):
        index.find("T", "k0", 1, *ALWAYS)
    for _ in range(5):
        index.prove_some()
    assert found(index) == list(range(COUNT))
    assert index.prover._refused is None


def test_damage_that_a_tick_finds_is_made_again(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_service, "_PROOF_BYTES_AT_ONCE", 1)
    files = written(store)
    overwrite(files, paths(files)[1], ENTRIES_AT - 16, bytes(16))
    index = started(store, files)
    with pytest.raises(StoreUnavailableError, match="compared with itself first: try again"):
        index.find("T", "k11", 1, *ALWAYS)
    index.prove_some()
    assert index.is_rebuilding and len(index.files) == 1
    monkeypatch.undo()
    assert found(index) == list(range(COUNT))


def test_a_disk_that_can_not_be_read_proves_nothing(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    index = started(store, written(store))
    monkeypatch.setattr(IndexFile, "raw_entries", failing)
    for _ in range(2):
        with pytest.raises(UnreadableError, match="can't be read"):
            index.find("T", "k0", 1, *ALWAYS)
        index.prove_some()
    assert not index.files[1].is_proven
    monkeypatch.undo()
    assert found(index) == list(range(COUNT))


def test_a_long_proof_asks_for_numpy(store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
    index = started(store, written(store), bulk_ready=False)
    assert found(index) == list(range(COUNT)) and not index.prover.is_numpy_wanted
    monkeypatch.setattr(entry_proof, "_PLAIN_COUNT_MAX", 4)
    index = started(store, written(store), bulk_ready=False)
    assert found(index) == list(range(COUNT)) and index.prover.is_numpy_wanted


def failing(*_: object) -> bytes:
    raise OSError(errno.EIO, "Input/output error")


def test_a_file_that_can_not_be_proven_is_not_proven_at_the_second_try(store: MessageStore) -> None:
    files = written(store)
    overwrite(files, paths(files)[1], ENTRIES_AT - 16, bytes(16))
    index = started(store, files)
    for _ in range(2):
        with pytest.raises(DamagedEntryError):
            list(index.prover.prove_in_steps(index.files[1], 1 << 20))


ROWS = st.lists(st.tuples(*[st.integers(0, 9)] * 4), min_size=1, max_size=20)


@settings(deadline=None, max_examples=50)
@given(ROWS, st.lists(st.integers(-3, 30), max_size=20), st.integers(1, 30))
def test_pieces_with_and_without_numpy_are_equal(
    rows: list[tuple[int, int, int, int]], slots: list[int], limit: int
) -> None:
    raw = b"".join(INDEX_ENTRY.pack(*row) for row in rows)
    assert entry_proof._entries(raw) == entry_proof._entries_plain(raw)
    raw = struct.pack(f">{len(slots)}i", *slots)
    assert entry_proof._slots(raw, limit) == entry_proof._slots_plain(raw, limit)
