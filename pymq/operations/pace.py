"""Pace: spaces work to a number of messages per second."""

from __future__ import annotations

import asyncio
import time


class Pace:
    """Spaces messages to at most ``rate_per_s``; None: no limit. Several tasks may wait at once."""

    def __init__(self, rate_per_s: float | None) -> None:
        self._rate_per_s = rate_per_s
        self._next_s = 0.0

    async def wait(self, count: int = 1) -> None:
        """Wait until ``count`` more messages may leave. Time that was not used is not made up for."""
        if self._rate_per_s is None:
            return
        now_s = time.monotonic()
        begin_s = max(self._next_s, now_s)
        self._next_s = begin_s + count / self._rate_per_s
        if begin_s > now_s:
            await asyncio.sleep(begin_s - now_s)
