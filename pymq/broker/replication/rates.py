"""Rate: how fast an offset moves. LogTimes: how long a byte has been in the log."""

from __future__ import annotations

from collections import deque

PERIOD_MS = 1000  # over which a rate is measured
MARK_INTERVAL_MS = 5  # between two marks, at least
MARKS_MAX = 4096


class Rate:
    """Bytes per second of an offset that is observed from time to time."""

    __slots__ = ("_period_ms", "_since_ms", "_value", "per_second")

    def __init__(self, now_ms: int, value: int, period_ms: int = PERIOD_MS) -> None:
        self._period_ms = period_ms
        self._since_ms = now_ms
        self._value = value
        self.per_second = 0

    def look(self, now_ms: int, value: int) -> None:
        """Note the offset. Each period ends with a new rate, the average over that period."""
        elapsed_ms = now_ms - self._since_ms
        if elapsed_ms >= self._period_ms:
            self.per_second = max(value - self._value, 0) * 1000 // elapsed_ms
            self._since_ms, self._value = now_ms, value


class LogTimes:
    """Marks of (monotonic ms, end of the log). With too many of them, every second one of the older half goes."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: deque[tuple[int, int]] = deque()

    def note(self, now_ms: int, end: int) -> None:
        """Mark that the log ends at ``end`` now, unless the last mark is younger than ``MARK_INTERVAL_MS``."""
        marks = self._marks
        if marks and now_ms - marks[-1][0] < MARK_INTERVAL_MS:
            return
        marks.append((now_ms, end))
        if len(marks) > MARKS_MAX:
            older = [marks.popleft() for _ in range(MARKS_MAX // 2)]
            marks.extendleft(reversed(older[::2]))

    def forget_below(self, offset: int) -> None:
        """Drop the marks that only offsets below ``offset`` need."""
        marks = self._marks
        while len(marks) > 1 and marks[1][1] <= offset:
            marks.popleft()

    def age_ms(self, offset: int, now_ms: int) -> int:
        """Return how long the byte at ``offset`` has been in the log; 0 without a mark for it."""
        for marked_ms, end in self._marks:
            if end > offset:
                return now_ms - marked_ms
        return 0
