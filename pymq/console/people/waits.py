"""Waits: who fails to log in too often must wait, each time longer."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from pymq.clock import Clock

WINDOW_MS: Final = 60_000
FIRST_WAIT_MS: Final = 60_000
LONGEST_WAIT_MS: Final = 3_600_000
KEY_COUNT_MAX: Final = 10_000


@dataclass(slots=True)
class _Failures:
    """What is known of one key: failures in the window that began then, and waits so far."""

    begun_ms: int
    count: int = 0
    waits: int = 0
    until_ms: int = 0


class Waits:
    """Failures by key: after ``free_count`` within a window, the key waits a minute, then two, four, up to an hour.

    A success ends that. The keys that failed longest ago are forgotten when there are too many.
    """

    def __init__(self, clock: Clock, free_count: int) -> None:
        self._clock = clock
        self._free_count = free_count
        self._failures: dict[Hashable, _Failures] = {}

    def must_wait(self, key: Hashable) -> bool:
        """Return whether the key is to wait now."""
        found = self._failures.get(key)
        return found is not None and self._clock.monotonic_ms() < found.until_ms

    def fail(self, key: Hashable) -> None:
        """Note a failure. One while the key waits doesn't make the wait longer."""
        if self.must_wait(key):
            return
        now_ms = self._clock.monotonic_ms()
        found = self._failures.pop(key, None) or _Failures(now_ms)
        self._failures[key] = found
        if now_ms - found.begun_ms >= WINDOW_MS:
            found.begun_ms, found.count = now_ms, 0
        found.count += 1
        if found.count >= self._free_count:
            found.until_ms = now_ms + min(LONGEST_WAIT_MS, FIRST_WAIT_MS << min(found.waits, 16))
            found.waits += 1
            found.count = 0
        while len(self._failures) > KEY_COUNT_MAX:
            del self._failures[next(iter(self._failures))]

    def succeed(self, key: Hashable) -> None:
        """Forget the failures of a key."""
        self._failures.pop(key, None)
