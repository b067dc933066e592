"""The properties of many stored records as a byte table: finding a property in all of them costs as much as in few."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymq.filter.raw_properties import NAME_END, SEPARATOR
from pymq.model.layout import (
    BODY_AT,
    BOTH_LENGTHS_BYTES,
    HOST_V6_FLAGS,
    MAGIC_V1,
)
from pymq.model.layout_dtypes import HEADS_V4_FILTER

Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]

PROPERTIES_BYTES_MAX = 1024  # the table leaves longer records out: one of them would make it large
ROOM_BYTES = PROPERTIES_BYTES_MAX + BODY_AT  # after the records: the last rows of fixed length reach beyond them
_SEPARATOR, _NAME_END = SEPARATOR[0], NAME_END[0]


class ValueColumn(NamedTuple):
    """One property of each record: where its value begins in :attr:`PropertyTable.source`, and which records have it.

    ``is_sure`` is False where the table knows neither the value nor its absence.
    """

    starts: Int64s
    is_found: Bools
    is_sure: Bools


class PropertyTable:
    """The sources (:mod:`pymq.filter.raw_properties`) of records, one after the other, padded to the same length.

    The padding consists of separators, so every value ends with one. Two rows of separators follow the last row.
    """

    def __init__(self, records: bytes | bytearray, edges: Int64s) -> None:
        """``edges`` holds where each record begins, and where the last one ends.

        ``records`` may have room after that.
        """
        if len(records) < edges[-1] + ROOM_BYTES:
            records = bytes(records) + bytes(ROOM_BYTES)
        begins, ends, self._is_sure = _areas(records, edges)
        sizes = ends - begins
        width = int(sizes.max(initial=0)) + 2
        # The byte before the properties is part of their length; the first separator takes its place.
        rows = _gather(records, begins - 1, width)
        rows[:, 0] = _SEPARATOR
        columns = np.arange(1, width + 1, dtype=np.uint16)
        np.copyto(rows, _SEPARATOR, where=columns > sizes.astype(np.uint16)[:, None] + np.uint16(1))
        self._width = width
        self.source = rows.tobytes() + SEPARATOR * (2 * width)
        self._columns: dict[str, ValueColumn] = {}
        self._name_ends = np.flatnonzero(np.frombuffer(self.source, np.uint8) == _NAME_END)

    def __len__(self) -> int:
        return len(self._is_sure)

    def column(self, name: str) -> ValueColumn:
        """Return a property's values. When a name occurs several times, its last value counts."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._find(SEPARATOR + name.encode() + NAME_END)
        return found

    def _find(self, needle: bytes) -> ValueColumn:
        places = self._name_ends + 1 - len(needle)
        places = places[places >= 0]
        value_starts = places[self.begins_with(places, needle)] + len(needle)
        starts = np.zeros(len(self), np.int64)
        starts[value_starts // self._width] = value_starts  # ascending, so the last one of a record wins
        is_found = starts > 0
        is_empty = is_found & (self.bytes_at(starts) == _SEPARATOR)  # then an earlier value may count
        return ValueColumn(starts, is_found, self._is_sure & ~is_empty)

    def begins_with(self, places: Int64s, text: bytes) -> Bools:
        """Return at which of these places of :attr:`source` a text stands.

        A value equals a text that ends in a separator.
        """
        if len(text) > self._width:
            return np.zeros(len(places), np.bool_)
        every = np.ndarray((len(self.source) - len(text) + 1,), f"V{len(text)}", self.source, 0, (1,))
        same: Bools = every[places] == np.void(text)
        return same

    def bytes_at(self, places: Int64s) -> NDArray[np.uint8]:
        """Return the byte at each place."""
        return np.frombuffer(self.source, np.uint8)[places]

    def texts(self, starts: Int64s) -> list[bytes]:
        """Return the values that begin at these places."""
        source, find = self.source, self.source.find
        return [source[start : find(SEPARATOR, start)] for start in starts.tolist()]


def _areas(records: bytes | bytearray, edges: Int64s) -> tuple[Int64s, Int64s, Bools]:
    """Return where the properties of each record begin and end, and for which records this is sure; the others have
    none.

    The same rule as :func:`pymq.filter.raw_properties.source_of`.
    """
    starts, ends = edges[:-1], edges[1:]
    is_sure = ends - starts > BODY_AT
    heads = _gather(records, starts, BODY_AT).view(HEADS_V4_FILTER)[:, 0]
    body_sizes = heads["body_size"].astype(np.int64)
    is_sure &= (heads["magic"] == MAGIC_V1) & (heads["flags"] & HOST_V6_FLAGS == 0) & (body_sizes >= 0)
    topics = starts + BODY_AT + body_sizes
    is_sure &= topics < ends
    topics = np.where(is_sure, topics, starts)
    begins = topics + BOTH_LENGTHS_BYTES + np.frombuffer(records, np.uint8)[topics]
    is_sure &= (begins <= ends) & (ends - begins <= PROPERTIES_BYTES_MAX)
    return np.where(is_sure, begins, starts + 1), np.where(is_sure, ends, starts + 1), is_sure


def _gather(data: bytes | bytearray, places: Int64s, size: int) -> NDArray[np.uint8]:
    """Return a row of ``size`` bytes from each place."""
    every = np.ndarray((len(data) - size + 1,), f"V{size}", data, 0, (1,))
    return every[places].view(np.uint8).reshape(len(places), size)
