"""TimerCounts: how many timer messages wait for each topic. Kept in ``config/timermetrics`` as RocketMQ's TimerMetrics.

A crash loses what changed since the last save, so the counts are what an operator looks at, no more.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from pymq.broker.metadata.table_reading import read_version
from pymq.broker.metadata.table_saver import TableSaver
from pymq.clock import Clock
from pymq.errors import StoreError
from pymq.model.tables import DataVersion

log = logging.getLogger(__name__)


class TimerCounts:
    """Waiting messages by their real topic."""

    def __init__(self, table: TableSaver, clock: Clock) -> None:
        self._table = table
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

    def take_over(self, table: dict[str, Any]) -> None:
        """Take the counts of a table, for example a master's."""
        self._counts = {}
        for topic, value in (table.get("timingCount") or {}).items():
            if isinstance(value, dict) and isinstance(value.get("count"), int):
                self._counts[str(topic)] = (value["count"], int(value.get("timeStamp") or 0))
        self._is_changed = True

    def add(self, topic: str, number: int) -> None:
        """Count messages of a topic that begin (1) or cease (-1) to wait."""
        if topic:
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
