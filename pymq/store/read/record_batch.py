"""Record batches: the records of many queue units back to back, for a prefilter that checks all of them at once."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymq.model.layout import RECORD_OVERHEAD_BYTES, UNIT, UNIT_SIZE_BYTES
from pymq.model.layout_dtypes import UNITS
from pymq.store.integrity.checked_read import Window, read_window
from pymq.store.read.windows import NO_WINDOW, Unit, WindowReader

RECORD_BATCH_BYTES_MAX = 1 << 20  # fits into the processor's caches
RECORD_BATCH_COUNT_MIN = 8  # fewer records are filtered one by one
_ROOM_BYTES = 2048  # behind the records, for a prefilter that copies pieces of equal length from each record
_ADJACENT_COUNT_MIN = 8  # mean number of adjacent records that are worth a separate read


class RecordBatch(NamedTuple):
    """``records``: back to back, with some room behind them; valid until the next call.

    ``edges``: where each record begins, and where the last one ends. ``windows``: the windows that were read, each with
    the number of its first record.
    """

    records: bytearray
    edges: NDArray[np.int64]
    windows: list[tuple[int, Window]]

    def window(self, number: int) -> Window:
        """The window that record ``number`` was read in."""
        return self.windows[bisect_right(self.windows, number, key=_first) - 1][1]


def read_record_batch(windows: WindowReader, packed: bytes | bytearray, bytes_max: int) -> RecordBatch | None:
    """The records of the first units, as many as fit into ``RECORD_BATCH_BYTES_MAX``.

    None for too few records, and when one is unusual: a unit that can't be true, a deleted record, doubts about its
    bytes. Raises UnreadableError, CorruptRecordError. ``bytes_max``: as for :meth:`WindowReader.window`.
    """
    units = np.frombuffer(packed, UNITS)
    offsets, sizes = units["offset"].astype(np.int64), units["size"].astype(np.int64)
    edges = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=edges[1:])
    count = int(np.searchsorted(edges, RECORD_BATCH_BYTES_MAX, "right")) - 1
    offsets, sizes, edges = offsets[:count], sizes[:count], edges[: count + 1]
    if count < RECORD_BATCH_COUNT_MIN or sizes.min() < RECORD_OVERHEAD_BYTES or (np.diff(offsets) <= 0).any():
        return None
    breaks = np.flatnonzero(offsets[1:] != offsets[:-1] + sizes[:-1]) + 1
    if len(breaks) * _ADJACENT_COUNT_MIN > count:
        batch = _scattered(windows, list(UNIT.iter_unpack(packed[: count * UNIT_SIZE_BYTES])), bytes_max)
    else:
        bounds = [0, *breaks.tolist(), count]
        runs = [(low, int(offsets[low]), int(offsets[high - 1] + sizes[high - 1])) for low, high in pairwise(bounds)]
        batch = _in_runs(windows, runs)
    if batch is None:
        return None
    pieces, read = batch
    return RecordBatch(_joined(windows, pieces), edges, read)


def _joined(windows: WindowReader, pieces: list[memoryview]) -> bytearray:
    """Join the pieces in one buffer for all calls: fresh memory of this size would cost as much as the filtering."""
    if not windows.batch_buffer:
        windows.batch_buffer = bytearray(RECORD_BATCH_BYTES_MAX + _ROOM_BYTES)
    at, target = 0, memoryview(windows.batch_buffer)
    for piece in pieces:
        target[at : at + len(piece)] = piece
        at += len(piece)
    return windows.batch_buffer


_Pieces = tuple[list[memoryview], list[tuple[int, Window]]]


def _in_runs(windows: WindowReader, runs: list[tuple[int, int, int]]) -> _Pieces | None:
    """Read each run of adjacent records at once. A run: its first record's number, its begin and its end."""
    pieces, read = [], []
    for first, start, end in runs:
        segment = windows.log.find(start) if start >= windows.log.min_offset else None
        if segment is None or end > min(segment.end, windows.log.max_offset):
            return None
        window = read_window(windows.log, segment, start, end)
        data, data_start, data_end, doubts = window
        if doubts is not None or end > data_end:
            return None
        pieces.append(data[start - data_start : end - data_start])
        read.append((first, window))
    return pieces, read


def _scattered(windows: WindowReader, units: list[Unit], bytes_max: int) -> _Pieces | None:
    """Read records that lie apart, with the windows that :class:`WindowReader` chooses."""
    pieces: list[memoryview] = []
    read: list[tuple[int, Window]] = []
    data, start, end, doubts = NO_WINDOW
    for number, (offset, size, _) in enumerate(units):
        if offset < start or offset + size > end:
            segment = windows.log.find(offset) if offset >= windows.log.min_offset else None
            if segment is None:
                return None
            window = data, start, end, doubts = windows.window(segment, units, number, bytes_max)
            if doubts is not None or offset < start or offset + size > end:
                return None
            read.append((number, window))
        pieces.append(data[offset - start : offset - start + size])
    return pieces, read


def _first(read: tuple[int, Window]) -> int:
    return read[0]
