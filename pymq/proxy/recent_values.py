"""RecentValues: what was asked of the cluster a short time ago, so that not every call asks again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from pymq.clock import Clock

T = TypeVar("T")

MAX_AGE_MS = 10_000
COUNT_MAX = 10_000


class RecentValues(Generic[T]):
    """Values by name. ``ask(name)`` gets one; an error of it is raised and not kept."""

    def __init__(self, ask: Callable[[str], Awaitable[T]], clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._kept: dict[str, tuple[int, T]] = {}  # with the time at which each was asked for

    async def get(self, name: str) -> T:
        """Return a value that is no older than MAX_AGE_MS."""
        now_ms = self._clock.monotonic_ms()
        kept = self._kept.get(name)
        if kept is not None and now_ms - kept[0] < MAX_AGE_MS:
            return kept[1]
        try:
            value = await self._ask(name)
        except Exception:
            self._kept.pop(name, None)
            raise
        if len(self._kept) >= COUNT_MAX:
            self._kept.clear()
        self._kept[name] = (now_ms, value)
        return value
