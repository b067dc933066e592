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
        self._came: dict[str, tuple[str, int]] = {}  # kind, or text -> text, and when it came (ms)

    def note(self, text: str, kind: str = "") -> None:
        """Note a problem. Of one ``kind`` the newest text counts alone: strangers may make up texts without end."""
        now_ms = self._clock.monotonic_ms()
        _, came_ms = self._came.pop(kind or text, (text, None))
        if came_ms is None or came_ms < now_ms - PROBLEM_SHOWN_MS:
            log.warning("%s", text)
        self._came[kind or text] = text, now_ms
        if len(self._came) > PROBLEMS_MAX:
            del self._came[next(iter(self._came))]

    def over(self, kind: str) -> None:
        """What had this kind is over."""
        if kind in self._came:
            log.warning("this is over: %s", self._came.pop(kind)[0])

    def texts(self) -> list[str]:
        since_ms = self._clock.monotonic_ms() - PROBLEM_SHOWN_MS
        return [text for text, came_ms in self._came.values() if came_ms >= since_ms]
