"""TimerCounts: how many timer messages wait for each topic. Kept in ``config/timermetrics`` as RocketMQ's TimerMetrics.

A crash loses what changed since the last save, and a slave has its master's counts. So a master counts again what is in
the wheel when it starts, some units at a time; until that is done, the saved counts are shown.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from pymq.broker.metadata.table_reading import read_version
from pymq.broker.metadata.table_saver import TableSaver
from pymq.clock import Clock
from pymq.errors import StoreError
from pymq.model.tables import DataVersion

log = logging.getLogger(__name__)

COUNTED_A_STEP = 4096  # messages that are counted in one go: some 10 ms


class TimerCounts:
    """Waiting messages by their real topic."""

    def __init__(self, table: TableSaver, clock: Clock) -> None:
        self._table = table
        self._uncounted: Iterator[str] | None = None  # while what waits is counted again
        self._found: Counter[str] = Counter()  # by then, and what changed since it began
        self._clock = clock
        self._version = DataVersion()
        self._counts: dict[str, tuple[int, int]] = {}  # (count, when it changed last)
        self._is_changed = False

    def load(self) -> None:
        """Read the file."""
        loaded = self._table.load()
        self._version = read_version(loaded)
        self.take_over(loaded)
        self._is_changed = False

    def count_again(self, topics: Iterator[str]) -> None:
        """Count messages by their topics, and what changes from now on, in place of what was saved."""
        self._uncounted, self._found = topics, Counter()

    def step(self) -> bool:
        """Count some of the messages; True while more are left. Raises what their iterator raises."""
        if self._uncounted is None:
            return False
        topics = list(islice(self._uncounted, COUNTED_A_STEP))
        self._found.update(topics)
        if len(topics) < COUNTED_A_STEP:
            self._uncounted = None
            self._take_found()
        return self._uncounted is not None

    def _take_found(self) -> None:
        before, now_ms = self._counts, self._clock.now_ms()
        found = {topic: count for topic, count in self._found.items() if topic and count > 0}
        self._found = Counter()
        self._is_changed = self._is_changed or found != self.waiting
        self._counts = {
            topic: before[topic] if before.get(topic, (0, 0))[0] == count else (count, now_ms)
            for topic, count in found.items()
        }

    def take_over(self, table: dict[str, Any]) -> None:
        """Take the counts of a table, for example a master's."""
        self._counts, self._uncounted = {}, None
        for topic, value in (table.get("timingCount") or {}).items():
            if isinstance(value, dict) and isinstance(value.get("count"), int):
                self._counts[str(topic)] = (value["count"], int(value.get("timeStamp") or 0))
        self._is_changed = True

    def add(self, topic: str, number: int) -> None:
        """Count messages of a topic that begin (1) or cease (-1) to wait."""
        if topic:
            if self._uncounted is not None:
                self._found[topic] += number
            count = self._counts.pop(topic, (0, 0))[0] + number
            if count > 0:
                self._counts[topic] = (count, self._clock.now_ms())
            self._is_changed = True

    @property
    def waiting(self) -> dict[str, int]:
        """Topic -> waiting messages."""
        return {topic: count for topic, (count, _) in self._counts.items()}

    def as_table(self) -> dict[str, Any]:
        """Return the saved object."""
        return {
            "dataVersion": msgspec.to_builtins(self._version),
            "timingCount": {
                topic: {"count": count, "timeStamp": changed_ms} for topic, (count, changed_ms) in self._counts.items()
            },
        }

    def save(self) -> None:
        """Save now if anything changed. Raises StoreError."""
        if self._is_changed or self._table.is_busy:
            self._prepare()
            self._table.save(self.as_table())

    def save_soon(self) -> None:
        """Save in a worker thread if anything changed."""
        if not self._is_changed or self._table.is_busy:
            return
        self._prepare()
        table = self.as_table()
        self._table.save_soon(lambda: table, self._saved)

    def _prepare(self) -> None:
        self._is_changed = False
        self._version = self._version.next(self._clock.now_ms())

    def _saved(self, error: StoreError | OSError | None) -> None:
        if error is not None:
            self._is_changed = True
            log.warning("the counts of timer messages could not be saved, trying again: %s", error)
