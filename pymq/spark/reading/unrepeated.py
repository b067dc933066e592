"""Leaves out repeated messages: those whose id and body came among the rows shortly before in their queue.

Which ones are left out depends on the queue alone, never on how it is split into ranges or batches, so a read that is
planned again gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pymq.spark.planning.ranges import QueueRange, ReadSettings
from pymq.spark.records.schema import check_columns

DUPLICATE_WINDOW_ROWS = 500_000
_SEEN = ("queueOffset", "msgId", "value")  # value: the body as bytes, whatever its schema

OpenReader = Callable[[QueueRange, ReadSettings], Any]  # what has batches() and lost


class UnrepeatedReader:
    """Reads a range, and before it as many offsets as ``settings.duplicate_window_rows`` to know what came there."""

    def __init__(self, part: QueueRange, settings: ReadSettings, open_reader: OpenReader) -> None:
        self._window = settings.duplicate_window_rows
        self._columns = check_columns(settings.columns)
        columns = (*self._columns, *(name for name in _SEEN if name not in self._columns))
        first = max(part.from_offset - self._window, 0)
        self._before = open_reader(
            replace(part, from_offset=first, to_offset=part.from_offset),
            replace(settings, columns=_SEEN, on_data_loss="report", duplicate_window_rows=0),
        )
        self._reader = open_reader(part, replace(settings, columns=columns, duplicate_window_rows=0))
        self._has_before = first < part.from_offset
        self._last: dict[int, int] = {}  # the last offset of each message, by hash

    @property
    def lost(self) -> int:
        """The offsets of the range without a message."""
        lost: int = self._reader.lost
        return lost

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows in order. Raises what the range's reader raises."""
        if self._has_before:
            for batch in self._before.batches():
                self._is_new(batch)
        for batch in self._reader.batches():
            is_new = self._is_new(batch)
            kept = batch.select(self._columns)
            if not all(is_new):
                kept = kept.filter(pa.array(is_new))
            if kept.num_rows:
                yield kept

    def _is_new(self, batch: pa.RecordBatch) -> list[bool]:
        offsets, ids, bodies = (batch.column(name).to_pylist() for name in _SEEN)
        found = []
        last, window = self._last, self._window
        for offset, message_id, body in zip(offsets, ids, bodies, strict=True):
            key = hash((message_id, body))
            found.append(offset - last.get(key, offset - window - 1) > window)
            last[key] = offset
        if len(last) > 2 * window and offsets:
            first = offsets[-1] - window
            self._last = {key: offset for key, offset in last.items() if offset >= first}
        return found
