"""Look-ups in damaged index files: a record with the key is found, or the look-up says why not."""

from __future__ import annotations

import struct

import pytest

from pymq.clock import ManualClock
from pymq.errors import CorruptRecordError, StoreUnavailableError
from pymq.model.layout import INDEX_ENTRY_SIZE_BYTES, INDEX_HEADER_SIZE_BYTES, INDEX_SLOT_SIZE_BYTES
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.index import index_service
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
