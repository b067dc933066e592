"""Which store time later messages must not be older than, told from records whose times no checksum covers."""

from __future__ import annotations

# A single newest record that is further ahead of the clock is taken for damaged; a clock set back by less is not.
STORE_TIME_AHEAD_MAX_MS = 24 * 3_600_000


class StoreTimes:
    """Looks at good records in the log's order.

    In a sound log store times never go back, so a later record that is older than another shows that one's time to be
    damage, or of another clock: the newest record's time counts. A newest record that is alone far ahead of the clock
    is taken for damaged itself, and the one before it counts: else every later message would carry its time, and
    delayed ones never come due. Many such records are another clock's work, and times go on from there.
    """

    def __init__(self, checkpoint_ms: int, now_ms: int) -> None:
        """``checkpoint_ms`` counts until a record was seen; ``now_ms`` is the wall clock's time."""
        self._checkpoint_ms = checkpoint_ms
        self.now(now_ms)
        self.restart()

    def now(self, now_ms: int) -> None:
        """The wall clock's time has changed."""
        self._limit_ms = now_ms + STORE_TIME_AHEAD_MAX_MS

    def restart(self) -> None:
        """The log is read again from an earlier place."""
        self.has_record = False
        self._newest_ms = self._before_ms = self._checkpoint_ms

    def add(self, *store_ms: int) -> None:
        """The times of the next records, at least of the last two of them."""
        self.has_record = True
        for one_ms in store_ms:
            self._before_ms, self._newest_ms = self._newest_ms, one_ms

    @property
    def last_ms(self) -> int:
        """The time that counts."""
        return self._before_ms if self._newest_ms > self._limit_ms >= self._before_ms else self._newest_ms
