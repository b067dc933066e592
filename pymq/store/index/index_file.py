"""IndexFile: a hash table on disk from ``topic#key`` to physical offsets (Java: store.index.IndexFile).

A file has a header of 40 bytes, S slots of 4 bytes and N entries of 20 bytes. A slot holds the number of its newest
entry, an entry the number of the entry before it. Entry 0 is never used. The file is written through a mapping whose
disk space is reserved first, so that a full disk is an error code and not a signal.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from pymq.errors import StoreError
from pymq.model.layout import (
    INDEX_ENTRY,
    INDEX_ENTRY_SIZE_BYTES,
    INDEX_HEADER,
    INDEX_HEADER_SIZE_BYTES,
    INDEX_SLOT,
    INDEX_SLOT_SIZE_BYTES,
    INDEX_TIME_DIFF_MAX_S,
)
from pymq.store.disk.fs import File, Files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ALLOCATE_BYTES = 4 << 20
_REPAIR_COUNT = 1 << 18
_CLEAR_BYTES = 1 << 16
_PLAIN_COUNT_MAX = 1 << 13  # with more entries a roll back uses numpy

WALK_COUNT_MAX = 100_000  # entries that one look-up reads, in some 40 ms; in a full table a chain has about four
STEP_COUNT = 4_000  # entries that it reads between two rests: some 2 ms

# Records that one look-up reads to compare their times with those of entries that it leaves out for their time.
TIME_CHECK_COUNT_MAX = 64
# Entries in a row that are older than what is looked for, after which older ones are not looked at. One alone proves
# nothing: its time may be damaged, or a wrong clock's.
OLDER_COUNT_MAX = 256

IndexEntry = tuple[int, int, int]  # key hash, physical offset, store timestamp ms


def index_file_size(slot_count: int, entry_count: int) -> int:
    """The size in bytes of a file with these numbers of slots and entries."""
    return INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * slot_count + INDEX_ENTRY_SIZE_BYTES * entry_count


class DamagedEntryError(Exception):
    """A look-up met an entry or a slot that can't be what was written. Says which file has it."""

    def __init__(self, file: IndexFile, why: str) -> None:
        super().__init__(f"{file.path}: {why}")
        self.file = file


class Walk:
    """How many entries a look-up may still look at. All keys whose hashes meet in a slot are in one chain.

    ``store_ms(physical_offset)`` returns the store time of a record, -1 when it can't be read; ``checks_left``: how
    often it may still be called. ``older_count``: entries in a row that were too old.
    """

    __slots__ = ("checks_left", "left", "older_count", "store_ms")

    def __init__(self, left: int = WALK_COUNT_MAX, store_ms: Callable[[int], int] | None = None) -> None:
        self.left = left
        self.older_count = 0
        self.store_ms = store_ms
        self.checks_left = TIME_CHECK_COUNT_MAX if store_ms is not None else 0


class IndexFile:
    """One file. ``count`` is the number of the next entry: 1 when empty, the entry limit when full. Times are ms."""

    def __init__(self, files: Files, path: str, slot_count: int, entry_count: int, *, create: bool = False) -> None:
        """Open or make the file. Raises StoreError for another geometry, OSError when there is no space."""
        self.path = path
        self.name = int(path.rpartition("/")[2])
        self.slot_count = slot_count
        self._entry_limit = entry_count
        self.is_closed = False
        self.is_proven = create  # look-ups reach all entries (:mod:`pymq.store.index.entry_proof`)
        self.proof: Generator[int, None, None] | None = None  # that was begun
        self._entries_at = INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * slot_count
        size = index_file_size(slot_count, entry_count)
        self._file: File = files.open(path, create=create, size=size)
        if self._file.size() != size:
            found = self._file.size()
            self._file.close()
            raise StoreError(
                f"{path} has {found} bytes, maxHashSlotNum {slot_count} and maxIndexNum {entry_count} need {size}: "
                f"set them to what this directory was written with, or delete the index directory to rebuild it"
            )
        self._allocated_to = 0
        self._view: memoryview | None = None
        self._arrays: tuple[NDArray[np.int32], NDArray[np.void]] | None = None
        raw = self._file.pread(0, INDEX_HEADER_SIZE_BYTES)
        numbers: tuple[int, int, int, int, int, int] = INDEX_HEADER.unpack(raw)
        self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.used_slots, count = numbers
        self.count: int = max(count, 1)

    @property
    def full(self) -> bool:
        return self.count >= self._entry_limit

    @property
    def sane(self) -> bool:
        """False when the header can't be true: then the file has to be made again."""
        return self.count <= self._entry_limit and self.begin_ms >= 0 and 0 <= self.begin_offset <= self.end_offset

    # -- writing ------------------------------------------------------------------------------------------------

    def preset(self, begin_ms: int, begin_offset: int) -> None:
        """Set the begin of a new file to the end of the one before it."""
        self.begin_ms = self.end_ms = begin_ms
        self.begin_offset = self.end_offset = begin_offset
        self._prepare(1)
        self._write_header()

    def insert(self, entries: list[IndexEntry]) -> int:
        """Add entries one by one, as many as there is room for; return their number.

        Raises OSError; then none is added.
        """
        taken = min(len(entries), self._entry_limit - self.count)
        if taken <= 0:
            return 0
        view = self._prepare(self.count + taken)
        for key_hash, physical_offset, store_ms in entries[:taken]:
            slot_at = INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * (key_hash % self.slot_count)
            before = INDEX_SLOT.unpack_from(view, slot_at)[0]
            if not 0 < before < self.count:
                before = 0
                self.used_slots += 1
            diff_s = self._time_diff_s(store_ms)
            entry_at = self._entries_at + INDEX_ENTRY_SIZE_BYTES * self.count
            INDEX_ENTRY.pack_into(view, entry_at, key_hash, physical_offset, diff_s, before)
            INDEX_SLOT.pack_into(view, slot_at, self.count)
            self._note(physical_offset, store_ms)
            self.count += 1
        self._write_header()
        return taken

    def insert_bulk(self, hashes: NDArray[np.int64], offsets: NDArray[np.int64], times_ms: NDArray[np.int64]) -> int:
        """Do as :meth:`insert` with numpy: a stable sort by slot finds the chains inside the batch."""
        import numpy as np  # noqa: PLC0415 - only stores with keys pay for it

        taken = min(len(hashes), self._entry_limit - self.count)
        if taken <= 0:
            return 0
        self._prepare(self.count + taken)
        slots, entries = self._tables()
        hashes, offsets, times_ms = hashes[:taken], offsets[:taken], times_ms[:taken]
        numbers = np.arange(self.count, self.count + taken, dtype=np.int64)
        places = hashes % self.slot_count
        order = np.argsort(places, kind="stable")
        by_slot = places[order]
        first = np.ones(taken, dtype=bool)
        first[1:] = by_slot[1:] != by_slot[:-1]
        last = np.ones(taken, dtype=bool)
        last[:-1] = first[1:]
        before = slots[by_slot[first]].astype(np.int64)
        before[(before < 0) | (before >= self.count)] = 0
        chain = np.zeros(taken, dtype=np.int64)
        chain[1:] = numbers[order[:-1]]
        chain[first] = before
        fresh = np.empty(taken, dtype=entries.dtype)
        fresh["hash"] = hashes
        fresh["offset"] = offsets
        fresh["diff"][0] = self._time_diff_s(int(times_ms[0]))
        self._note(int(offsets[0]), int(times_ms[0]))
        fresh["diff"][1:] = (
            np.clip((times_ms[1:] - self.begin_ms) // 1000, 0, INDEX_TIME_DIFF_MAX_S) if self.begin_ms > 0 else 0
        )
        fresh["before"][order] = chain
        entries[self.count : self.count + taken] = fresh
        slots[by_slot[last]] = numbers[order[last]]
        self.used_slots += int((before == 0).sum())
        self.count += taken
        self.end_ms, self.end_offset = int(times_ms[-1]), int(offsets[-1])
        self._write_header()
        return taken

    def roll_back(self, count: int) -> None:
        """Keep the entries below number ``count``, and make all slots again from them."""
        self.proof = None
        count = min(count, self.count)
        view = self._prepare(count)
        self._clear_slots(view)
        if count <= _PLAIN_COUNT_MAX:
            self.used_slots = self._fill_slots_plain(view, count)
        else:
            self.used_slots = self._fill_slots(count)
        self.count = count
        if count > 1:
            _, self.end_offset, diff_s, _ = self.entry(count - 1)
            self.end_ms = self.begin_ms + diff_s * 1000 + 999
        else:
            self.end_ms, self.end_offset = self.begin_ms, self.begin_offset
        self._write_header()

    def _clear_slots(self, view: memoryview) -> None:
        """Zero the slots. Writes only where they are not zero: a table of a few keys is nearly empty."""
        for at in range(INDEX_HEADER_SIZE_BYTES, self._entries_at, _CLEAR_BYTES):
            size = min(_CLEAR_BYTES, self._entries_at - at)
            zeros = bytes(size)
            if self._file.pread(at, size) != zeros:
                view[at : at + size] = zeros

    def _fill_slots_plain(self, view: memoryview, count: int) -> int:
        """Do as :meth:`_fill_slots` without numpy: most starts find few entries."""
        raw = self.raw_entries(1, count)
        newest = {entry[0] % self.slot_count: number for number, entry in enumerate(INDEX_ENTRY.iter_unpack(raw), 1)}
        for place, number in newest.items():
            INDEX_SLOT.pack_into(view, INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * place, number)
        return len(newest)

    def _fill_slots(self, count: int) -> int:
        """Set each slot to the number of its newest entry below ``count``; return the number of slots in use."""
        import numpy as np  # noqa: PLC0415

        slots, entries = self._tables()
        for start in range(1, count, _REPAIR_COUNT):
            end = min(start + _REPAIR_COUNT, count)
            places = (
                np.frombuffer(self.raw_entries(start, end), entries.dtype)["hash"].astype(np.int64) % self.slot_count
            )
            # Numbers ascend, and the last assignment to a slot counts: that of the newest entry.
            slots[places] = np.arange(start, end)
        return int(np.count_nonzero(slots))

    def count_below(self, physical_offset: int) -> int:
        """The entry count that the file has without the records from ``physical_offset`` on. Offsets ascend."""
        low, high = 1, self.count
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[1] < physical_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def _time_diff_s(self, store_ms: int) -> int:
        if self.begin_ms <= 0:
            return 0
        return min(max((store_ms - self.begin_ms) // 1000, 0), INDEX_TIME_DIFF_MAX_S)

    def _note(self, physical_offset: int, store_ms: int) -> None:
        if self.count <= 1:
            self.begin_ms, self.begin_offset = store_ms, physical_offset
        self.end_ms, self.end_offset = store_ms, physical_offset

    def _prepare(self, count: int) -> memoryview:
        """Reserve the space of the table and of entries below ``count``; return the writable mapping."""
        needed = self._entries_at + INDEX_ENTRY_SIZE_BYTES * count
        if needed > self._allocated_to:
            limit = self._entries_at + INDEX_ENTRY_SIZE_BYTES * self._entry_limit
            target = min(max(needed, self._allocated_to + _ALLOCATE_BYTES), limit)
            self._file.allocate(self._allocated_to, target - self._allocated_to)
            self._allocated_to = target
        if self._view is None or self._view.readonly:
            self._view = self._file.writable_view()
        return self._view

    def _tables(self) -> tuple[NDArray[np.int32], NDArray[np.void]]:
        import numpy as np  # noqa: PLC0415

        from pymq.model.layout_dtypes import INDEX_ENTRIES, INDEX_SLOTS  # noqa: PLC0415 - it needs numpy

        if self._arrays is None:
            assert self._view is not None and not self._view.readonly
            slots = np.frombuffer(self._view, INDEX_SLOTS, self.slot_count, INDEX_HEADER_SIZE_BYTES)
            self._arrays = slots, np.frombuffer(self._view, INDEX_ENTRIES, self._entry_limit, self._entries_at)
        return self._arrays

    def _write_header(self) -> None:
        assert self._view is not None
        header = (self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.used_slots, self.count)
        INDEX_HEADER.pack_into(self._view, 0, *header)

    # -- reading ------------------------------------------------------------------------------------------------

    def entry(self, number: int) -> tuple[int, int, int, int]:
        """(key hash, physical offset, seconds since begin, number of the entry before it)."""
        entry: tuple[int, int, int, int] = INDEX_ENTRY.unpack_from(
            self._readable(), self._entries_at + INDEX_ENTRY_SIZE_BYTES * number
        )
        return entry

    def raw_slots(self, first: int, count_max: int) -> bytes:
        """Read at most ``count_max`` slots from slot ``first`` on. Raises OSError."""
        size = min(count_max, self.slot_count - first) * INDEX_SLOT_SIZE_BYTES
        return self._file.pread(INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * first, size)

    def raw_entries(self, first: int, end: int) -> bytes:
        """Read entries ``first`` to ``end`` - 1, not through the mapping: all of them would stay in memory.

        Raises OSError.
        """
        return self._file.pread(
            self._entries_at + INDEX_ENTRY_SIZE_BYTES * first, INDEX_ENTRY_SIZE_BYTES * (end - first)
        )

    def next_data(self, at: int) -> int | None:
        """The first position from ``at`` on that may hold nonzero bytes, None when there is none."""
        return self._file.next_data(at)

    def may_have(self, begin_ms: int, end_ms: int) -> bool:
        """False when no entry's time is in the range. A file in which times went back knows no times."""
        if self.count <= 1 or self.is_closed:
            return False
        return self.end_ms < self.begin_ms or (self.begin_ms <= end_ms and self.end_ms >= begin_ms)

    def find_in_steps(
        self, key_hash: int, begin_ms: int, end_ms: int, count_max: int, walk: Walk
    ) -> Generator[None, None, list[int]]:
        """Return physical offsets of entries with this hash and a store time in the range, newest first.

        The range is in whole seconds.
        A file in which times went back, because a clock had been wrong, knows no times: all its entries count. Ends
        when ``walk`` has no steps left, and when the file is closed meanwhile. Yields after ``STEP_COUNT`` entries.
        Raises DamagedEntryError for a chain that can't have been written.
        """
        found: list[int] = []
        if not self.may_have(begin_ms, end_ms):
            return found
        if self.end_ms < self.begin_ms:
            begin_ms, end_ms = 0, max(self.begin_ms, end_ms) + 1000 * INDEX_TIME_DIFF_MAX_S
        slot = key_hash % self.slot_count
        number = INDEX_SLOT.unpack_from(self._readable(), INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * slot)[0]
        if not 0 <= number < self.count:
            raise DamagedEntryError(self, f"slot {slot} names entry {number} of {self.count - 1}")
        walk.older_count = 0
        while number and not self.is_closed and number < self.count:
            number = self._walk_some(number, slot, (key_hash, begin_ms, end_ms, count_max), walk, found)
            if number:
                yield
        return found

    def _walk_some(
        self, number: int, slot: int, wanted: tuple[int, int, int, int], walk: Walk, found: list[int]
    ) -> int:
        """Walk at most ``STEP_COUNT`` entries of a chain from ``number`` on; return where to go on, 0 at its end."""
        key_hash, begin_ms, end_ms, count_max = wanted
        view, entries_at, unpack = self._readable(), self._entries_at, INDEX_ENTRY.unpack_from
        slot_count, begin_offset, end_offset = self.slot_count, self.begin_offset, self.end_offset
        for _ in range(min(STEP_COUNT, walk.left)):
            entry_hash, physical_offset, diff_s, before = unpack(view, entries_at + INDEX_ENTRY_SIZE_BYTES * number)
            walk.left -= 1
            if (
                entry_hash % slot_count != slot
                or not begin_offset <= physical_offset <= end_offset
                or not 0 <= before < number
                or diff_s < 0
            ):
                raise DamagedEntryError(self, f"entry {number} does not belong to slot {slot}")
            # The time of the first entry counts from the file before it. Its record begins this file.
            store_ms = self.begin_ms + (diff_s * 1000 if number > 1 else 0)
            is_older = store_ms + 999 < begin_ms
            walk.older_count = walk.older_count + 1 if is_older else 0
            if walk.older_count > OLDER_COUNT_MAX:
                return 0
            if entry_hash == key_hash:
                if is_older or store_ms > end_ms:
                    self._check_left_out(number, walk)
                else:
                    found.append(physical_offset)
                    if len(found) >= count_max:
                        return 0
            if not before:
                return 0
            number = before
        return number if walk.left > 0 else 0

    def _check_left_out(self, number: int, walk: Walk) -> None:
        """Compare the time of an entry that a look-up leaves out for it with its record's.

        Raises DamagedEntryError for another one.
        """
        if walk.store_ms is not None and walk.checks_left and number > 1:
            walk.checks_left -= 1
            self.check_time(number, walk.store_ms)

    def check_time(self, number: int, store_ms_at: Callable[[int], int]) -> None:
        """Compare the time of an entry with its record's. The first entry has none: it counts from another file.

        Raises DamagedEntryError for another one.
        """
        if number <= 1:
            return
        _, physical_offset, diff_s, _ = self.entry(number)
        store_ms = store_ms_at(physical_offset)
        if store_ms >= 0 and self._time_diff_s(store_ms) != diff_s:
            raise DamagedEntryError(
                self,
                f"entry {number} is {diff_s} s younger than the first one, its record {store_ms - self.begin_ms} ms",
            )

    def _readable(self) -> memoryview:
        if self._view is None:
            self._view = self._file.view()
        return self._view

    def release(self) -> None:
        """Give the mapped pages back to the system."""
        if self._view is not None:
            self._file.release(self._view)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self.is_closed = True
        self._arrays = None
        self._view = None
        self._file.close()
