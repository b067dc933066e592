"""Runs a plugin's filter in a reader: selects the records of a chunk before they are decoded."""

from __future__ import annotations

from functools import partial

import numpy as np

from pymq.clock import Clock, SystemClock
from pymq.filter.messages import FilterMessage
from pymq.filter.registry import installed_filters
from pymq.filter.running import RunningFilter, parse_on_error
from pymq.model.compression import decompress_body
from pymq.model.layout import QUEUE_ID_AT, QUEUE_OFFSET_AT
from pymq.spark.planning.selection import Selection
from pymq.spark.records.layout import Chunk, Positions, find_fields, integers

BATCH_COUNT = 256  # messages that share the limits of time and memory


class PluginFilter:
    """One filter for one range."""

    def __init__(self, selection: Selection, broker_name: str, clock: Clock | None = None) -> None:
        assert selection.filter is not None and selection.expression is not None
        self._broker_name = broker_name
        self._running = RunningFilter(
            installed_filters().find(selection.filter),
            selection.expression,
            clock=clock or SystemClock(),
            on_error=parse_on_error(selection.on_error),
        )

    @property
    def error_count(self) -> int:
        """The number of messages on which the filter failed."""
        return self._running.stats.errors

    def keep(self, chunk: Chunk, starts: Positions) -> Positions:
        """Return the starts of the records that match. Raises FilterStopError, MalformedRecordError."""
        kept: list[int] = []
        for first in range(0, len(starts), BATCH_COUNT):
            kept += self._keep(chunk, starts[first : first + BATCH_COUNT])
        return np.array(kept, np.int64)

    def _keep(self, chunk: Chunk, starts: Positions) -> list[int]:
        places, messages = starts.tolist(), filter_messages(chunk, starts, self._broker_name)
        kept: list[int] = []
        while places:
            found, filtered_count = self._running.keep(places, messages)
            kept += found
            places, messages = places[filtered_count:], messages[filtered_count:]
        return kept


def filter_messages(chunk: Chunk, starts: Positions, broker_name: str) -> list[FilterMessage]:
    """Return the records at ``starts`` for filters; bodies are copied on first use. Raises MalformedRecordError."""
    layout = find_fields(chunk, starts)
    fields = zip(
        integers(layout.octets, starts + QUEUE_ID_AT, 4).tolist(),
        layout.int64(starts + QUEUE_OFFSET_AT).tolist(),
        layout.int64(layout.store_timestamp).tolist(),
        layout.slices(layout.topic, layout.topic_end).to_pylist(),
        layout.slices(layout.properties, layout.end).to_pylist(),
        layout.body.tolist(),
        layout.body_end.tolist(),
        layout.sys_flag.tolist(),
        strict=True,
    )
    return [
        FilterMessage(
            topic=topic.decode("utf-8", "replace"),
            broker_name=broker_name,
            queue_id=queue_id,
            queue_offset=queue_offset,
            store_timestamp_ms=store_timestamp_ms,
            properties=properties,
            body=partial(_body, chunk, begin, end, flags),
        )
        for queue_id, queue_offset, store_timestamp_ms, topic, properties, begin, end, flags in fields
    ]


def _body(chunk: Chunk, begin: int, end: int, flags: int) -> bytes:
    return decompress_body(bytes(chunk[begin:end]), flags)
