"""The clock of a test's broker: the machine's time, which a test moves ahead or holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from pymq.errors import UsageError


class MovableClock:
    """A :class:`~pymq.clock.Clock` whose wall time a test moves. Give it to the clients too (``clock=``).

    Wall time decides when messages are due, visible again, or old. Monotonic time stays the machine's, so that no
    connection and no consumer of a group counts as silent after a move.
    """

    problem = None

    def __init__(self, on_advance: Callable[[], None] = lambda: None) -> None:
        """``on_advance`` is called after each move."""
        self._ahead_ms = 0
        self._held_ms: int | None = None
        self._on_advance = on_advance

    @property
    def is_moved(self) -> bool:
        """True once this clock shows another time than the machine's."""
        return self._held_ms is not None or self._ahead_ms != 0

    def now_ms(self) -> int:
        return self._held_ms if self._held_ms is not None else _machine_ms() + self._ahead_ms

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def local_time(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC).astimezone()

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Move the time ahead. What became due is delivered when this returns.

        Raises UsageError for a move back: a broker must never see its own messages come from the future.
        """
        delta_ms = round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
        if delta_ms < 0:
            raise UsageError(f"the clock can't go back by {-delta_ms} ms: move it by 0 or more")
        if self._held_ms is None:
            self._ahead_ms += delta_ms
        else:
            self._held_ms += delta_ms
        self._on_advance()

    def hold(self) -> None:
        """Stop wall time until :meth:`release`: now only :meth:`advance` moves it."""
        if self._held_ms is None:
            self._held_ms = self.now_ms()

    def release(self) -> None:
        """Let the time go on from where it was held."""
        if self._held_ms is not None:
            self._ahead_ms, self._held_ms = self._held_ms - _machine_ms(), None


def _machine_ms() -> int:
    return time.time_ns() // 1_000_000
