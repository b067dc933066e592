"""Many records of the log as numpy columns, from which queues and index are built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pymq.model.layout_dtypes import CRC_MASK, Int64s
from pymq.store.log.log_record import Scanned

if TYPE_CHECKING:
    from pymq.store.scan.templates import TemplatedRecords


def gather(piece: bytes, places: Int64s, kind: np.dtype[np.void] | np.dtype[np.signedinteger[Any]]) -> NDArray[Any]:
    """Return the values of type ``kind`` at these places of the piece."""
    size = kind.itemsize
    # A view with a value at each place of the piece. Indexing then copies only the expected ones.
    every = np.ndarray((len(piece) - size + 1,), np.dtype((np.void, size)), piece, 0, (1,))
    return every[places].view(kind)


def checksums_fit(piece: bytes, starts: Int64s, ends: Int64s, expected: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each body whether it has the CRC that its record states."""
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    checksums = np.array([crc32(piece[start:end]) for start, end in pairs], np.uint32)
    fit: NDArray[np.bool_] = (checksums & CRC_MASK) == expected
    return fit


class Records:
    """Good records that follow each other in the log. Each column is a field of :class:`Scanned`.

    The properties are a list. With ``templated`` they stay in its matrix until first use.
    """

    __slots__ = (
        "_properties",
        "names",
        "offsets",
        "queue_ids",
        "queue_offsets",
        "sizes",
        "store_ms",
        "sys_flags",
        "templated",
        "topics",
    )

    def __init__(
        self,
        offsets: Int64s,
        sizes: Int64s,
        names: list[str],
        topics: Int64s,
        queue_ids: Int64s,
        queue_offsets: Int64s,
        sys_flags: Int64s,
        store_ms: Int64s,
        properties: list[bytes] | TemplatedRecords,
    ) -> None:
        self.offsets = offsets
        self.sizes = sizes
        self.names = names  # the topics that occur
        self.topics = topics  # for each record an index into names
        self.queue_ids = queue_ids
        self.queue_offsets = queue_offsets
        self.sys_flags = sys_flags
        self.store_ms = store_ms
        self.templated: TemplatedRecords | None = None
        self._properties: list[bytes] | None = None
        if isinstance(properties, list):
            self._properties = properties
        else:
            self.templated = properties

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def properties(self) -> list[bytes]:
        """Each record's raw properties."""
        if self._properties is None:
            assert self.templated is not None
            self._properties = self.templated.properties()
        return self._properties

    @property
    def end(self) -> int:
        """The physical offset behind the last record."""
        return int(self.offsets[-1] + self.sizes[-1])

    def at(self, place: int) -> Scanned:
        """Return one of the records."""
        return Scanned(
            int(self.offsets[place]),
            int(self.sizes[place]),
            self.names[self.topics[place]],
            int(self.queue_ids[place]),
            int(self.queue_offsets[place]),
            int(self.sys_flags[place]),
            int(self.store_ms[place]),
            self.properties[place],
        )

    def between(self, start: int, stop: int) -> Records:
        """Return the records with the numbers ``start`` to ``stop - 1``."""
        part = slice(start, stop)
        return self._part(part, self.templated.part(part) if self.templated is not None else self.properties[part])

    def starting_at(self, offset: int) -> Records:
        """Return the records from a physical offset on."""
        first = int(np.searchsorted(self.offsets, offset))
        return self.between(first, len(self)) if first else self

    def select(self, places: Int64s) -> Records:
        """Return the records with these numbers."""
        if self.templated is not None:
            return self._part(places, self.templated.part(places))
        return self._part(places, [self.properties[place] for place in places.tolist()])

    def _part(self, part: slice | Int64s, properties: list[bytes] | TemplatedRecords) -> Records:
        return Records(
            self.offsets[part],
            self.sizes[part],
            self.names,
            self.topics[part],
            self.queue_ids[part],
            self.queue_offsets[part],
            self.sys_flags[part],
            self.store_ms[part],
            properties,
        )
