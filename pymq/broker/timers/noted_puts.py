"""NotedPuts: messages that were put a moment ago, so that the wheel need not read their records."""

from __future__ import annotations

NOTED_MAX = 16_384  # some ticks' work; more are read from the topic
SOON_MS = 2000  # a message due later than that needs no tick of its own to reach the wheel

# A record's physical offset and size, its message's topic, when that is due, and when it was put (Unix time).
Put = tuple[int, int, str, int, int]


class NotedPuts:
    """A run of puts by consecutive queue offsets. Empty after any commit that failed: its offsets are given again."""

    def __init__(self) -> None:
        self._first_offset = 0
        self._puts: list[Put] = []
        self._failure_count = 0
        self._is_soon = False  # since the last arrival

    def is_urgent(self, max_offset: int) -> bool:
        """Return True when records before ``max_offset``, the queue's end, must not wait for the wheel's next tick.

        One is due soon, was not noted, or many wait.
        """
        is_soon, self._is_soon = self._is_soon, False
        return is_soon or self.end != max_offset or len(self._puts) > NOTED_MAX // 2

    @property
    def end(self) -> int:
        """The queue offset behind the newest put."""
        return self._first_offset + len(self._puts)

    def note(self, queue_offset: int, put: Put, failure_count: int, left_ms: int) -> None:
        """Add a put that is due in ``left_ms``. ``failure_count``: of commits, until now."""
        if left_ms < SOON_MS:
            self._is_soon = True
        puts = self._puts
        if queue_offset != self._first_offset + len(puts) or failure_count != self._failure_count:
            if len(puts) == NOTED_MAX and queue_offset > self.end and failure_count == self._failure_count:
                return  # the run is full: what it holds still spares a read
            puts = self._puts = []
            self._first_offset, self._failure_count = queue_offset, failure_count
        if len(puts) < NOTED_MAX:
            puts.append(put)

    def take(self, queue_offset: int, limit: int, failure_count: int) -> list[Put]:
        """Return the puts from an offset on, of records below ``limit``. They and those before them are forgotten."""
        if failure_count != self._failure_count:
            self._puts = []
        begin = queue_offset - self._first_offset
        if not 0 <= begin < len(self._puts):
            return []
        end = min(limit - self._first_offset, len(self._puts))
        found = self._puts[begin:end]
        if end > begin:
            del self._puts[:end]
            self._first_offset += end
        return found
