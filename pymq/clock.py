"""Clocks: wall time, local time and monotonic time, from the system or moved by tests."""

from __future__ import annotations

import time
from datetime import UTC, datetime, tzinfo
from typing import Protocol


class Clock(Protocol):
    """The source of time for core modules, which get it through their constructors."""

    def now_ms(self) -> int:
        """Returns Unix time in milliseconds."""
        ...

    def monotonic_ms(self) -> int:
        """Returns milliseconds since some fixed point; never decreases."""
        ...

    def local_time(self) -> datetime:
        """Returns wall time in the operator's time zone."""
        ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def local_time(self) -> datetime:
        return datetime.fromtimestamp(time.time(), UTC).astimezone()


class ManualClock:
    """A clock that moves only when a test or a simulation moves it."""

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
        """Moves both clocks forward by ``delta_ms`` milliseconds."""
        assert delta_ms >= 0
        self._now_ms += delta_ms
        self._monotonic_ms += delta_ms

    def set_wall(self, now_ms: int) -> None:
        """Sets the wall clock, also backwards, without moving the monotonic one."""
        self._now_ms = now_ms
