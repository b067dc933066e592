"""Clocks: wall time, local time and monotonic time, from the system or moved by tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Protocol

_DAY_MS = 24 * 3_600_000
# A clock that is further ahead of what it should show is wrong, and so is a store time further ahead of the clock.
CLOCK_JUMP_MAX_MS = _DAY_MS
# A machine without a battery starts with a time before this one (1 January 2020) and sets its clock later.
CLOCK_UNSET_BEFORE_MS = 1_577_836_800_000


class Clock(Protocol):
    """The source of time for core modules, which get it through their constructors."""

    def now_ms(self) -> int:
        """Return Unix time in milliseconds."""
        ...

    def monotonic_ms(self) -> int:
        """Return milliseconds since some fixed point; never decreases."""
        ...

    def local_time(self) -> datetime:
        """Return wall time in the operator's time zone."""
        ...

    @property
    def problem(self) -> str | None:
        """Why :meth:`now_ms` does not follow the machine's clock; None when it does."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()
    problem = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def local_time(self) -> datetime:
        return datetime.fromtimestamp(time.time(), UTC).astimezone()


def _running_ns() -> int:
    """Return nanoseconds that the machine has run. Unlike the monotonic clock, they include a suspended laptop's."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns()


class GuardedClock:
    """The machine's clocks, for a broker. A wall clock that jumps far ahead is not believed.

    The wall clock may run ahead of the machine's running time by :data:`CLOCK_JUMP_MAX_MS`. When it jumps further, time
    goes on by the running time until the wall clock is back, or the broker is restarted. Otherwise one wrong setting
    would make all delayed messages due, and all old segments expired. A wall clock that is set back is believed at
    once, and so is the first setting of one that had no time at the start.
    """

    __slots__ = ("_believed_at_ms", "_believed_ms", "_running_ns", "_trusted_until_ms", "_wall_ns")

    def __init__(self, wall_ns: Callable[[], int] = time.time_ns, running_ns: Callable[[], int] = _running_ns) -> None:
        self._wall_ns = wall_ns
        self._running_ns = running_ns
        self._believe(wall_ns() // 1_000_000)

    def now_ms(self) -> int:
        wall_ms = self._wall_ns() // 1_000_000
        return wall_ms if wall_ms <= self._trusted_until_ms else self._after_jump(wall_ms)

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def local_time(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC).astimezone()

    @property
    def problem(self) -> str | None:
        wall_ms, now_ms = self._wall_ns() // 1_000_000, self.now_ms()
        if wall_ms - now_ms <= CLOCK_JUMP_MAX_MS:
            return None
        return (
            f"the machine's clock jumped {(wall_ms - now_ms) / _DAY_MS:.0f} days ahead (limit "
            f"{CLOCK_JUMP_MAX_MS // _DAY_MS}): messages get the time that the broker counts itself; set the clock "
            f"right, or restart the broker if its new time is right"
        )

    def _after_jump(self, wall_ms: int) -> int:
        counted_ms = self._believed_ms + self._running_ns() // 1_000_000 - self._believed_at_ms
        if wall_ms - counted_ms > CLOCK_JUMP_MAX_MS and self._believed_ms >= CLOCK_UNSET_BEFORE_MS:
            return counted_ms
        self._believe(wall_ms)
        return wall_ms

    def _believe(self, wall_ms: int) -> None:
        self._believed_ms = wall_ms
        self._believed_at_ms = self._running_ns() // 1_000_000
        self._trusted_until_ms = wall_ms + CLOCK_JUMP_MAX_MS


class ManualClock:
    """A clock that moves only when a test or a simulation moves it."""

    problem = None

    def __init__(self, now_ms: int = 1_700_000_000_000, timezone: tzinfo = UTC) -> None:
        self._now_ms = now_ms
        self._timezone = timezone
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def local_time(self) -> datetime:
        return datetime.fromtimestamp(self._now_ms / 1000, self._timezone)

    def advance(self, delta_ms: int) -> None:
        """Move both clocks forward by ``delta_ms`` milliseconds."""
        assert delta_ms >= 0
        self._now_ms += delta_ms
        self._monotonic_ms += delta_ms

    def set_wall(self, now_ms: int) -> None:
        """Set the wall clock, also backwards, without moving the monotonic one."""
        self._now_ms = now_ms
