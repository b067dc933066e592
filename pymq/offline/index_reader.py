"""Reads one index file's header, slots and entries in pieces."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pymq.store.disk.fs import Files
from pymq.store.index.index_file import ENTRY_SIZE_BYTES, HEADER_SIZE_BYTES, SLOT_SIZE_BYTES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HEADER = struct.Struct(">qqqqii")
_LAYOUT = [("hash", ">i4"), ("offset", ">i8"), ("diff", ">i4"), ("before", ">i4")]


class IndexReader:
    """An index file of known geometry. Entries have numbers from 1 to ``count`` - 1, as in its header; times are ms."""

    def __init__(self, files: Files, path: str, slot_count: int, entry_count: int) -> None:
        self.path = path
        self.slot_count = slot_count
        self.entry_count = entry_count
        self._file = files.open(path)
        raw = self._file.pread(0, HEADER_SIZE_BYTES)
        self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.used_slots, self.header_count = (
            HEADER.unpack(raw)
        )
        self.count = max(1, min(self.header_count, entry_count))
        self._entries_at = HEADER_SIZE_BYTES + SLOT_SIZE_BYTES * slot_count

    def slots(self, first: int, count: int) -> NDArray[np.int32]:
        """Return ``count`` slots from number ``first`` on."""
        import numpy as np  # noqa: PLC0415 - only the check needs it

        return np.frombuffer(self._file.pread(HEADER_SIZE_BYTES + SLOT_SIZE_BYTES * first, 4 * count), ">i4")

    def entries(self, first: int, count: int) -> NDArray[np.void]:
        """Return up to ``count`` entries from number ``first`` on, with the fields hash, offset, diff and before."""
        import numpy as np  # noqa: PLC0415

        count = max(0, min(count, self.count - first))
        raw = self._file.pread(self.place(first), ENTRY_SIZE_BYTES * count)
        return np.frombuffer(raw, np.dtype(_LAYOUT))

    def place(self, number: int) -> int:
        """Return an entry's position in the file."""
        return self._entries_at + ENTRY_SIZE_BYTES * number

    def slot_place(self, number: int) -> int:
        """Return a slot's position in the file."""
        return HEADER_SIZE_BYTES + SLOT_SIZE_BYTES * number

    def close(self) -> None:
        self._file.close()
