"""Reads one index file's header, slots and entries in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymq.model.layout import INDEX_ENTRY_SIZE_BYTES, INDEX_HEADER, INDEX_HEADER_SIZE_BYTES, INDEX_SLOT_SIZE_BYTES
from pymq.store.disk.fs import Files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class IndexReader:
    """An index file of known geometry. Entries have numbers from 1 to ``count`` - 1, as in its header; times are ms."""

    def __init__(self, files: Files, path: str, slot_count: int, entry_count: int) -> None:
        self.path = path
        self.slot_count = slot_count
        self.entry_count = entry_count
        self._file = files.open(path)
        raw = self._file.pread(0, INDEX_HEADER_SIZE_BYTES)
        self.begin_ms, self.end_ms, self.begin_offset, self.end_offset, self.used_slots, self.header_count = (
            INDEX_HEADER.unpack(raw)
        )
        self.count = max(1, min(self.header_count, entry_count))
        self._entries_at = INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * slot_count

    def slots(self, first: int, count: int) -> NDArray[np.int32]:
        """Return ``count`` slots from number ``first`` on."""
        import numpy as np  # noqa: PLC0415 - only the check needs it

        from pymq.model.layout_dtypes import INDEX_SLOTS  # noqa: PLC0415

        return np.frombuffer(
            self._file.pread(INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * first, INDEX_SLOT_SIZE_BYTES * count),
            INDEX_SLOTS,
        )

    def entries(self, first: int, count: int) -> NDArray[np.void]:
        """Return up to ``count`` entries from number ``first`` on, with the fields hash, offset, diff and before."""
        import numpy as np  # noqa: PLC0415

        from pymq.model.layout_dtypes import INDEX_ENTRIES  # noqa: PLC0415

        count = max(0, min(count, self.count - first))
        raw = self._file.pread(self.place(first), INDEX_ENTRY_SIZE_BYTES * count)
        return np.frombuffer(raw, INDEX_ENTRIES)

    def place(self, number: int) -> int:
        """Return an entry's position in the file."""
        return self._entries_at + INDEX_ENTRY_SIZE_BYTES * number

    def slot_place(self, number: int) -> int:
        """Return a slot's position in the file."""
        return INDEX_HEADER_SIZE_BYTES + INDEX_SLOT_SIZE_BYTES * number

    def close(self) -> None:
        self._file.close()
