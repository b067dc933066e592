"""StoreTimes: finds the store time below which no later message may be stamped. No checksum covers these times."""

from __future__ import annotations

from pymq.store.write.store_time import STORE_TIME_AHEAD_MAX_MS


class StoreTimes:
    """Takes the store times of good records in the order of the log.

    Store times never go back in a sound log. If one does, the earlier record was damaged or stamped by another clock,
    so the newest record's time counts. A single newest record far ahead of the clock counts as damaged, and the time of
    the record before it counts. Several such records come from another clock, and their time counts until the next
    message is stored (:mod:`pymq.store.write.store_time`).
    """

    def __init__(self, checkpoint_ms: int, now_ms: int) -> None:
        """``checkpoint_ms`` counts until the first record. ``now_ms`` is the wall clock's time."""
        self._checkpoint_ms = checkpoint_ms
        self.now(now_ms)
        self.restart()

    def now(self, now_ms: int) -> None:
        """Set the wall clock's time."""
        self._limit_ms = now_ms + STORE_TIME_AHEAD_MAX_MS

    def restart(self) -> None:
        """Start over: the log is read again from an earlier place."""
        self.has_record = False
        self._newest_ms = self._before_ms = self._checkpoint_ms

    def add(self, *store_ms: int) -> None:
        """Add the times of the next records, at least of the last two of them."""
        self.has_record = True
        for one_ms in store_ms:
            self._before_ms, self._newest_ms = self._newest_ms, one_ms

    @property
    def newest_ms(self) -> int:
        """The newest record's time, whatever it is."""
        return self._newest_ms

    @property
    def last_ms(self) -> int:
        """The time that counts."""
        return self._before_ms if self._newest_ms > self._limit_ms >= self._before_ms else self._newest_ms
