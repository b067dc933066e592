"""Compares index files with the log: every entry leads to a record with its key, every key has its entry, chains hold.

Entries stand in log order, so both are walked side by side, one batch of keys at a time. A batch that is equal as
arrays is done. Only other batches are compared entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pymq.model.layout import INDEX_COUNT_AT, INDEX_TIME_DIFF_MAX_S, INDEX_USED_SLOTS_AT
from pymq.offline.damage import DamagedRanges
from pymq.offline.directory import Directory
from pymq.offline.findings import Report
from pymq.offline.index_reader import IndexReader
from pymq.offline.log_walk import record_at
from pymq.store.index.keyed_records import KeyColumns, KeyedRecords, KeyRows
from pymq.store.log.log_record import Scanned, has_index_entries

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pymq.store.scan.columns import Records

BATCH_RECORDS = 1 << 14
_ENTRIES_AT_ONCE = 1 << 16
_CHAIN_ROWS = 1 << 18
_LISTED_MAX = 1000  # wrong slots and chains of one file that are reported one by one


class IndexCheck:
    """Call :meth:`add` with every block's records, then :meth:`finish`. Without index files it compares nothing."""

    def __init__(self, directory: Directory, report: Report, damaged: DamagedRanges) -> None:
        self._log = directory.log
        self._clean = directory.clean
        self._report = report
        self._damaged = damaged
        self._files: list[IndexReader] = []
        self._waiting: list[Scanned] = []
        self._file_at = 0  # the file and the entry that the next key should have
        self._entry_at = 1
        self._missing_rows = 0
        self._missing_range: tuple[int, int] | None = None
        self._unreadable = False
        for path in directory.index_paths():
            self._open(directory, path)

    @property
    def file_count(self) -> int:
        return len(self._files)

    def _open(self, directory: Directory, path: str) -> None:
        file = directory.files.open(path)
        size = file.size()
        file.close()
        geometry = directory.index_geometry(size)
        if geometry is None:
            if size:
                self._unreadable = True
                self._report.note(
                    f"{path} was not checked: its {size} bytes don't tell maxHashSlotNum and maxIndexNum; "
                    f"name the broker's configuration with --config"
                )
            return
        reader = IndexReader(directory.files, path, *geometry)
        if not 1 <= max(reader.header_count, 1) <= reader.entry_count or reader.begin_ms < 0:
            self._report.add(
                "index",
                f"the header counts {reader.header_count} entries of {reader.entry_count}",
                path,
                INDEX_COUNT_AT,
            )
        self._files.append(reader)

    def add(self, records: Iterable[Scanned]) -> None:
        """Take good records, in log order."""
        if not self._files or self._unreadable:
            return
        self._waiting += [record for record in records if not record.sys_flag or has_index_entries(record.sys_flag)]
        if len(self._waiting) >= BATCH_RECORDS:
            self._compare()

    def add_columns(self, records: Records) -> None:
        """As :meth:`add`."""
        from pymq.store.dispatch.bulk_dispatch import record_keys  # noqa: PLC0415 - loads numpy

        if not self._files or self._unreadable:
            return
        self._compare()

        def rows() -> KeyRows:
            kept = map(records.at, range(len(records)))
            return _key_rows(record for record in kept if has_index_entries(record.sys_flag))

        self._compare_keys(record_keys(records), rows)

    # -- entries against records --------------------------------------------------------------------------------

    def _compare(self) -> None:
        from pymq.store.index.bulk_keys import waiting_keys  # noqa: PLC0415 - loads numpy

        waiting, self._waiting = self._waiting, []
        if waiting:
            keyed = KeyedRecords()
            for record in waiting:
                keyed.add(record.topic, record.properties, record.offset, record.store_ms)
            self._compare_keys(waiting_keys(keyed), lambda: _key_rows(waiting))

    def _compare_keys(self, keys: KeyColumns, rows: Callable[[], KeyRows]) -> None:
        """Compare keys. ``rows`` returns the same keys as text, for entries that must be compared one by one."""
        hashes, offsets, times_ms = keys
        done = 0
        while done < len(hashes):
            taken = self._compare_equal(hashes[done:], offsets[done:], times_ms[done:])
            if taken == 0:
                self._compare_singly(rows(), hashes, offsets, times_ms, done)
                return
            done += taken

    def _compare_equal(self, hashes: NDArray[np.int64], offsets: NDArray[np.int64], times_ms: NDArray[np.int64]) -> int:
        """Return how many of the first rows are exactly the next entries of one file; 0 when they must be compared
        singly."""
        file = self._current_file(int(offsets[0]))
        if file is None:
            return 0
        entries = file.entries(self._entry_at, len(hashes))
        count = len(entries)
        diffs = _time_diffs(times_ms[:count], file.begin_ms)
        same = (entries["hash"] == hashes[:count]) & (entries["offset"] == offsets[:count]) & (entries["diff"] == diffs)
        if not count or not same.all():
            return 0
        self._entry_at += count
        return count

    def _current_file(self, log_offset: int) -> IndexReader | None:
        """Return the file with the next entry; skips entries of records that were deleted with their segment."""
        while self._file_at < len(self._files):
            file = self._files[self._file_at]
            while self._entry_at < file.count:
                if file.entries(self._entry_at, 1)["offset"][0] >= self._log.start:
                    return file
                entries = file.entries(self._entry_at, _ENTRIES_AT_ONCE)
                gone = int((entries["offset"] < self._log.start).sum())
                if gone < len(entries):
                    self._entry_at += gone if bool((entries["offset"][:gone] < self._log.start).all()) else 0
                    return file
                self._entry_at += len(entries)
            self._file_at += 1
            self._entry_at = 1
        return None

    def _compare_singly(
        self,
        rows: KeyRows,
        hashes: NDArray[np.int64],
        offsets: NDArray[np.int64],
        times_ms: NDArray[np.int64],
        start: int,
    ) -> None:
        """Compare the entries up to the batch's last record one by one with its rows from ``start`` on."""
        expected: dict[tuple[int, int], int] = {}
        for key_hash, offset, store_ms in zip(
            hashes[start:].tolist(), offsets[start:].tolist(), times_ms[start:].tolist(), strict=True
        ):
            expected[offset, key_hash] = store_ms
        limit = int(offsets[-1])
        seen: set[tuple[int, int]] = set()
        low: int | None = None
        high = -1
        for file, number, (key_hash, offset, diff, _) in self._entries_up_to(limit):
            if (offset, key_hash) not in expected:
                self._explain_entry(file, number, key_hash, offset)
                continue
            seen.add((offset, key_hash))
            low, high = min(offset, low if low is not None else offset), max(offset, high)
            # A file's first entry counts from the end of the file before it (Java: IndexFile.putKey).
            if number > 1 and diff != int(_time_diffs(expected[offset, key_hash], file.begin_ms)):
                text = (
                    f"entry {number} says {diff} s after the file's start, but its record at {offset} has another time"
                )
                self._report.add("index", text, file.path, file.place(number) + 12, offset)
        self._note_missing(rows, hashes, start, seen, low, high)

    def _note_missing(
        self,
        rows: KeyRows,
        hashes: NDArray[np.int64],
        start: int,
        seen: set[tuple[int, int]],
        low: int | None,
        high: int,
    ) -> None:
        for at in range(start, len(rows)):
            offset = rows.offsets[at]
            if (offset, int(hashes[at])) in seen:
                continue
            if low is not None and low <= offset <= high:
                key = rows.keys[at][:80].decode("utf-8", "replace")
                text = f"key {key!r} of {rows.topics[at]} is not in the index, its record is at {offset}"
                self._report.add("index", text, self._last_path(), None, offset)
            else:
                first = self._missing_range[0] if self._missing_range else offset
                self._missing_range = first, offset
                self._missing_rows += 1

    def _last_path(self) -> str:
        return self._files[min(self._file_at, len(self._files) - 1)].path

    def _entries_up_to(self, limit: int) -> Iterable[tuple[IndexReader, int, tuple[int, int, int, int]]]:
        """Yield the entries of records up to ``limit``. Skips one beyond it when the entry after that is not."""
        while (file := self._current_file(limit)) is not None:
            entries: list[Any] = file.entries(self._entry_at, _ENTRIES_AT_ONCE).tolist()
            for at, entry in enumerate(entries):
                stray = at + 1 < len(entries) and self._log.start <= entries[at + 1][1] <= limit
                if entry[1] > limit and not stray:
                    return
                self._entry_at += 1
                if entry[1] >= self._log.start or stray:
                    yield file, self._entry_at - 1, entry

    def _explain_entry(self, file: IndexReader, number: int, key_hash: int, offset: int) -> None:
        if offset in self._damaged:
            self._report.saw("index_entries_of_damaged_records")
            return
        place = file.place(number)
        if record_at(self._log, offset) is None:
            self._report.add("index", f"entry {number} leads to {offset}, where no record starts", file.path, place + 4)
            return
        text = f"entry {number} has hash {key_hash}, but the record at {offset} has no such key"
        self._report.add("index", text, file.path, place, offset)

    # -- the end ------------------------------------------------------------------------------------------------

    def finish(self, log_end: int) -> None:
        """Compare the waiting keys, then entries beyond the log's end, then every file's slots and chains."""
        if not self._files and not self._unreadable:
            self._report.note("there are no index files: messages can't be looked up by key")
            return
        self._compare()
        if not self._unreadable:
            self._finish_entries(log_end)
        for file in self._files:
            self._report.saw("index_files")
            self._report.saw("index_entries", file.count - 1)
            _ChainCheck(file, self._report).run()
            file.close()

    def _finish_entries(self, log_end: int) -> None:
        beyond_count = 0
        for file, number, (key_hash, offset, _, _) in self._entries_up_to(1 << 62):
            if offset >= log_end and not self._clean:
                beyond_count += 1
            elif offset >= log_end:
                text = f"entry {number} leads to {offset}, but the log ends at {log_end}"
                self._report.add("index", text, file.path, file.place(number) + 4)
            else:
                self._explain_entry(file, number, key_hash, offset)
        if beyond_count:
            self._report.note(
                f"the index has {beyond_count} entries that lead beyond the log's end: the next start drops them"
            )
        if self._missing_range is not None:
            first, last = self._missing_range
            self._report.note(
                f"{self._missing_rows} keys of records from {first} to {last} are in no index file"
                + ("" if self._clean else "; the next start adds those after the last entry")
            )


def _key_rows(records: Iterable[Scanned]) -> KeyRows:
    """Return the keys as text, in the order in which they were hashed."""
    rows = KeyRows()
    for record in records:
        rows.add_record(record.topic, record.properties, record.offset, record.store_ms)
    return rows


def _time_diffs(times_ms: Any, begin_ms: int) -> Any:
    """Return the seconds since the file's start as an entry holds them (Java: IndexFile.putKey)."""
    import numpy as np  # noqa: PLC0415

    return np.clip((times_ms - begin_ms) // 1000, 0, INDEX_TIME_DIFF_MAX_S) if begin_ms > 0 else times_ms * 0


class _ChainCheck:
    """Checks slots and back links, by which a look-up finds every entry of a hash and ends."""

    def __init__(self, file: IndexReader, report: Report) -> None:
        self._file = file
        self._report = report

    def run(self) -> None:
        import numpy as np  # noqa: PLC0415

        newest = np.zeros(self._file.slot_count, dtype=np.int32)
        for first in range(1, self._file.count, _CHAIN_ROWS):
            self._check_entries(first, newest)
        wrong = 0
        for first in range(0, self._file.slot_count, _CHAIN_ROWS):
            slots = self._file.slots(first, min(_CHAIN_ROWS, self._file.slot_count - first))
            for at in np.nonzero(slots != newest[first : first + len(slots)])[0][:_LISTED_MAX].tolist():
                wrong += 1
                if self._is_harmless(int(slots[at]), int(newest[first + at])):
                    continue
                text = f"slot {first + at} names entry {slots[at]}, but its newest is {newest[first + at]}"
                self._report.add("index", text, self._file.path, self._file.slot_place(first + at))
        used = int(np.count_nonzero(newest))
        if not wrong and used != self._file.used_slots:
            text = f"the header counts {self._file.used_slots} used slots, but there are {used}"
            self._report.add("index", text, self._file.path, INDEX_USED_SLOTS_AT)

    def _is_harmless(self, slot: int, newest: int) -> bool:
        """True for a slot of an entry that the header does not count yet: the broker died between the two writes."""
        return newest == 0 and slot >= self._file.count

    def _check_entries(self, first: int, newest: NDArray[np.int32]) -> None:
        """Compare the entries of one piece with the entry before each; ``newest`` keeps state per slot over all
        pieces."""
        import numpy as np  # noqa: PLC0415

        entries = self._file.entries(first, _CHAIN_ROWS)
        hashes = entries["hash"].astype(np.int64)
        for at in np.nonzero(hashes < 0)[0][:_LISTED_MAX].tolist():
            text = f"entry {first + at} has a negative hash"
            self._report.add("index", text, self._file.path, self._file.place(first + at))
        places = np.abs(hashes) % self._file.slot_count
        order = np.argsort(places, kind="stable")
        by_slot = places[order]
        starts = np.ones(len(order), dtype=bool)
        starts[1:] = by_slot[1:] != by_slot[:-1]
        before = np.empty(len(order), dtype=np.int64)
        before[1:] = order[:-1] + first
        before[starts] = newest[by_slot[starts]]
        expected = np.empty(len(order), dtype=np.int64)
        expected[order] = before
        for at in np.nonzero(entries["before"] != expected)[0][:_LISTED_MAX].tolist():
            text = f"entry {first + at} has entry {entries['before'][at]} before it, but that should be {expected[at]}"
            self._report.add("index", text, self._file.path, self._file.place(first + at) + 16)
        ends = np.ones(len(order), dtype=bool)
        ends[:-1] = starts[1:]
        newest[by_slot[ends]] = order[ends] + first
