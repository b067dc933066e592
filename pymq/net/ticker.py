"""Ticker: runs a piece of work again and again in turns of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Ticker:
    """Runs ``work``, which must not raise, from :meth:`start` to :meth:`stop`.

    ``period_ms`` is asked before each wait, so a setting may change it meanwhile.
    """

    def __init__(self, period_ms: Callable[[], int], work: Callable[[], None]) -> None:
        self._period_ms = period_ms
        self._work = work
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin; the first run is one period from now. Needs a running loop."""
        self._timer = asyncio.get_running_loop().call_later(self._period_ms() / 1000, self._run)

    def stop(self) -> None:
        """End: the work isn't run again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self.start()
        self._work()
