"""When a worker that ended starts again, and when it is left down. Without I/O and time of its own."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

ENDS_MAX = 5
WINDOW_MS = 60_000
# Before the second, third and fourth start of a minute; the first one comes at once. Ports and locks of the process
# that ended are free by then.
DELAYS_MS = (0, 100, 300, 600)


@dataclass(slots=True)
class Restarts:
    """The ends of one worker, and what follows from them."""

    restart_count: int = 0
    is_left_down: bool = False
    _ends_ms: deque[int] = field(default_factory=deque)

    def ended(self, now_ms: int) -> int | None:
        """Note an end at ``now_ms``. Return after how many ms the worker starts again, None when it is left down."""
        ends = self._ends_ms
        ends.append(now_ms)
        while ends[0] <= now_ms - WINDOW_MS:
            ends.popleft()
        if len(ends) >= ENDS_MAX:
            self.is_left_down = True
            return None
        self.restart_count += 1
        return DELAYS_MS[len(ends) - 1]

    def forgive(self) -> bool:
        """Forget the ends, as an operator asks. Return whether the worker was left down and starts again."""
        was_left_down, self.is_left_down = self.is_left_down, False
        self._ends_ms.clear()
        self.restart_count += was_left_down
        return was_left_down
