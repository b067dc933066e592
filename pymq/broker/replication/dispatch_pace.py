"""DispatchPace: when a follower's new records go to queues and index: in groups, larger ones while the log is fast.

In a large group a record costs a fifth of what it costs in a small one. So a group waits for a moment, or until it is
large.
"""

from __future__ import annotations

from pymq.broker.replication.rates import Rate

DISPATCH_BYTES = 1024 * 1024  # a group that waits no longer
DISPATCH_INTERVAL_MS = 2
FAST_BYTES_PER_SECOND = 9_000_000
FAST_DISPATCH_INTERVAL_MS = 20
RATE_PERIOD_MS = 100


class DispatchPace:
    """The pace of one follower, whose log ends at ``end`` (a physical offset) at first. Times are in monotonic ms."""

    __slots__ = ("_dispatched_ms", "_rate")

    def __init__(self, now_ms: int, end: int) -> None:
        self._dispatched_ms = now_ms
        self._rate = Rate(now_ms, end, RATE_PERIOD_MS)

    def begin(self, now_ms: int, end: int) -> None:
        """Forget how fast the log came: from ``end`` on another leader sends it."""
        self._rate = Rate(now_ms, end, RATE_PERIOD_MS)

    def left_ms(self, now_ms: int, end: int, waiting_bytes: int) -> int:
        """Return for how long the ``waiting_bytes`` below ``end`` still wait; 0 when it is time to dispatch them."""
        self._rate.look(now_ms, end)
        if waiting_bytes >= DISPATCH_BYTES:
            return 0
        is_fast = self._rate.per_second >= FAST_BYTES_PER_SECOND
        interval_ms = FAST_DISPATCH_INTERVAL_MS if is_fast else DISPATCH_INTERVAL_MS
        return max(interval_ms - (now_ms - self._dispatched_ms), 0)

    def dispatched(self, now_ms: int) -> None:
        self._dispatched_ms = now_ms
