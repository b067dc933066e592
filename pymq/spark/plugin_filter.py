"""A plugin's filter inside a reader: which records of a chunk are to be decoded at all."""

from __future__ import annotations

import numpy as np

from pymq.clock import Clock, SystemClock
from pymq.filter.messages import of_stored
from pymq.filter.registry import installed_filters
from pymq.filter.running import RunningFilter, parse_on_error
from pymq.model.record import decode_record
from pymq.spark.layout import Chunk, Positions
from pymq.spark.selection import Selection

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
        """Messages that it could not judge."""
        return self._running.stats.errors

    def keep(self, chunk: Chunk, starts: Positions) -> Positions:
        """The starts of the wanted records. Raises FilterStopError, MalformedRecordError."""
        kept: list[int] = []
        places = starts.tolist()
        for first in range(0, len(places), BATCH_COUNT):
            kept += self._keep(chunk, places[first : first + BATCH_COUNT])
        return np.array(kept, np.int64)

    def _keep(self, chunk: Chunk, places: list[int]) -> list[int]:
        octets = memoryview(chunk)
        messages = [decode_record(octets, at) for at in places]
        for message in messages:
            message.broker_name = self._broker_name
        kept: list[int] = []
        while places:
            found, judged_count = self._running.keep(places, [of_stored(message) for message in messages])
            kept += found
            places, messages = places[judged_count:], messages[judged_count:]
        return kept
