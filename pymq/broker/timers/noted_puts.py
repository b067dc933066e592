"""NotedPuts: units of messages that were put a moment ago, so that the wheel need not read their records."""

from __future__ import annotations

from pymq.store.timer.timer_store import PackedUnit

NOTED_MAX = 16_384  # some ticks' work; more are read from the topic
SOON_MS = 2000  # a message due later than that needs no tick of its own to reach the wheel


class NotedPuts:
    """A run of units by consecutive queue offsets. Empty after any commit that failed: its offsets are given again."""

    def __init__(self) -> None:
        self._first_offset = 0
        self._units: list[PackedUnit] = []
        self._topics: list[str] = []  # the real topic of each
        self._failure_count = 0
        self._is_soon = False  # since the last arrival

    def is_urgent(self, max_offset: int) -> bool:
        """Return True when records before ``max_offset``, the queue's end, must not wait for the wheel's next tick.

        One is due soon, was not noted, or many wait.
        """
        is_soon, self._is_soon = self._is_soon, False
        return is_soon or self.end != max_offset or len(self._units) > NOTED_MAX // 2

    @property
    def end(self) -> int:
        """The queue offset behind the newest unit."""
        return self._first_offset + len(self._units)

    def note(self, queue_offset: int, unit: PackedUnit, topic: str, failure_count: int, left_ms: int) -> None:
        """Add a unit that is due in ``left_ms``, and the topic that counts it.

        ``failure_count``: of commits, until now.
        """
        if left_ms < SOON_MS:
            self._is_soon = True
        units = self._units
        if queue_offset != self._first_offset + len(units) or failure_count != self._failure_count:
            if len(units) == NOTED_MAX and queue_offset > self.end and failure_count == self._failure_count:
                return  # the run is full: what it holds still spares a read
            self._units, self._topics = [], []
            units = self._units
            self._first_offset, self._failure_count = queue_offset, failure_count
        if len(units) < NOTED_MAX:
            units.append(unit)
            self._topics.append(topic)

    def take(self, queue_offset: int, limit: int, failure_count: int) -> tuple[list[PackedUnit], list[str]]:
        """Return the units from an offset on, of records below ``limit``, and the topic of each.

        They and those before them are forgotten.
        """
        if failure_count != self._failure_count:
            self._units, self._topics = [], []
        begin = queue_offset - self._first_offset
        if not 0 <= begin < len(self._units):
            return [], []
        end = min(limit - self._first_offset, len(self._units))
        found = self._units[begin:end], self._topics[begin:end]
        if end > begin:
            del self._units[:end]
            del self._topics[:end]
            self._first_offset += end
        return found
