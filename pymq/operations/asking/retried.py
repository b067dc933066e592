"""Unreached brokers are asked again after a while."""

from __future__ import annotations

from collections.abc import MutableMapping

from pymq.clock import Clock

RETRY_AFTER_MS = 30_000


class Retried:
    """Forgets the unreached brokers of an Admin after a while, so that its next question goes to them again.

    An Admin does not ask an unreached broker a second time. That saves a command a time-out for each question. A
    process that keeps its Admin would never see the broker again.
    """

    def __init__(self, unreached: MutableMapping[str, str], clock: Clock, retry_after_ms: int = RETRY_AFTER_MS) -> None:
        """``unreached``: :attr:`pymq.client.admin.Admin.unreached`, the names of brokers with the reasons."""
        self._unreached = unreached
        self._clock = clock
        self._retry_after_ms = retry_after_ms
        self._seen_at_ms: dict[str, int] = {}

    def forget_old(self) -> None:
        """Forget the brokers that were unreached a retry period ago. Call it before each round of questions."""
        now_ms = self._clock.monotonic_ms()
        seen = {name: self._seen_at_ms.get(name, now_ms) for name in self._unreached}
        for name, at_ms in list(seen.items()):
            if now_ms - at_ms >= self._retry_after_ms:
                del self._unreached[name], seen[name]
        self._seen_at_ms = seen
