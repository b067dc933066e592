"""Unreached brokers are asked again after a while."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass

from pymq.clock import Clock

FIRST_RETRY_AFTER_MS = 1000  # a broker that starts again is back soon
RETRY_AFTER_MS = 30_000


@dataclass(slots=True)
class _Pause:
    """How long a broker is not asked. ``is_over``: it was forgotten since, so its next question goes to it."""

    length_ms: int
    until_ms: int
    is_over: bool = False


class Retried:
    """Forgets the unreached brokers of an Admin after a while, so that its next question goes to them again.

    An Admin does not ask an unreached broker a second time. That saves a command a time-out for each question. A
    process that keeps its Admin would never see the broker again. Each try that fails doubles the pause, up to
    ``retry_after_ms``; a broker that was reached for as long begins with the first one again.
    """

    def __init__(self, unreached: MutableMapping[str, str], clock: Clock, retry_after_ms: int = RETRY_AFTER_MS) -> None:
        """``unreached``: :attr:`pymq.client.admin.Admin.unreached`, the names of brokers with the reasons."""
        self._unreached = unreached
        self._clock = clock
        self._retry_after_ms = retry_after_ms
        self._pauses: dict[str, _Pause] = {}

    def forget_old(self) -> None:
        """Forget the brokers whose pause is over. Call it before each round of questions."""
        now_ms = self._clock.monotonic_ms()
        for name in list(self._unreached):
            pause = self._pauses.get(name)
            if pause is None or pause.is_over:
                length_ms = min(2 * pause.length_ms if pause else FIRST_RETRY_AFTER_MS, self._retry_after_ms)
                self._pauses[name] = _Pause(length_ms, now_ms + length_ms)
            elif now_ms >= pause.until_ms:
                del self._unreached[name]
                pause.is_over = True
        for name, pause in list(self._pauses.items()):
            if name not in self._unreached and now_ms >= pause.until_ms + self._retry_after_ms:
                del self._pauses[name]
