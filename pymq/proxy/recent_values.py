"""RecentValues: what was asked of the cluster a short time ago, so that not every call asks again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from pymq.clock import Clock
from pymq.net.futures import mark_seen

T = TypeVar("T")

MAX_AGE_MS = 10_000
COUNT_MAX = 10_000


class RecentValues(Generic[T]):
    """Values by name. ``ask(name)`` gets one; an error of it is raised and not kept.

    Callers that want the same value at the same time share one question: 2,000 receives that begin together would
    otherwise ask 2,000 times, and those whose answers come late would fail.
    """

    def __init__(self, ask: Callable[[str], Awaitable[T]], clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._kept: dict[str, tuple[int, T]] = {}  # with the time at which each was asked for
        self._asking: dict[str, asyncio.Task[T]] = {}

    def is_known(self, name: str) -> bool:
        """Return whether :meth:`get` returns a value at once."""
        kept = self._kept.get(name)
        return kept is not None and self._clock.monotonic_ms() - kept[0] < MAX_AGE_MS

    async def get(self, name: str) -> T:
        """Return a value that is no older than MAX_AGE_MS."""
        if self.is_known(name):
            return self._kept[name][1]
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = asyncio.get_running_loop().create_task(self._renew(name))
            asking.add_done_callback(mark_seen)
        return await asyncio.shield(asking)  # a caller that leaves does not take the answer from the others

    async def _renew(self, name: str) -> T:
        now_ms = self._clock.monotonic_ms()
        try:
            value = await self._ask(name)
        except Exception:
            self._kept.pop(name, None)
            raise
        finally:
            del self._asking[name]
        if len(self._kept) >= COUNT_MAX:
            self._kept.clear()
        self._kept[name] = (now_ms, value)
        return value
