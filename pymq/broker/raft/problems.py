"""RecentProblems: what an operator should know of a node now. A text is logged when it comes, once a minute."""

from __future__ import annotations

import logging

from pymq.clock import Clock

log = logging.getLogger(__name__)

PROBLEMS_MAX = 16
PROBLEM_SHOWN_MS = 60_000  # one that did not come again for so long is over


class RecentProblems:
    """The texts of the last minute, the one that came last at the end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._came_ms: dict[str, int] = {}

    def note(self, text: str) -> None:
        now_ms = self._clock.monotonic_ms()
        came_ms = self._came_ms.pop(text, None)
        if came_ms is None or came_ms < now_ms - PROBLEM_SHOWN_MS:
            log.warning("%s", text)
        self._came_ms[text] = now_ms
        if len(self._came_ms) > PROBLEMS_MAX:
            del self._came_ms[next(iter(self._came_ms))]

    def texts(self) -> list[str]:
        since_ms = self._clock.monotonic_ms() - PROBLEM_SHOWN_MS
        return [text for text, came_ms in self._came_ms.items() if came_ms >= since_ms]
