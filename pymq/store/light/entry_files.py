"""EntryFiles: the entries of all light queues in the order of the log, in segments ``lightqueue/<position>``.

An entry names the one before it in its queue, and every 16th one also names one far before it. With these a queue is
searched in a number of steps that grows with the logarithm of its length (Myers, "An applicative random-access stack",
1983), and a short queue grows without any look at its entries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple
from zlib import crc32

from pymq.errors import StoreError
from pymq.store.disk.fs import File, Files, make_directory

# physical offset, record size, queue number, queue offset, store time, previous entry, far entry, rank, far rank
_FIELDS: Final = struct.Struct(">qiIqqqqqq")
_CRC: Final = struct.Struct(">I")
_pack_crc = _CRC.pack
pack_entry = _FIELDS.pack
ENTRY_SIZE_BYTES: Final = _FIELDS.size + _CRC.size
NO_ENTRY: Final = -1
FAR_RANKS: Final = 16
TAIL_BYTES_MAX: Final = 65_536  # entries that wait in memory; more are written at once
_READ_ENTRIES: Final = 4096
_OPEN_FILES_MAX: Final = 64


class LightEntry(NamedTuple):
    """One message of a light queue. ``rank``: how many entries of its chain lie before it.

    ``previous`` and ``far`` are numbers of entries. ``far`` and ``far_rank`` count where the rank is a multiple of
    FAR_RANKS; the first entry of a chain has rank 0 and is its own far one.
    """

    physical_offset: int
    size_bytes: int
    queue: int
    queue_offset: int
    store_ms: int
    previous: int
    far: int
    rank: int
    far_rank: int


class EntryFiles:
    """Entries have numbers from 0 on. :meth:`sync` may run in another thread, all else in the store's own."""

    def __init__(self, files: Files, directory: str, entries_a_file: int) -> None:
        self._files = files
        self._directory = directory
        self._entries_a_file = entries_a_file
        self._starts: list[int] = []  # numbers of the first entries of files
        self._open: dict[int, File] = {}
        self._tail = bytearray()
        self._written_end = 0
        self._synced_end = 0
        self.end = 0  # the number that the next entry gets

    @property
    def begin(self) -> int:
        """The oldest entry that is kept."""
        return self._starts[0] if self._starts else self._written_end

    def load(self) -> None:
        """Find the files. One that does not follow the one before it is removed. Raises OSError."""
        names = [name for name in self._files.listdir(self._directory) if len(name) == 20 and name.isdigit()]
        positions = sorted(int(name) for name in names)
        self._starts = []
        for place, position in enumerate(positions):
            start = position // ENTRY_SIZE_BYTES
            if start == positions[0] // ENTRY_SIZE_BYTES + place * self._entries_a_file:
                self._starts.append(start)
            else:
                self._files.remove(f"{self._directory}/{position:020d}")  # behind a lost file
        self._written_end = self._synced_end = self.end = self._end_of_files() if self._starts else 0

    def _end_of_files(self) -> int:
        last = self._starts[-1]
        return last + min(self._file(last).size() // ENTRY_SIZE_BYTES, self._entries_a_file)

    def append(self, *fields: int) -> None:
        """Add an entry with these fields in memory."""
        self.extend((pack_entry(*fields),))

    def extend(self, packed: Sequence[bytes]) -> None:
        """Do as :meth:`append` with what :data:`pack_entry` made of the fields of each entry."""
        tail, number = self._tail, self.end
        for entry in packed:
            tail += entry
            tail += _pack_crc(crc32(entry, number & 0xFFFFFFFF))
            number += 1
        self.end = number

    @property
    def is_tail_long(self) -> bool:
        """True when the entries in memory should be written now."""
        return len(self._tail) >= TAIL_BYTES_MAX

    def find(self, number: int) -> LightEntry | None:
        """Return an entry; None for one that is no longer kept. Raises StoreError for a damaged one, OSError."""
        if number < self.begin:
            return None
        if number >= self._written_end:
            at = (number - self._written_end) * ENTRY_SIZE_BYTES
            raw = bytes(self._tail[at : at + ENTRY_SIZE_BYTES])
        else:
            start = number // self._entries_a_file * self._entries_a_file
            raw = self._file(start).pread((number - start) * ENTRY_SIZE_BYTES, ENTRY_SIZE_BYTES)
        entry = _unpack(raw, 0, number)
        if entry is None:
            raise StoreError(
                f"entry {number} of {self._directory} is damaged: restart the broker, which makes light queues again "
                "from the log"
            )
        return entry

    def entries_from(self, number: int) -> Iterator[tuple[int, LightEntry]]:
        """Yield (number, entry) of the written entries up to the first that is not whole. Raises OSError."""
        while self.begin <= number < self._written_end:
            start = number // self._entries_a_file * self._entries_a_file
            count = min(_READ_ENTRIES, start + self._entries_a_file - number, self._written_end - number)
            piece = self._file(start).pread((number - start) * ENTRY_SIZE_BYTES, count * ENTRY_SIZE_BYTES)
            for at in range(0, count * ENTRY_SIZE_BYTES, ENTRY_SIZE_BYTES):
                entry = _unpack(piece, at, number)
                if entry is None:
                    return
                yield number, entry
                number += 1

    def write(self) -> None:
        """Write the entries in memory to their files. Raises OSError; then those not written stay in memory."""
        while self._tail:
            start = self._written_end // self._entries_a_file * self._entries_a_file
            room = (start + self._entries_a_file - self._written_end) * ENTRY_SIZE_BYTES
            piece = bytes(self._tail[:room])
            if start not in self._starts:
                self._create(start)
            self._file(start).pwrite((self._written_end - start) * ENTRY_SIZE_BYTES, piece)
            self._written_end += len(piece) // ENTRY_SIZE_BYTES
            del self._tail[: len(piece)]

    def _create(self, start: int) -> None:
        make_directory(self._files, self._directory)
        with closing(self._files.open(self._path(start), create=True)) as file:
            file.truncate(0)
        self._files.sync_dir(self._directory)
        self._starts.append(start)

    def sync(self) -> None:
        """Bring the written entries to the disk. Safe from another thread. Raises OSError."""
        end = self._written_end
        for start in list(self._starts):
            if start + self._entries_a_file > self._synced_end:
                self._file(start).sync()
        self._synced_end = end

    def truncate(self, end: int) -> None:
        """Drop the entries from ``end`` on. Raises OSError."""
        self.end = end
        if end >= self._written_end:
            del self._tail[(end - self._written_end) * ENTRY_SIZE_BYTES :]
            return
        self._tail.clear()
        while self._starts and self._starts[-1] >= end:
            self._remove(self._starts[-1])
        if self._starts:
            last = self._starts[-1]
            self._file(last).truncate((end - last) * ENTRY_SIZE_BYTES)
        self._written_end, self._synced_end = end, min(self._synced_end, end)

    def drop_before(self, number: int) -> None:
        """Remove the files whose entries all lie before ``number``. Raises OSError."""
        while len(self._starts) > 1 and self._starts[1] <= number:
            self._remove(self._starts[0])

    def clear(self) -> None:
        """Remove all entries. Numbers begin at 0 again. Raises OSError."""
        for start in list(self._starts):
            self._remove(start)
        self._tail.clear()
        self._written_end = self._synced_end = self.end = 0

    def close(self) -> None:
        """Close the files."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _remove(self, start: int) -> None:
        file = self._open.pop(start, None)
        if file is not None:
            file.close()
        self._starts.remove(start)
        self._files.remove(self._path(start))

    def _file(self, start: int) -> File:
        file = self._open.get(start)
        if file is None:
            # A sync in another thread uses files behind the synced end only.
            idle = [other for other in list(self._open) if other + self._entries_a_file <= self._synced_end]
            if len(self._open) >= _OPEN_FILES_MAX and idle:
                self._open.pop(idle[0]).close()
            file = self._open[start] = self._files.open(self._path(start))
        return file

    def _path(self, start: int) -> str:
        return f"{self._directory}/{start * ENTRY_SIZE_BYTES:020d}"


def _unpack(raw: bytes, at: int, number: int) -> LightEntry | None:
    """Return the entry with this number; None when the bytes are not it."""
    if len(raw) - at < ENTRY_SIZE_BYTES:
        return None
    end = at + _FIELDS.size
    if _CRC.unpack_from(raw, end)[0] != crc32(raw[at:end], number & 0xFFFFFFFF):
        return None
    return LightEntry._make(_FIELDS.unpack_from(raw, at))
