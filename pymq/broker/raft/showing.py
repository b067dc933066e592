"""Showing: a follower shows confirmed records, which go to its queues and index in groups."""

from __future__ import annotations

from collections.abc import Callable

from pymq.broker.replication.dispatch_pace import DispatchPace
from pymq.clock import Clock
from pymq.store.store import Follower

DISPATCH_BYTES_MAX = 4 << 20  # of the log in one turn


class Showing:
    """What a follower whose store is open shows. ``on_shown(confirm_offset)`` is called behind each group."""

    def __init__(self, follower: Follower, clock: Clock, on_shown: Callable[[int], None]) -> None:
        self._follower = follower
        self._clock = clock
        self._on_shown = on_shown
        self._pace = DispatchPace(clock.monotonic_ms(), follower.end)

    def show(self, confirm_offset: int) -> None:
        """Show what is below ``confirm_offset`` if it is time, else at the latest with the next tick."""
        now_ms, waiting_bytes = self._clock.monotonic_ms(), confirm_offset - self._follower.dispatched_end
        if waiting_bytes <= 0 or self._pace.left_ms(now_ms, confirm_offset, waiting_bytes):
            return
        if self._follower.dispatch_to(confirm_offset, DISPATCH_BYTES_MAX):
            self._pace.dispatched(now_ms)
            self._on_shown(confirm_offset)
