"""Runs a role's coroutine on the fastest available loop, until it ends or a signal stops it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

from pymq.errors import StoppedError
from pymq.net.descriptors import raise_descriptor_limit
from pymq.net.freed_memory import keep_for_reuse
from pymq.net.turn_watch import TurnWatch

T = TypeVar("T")

# Requests leave few reference cycles behind. Searching for them after every 700 new objects, Python's default, costs a
# tenth of a broker's time. A search of the second kind sees 40,000 new objects at most: 400,000 took 0.25 s.
GC_THRESHOLDS = (20_000, 2, 500)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end, on uvloop where it is installed."""
    gc.set_threshold(*GC_THRESHOLDS)
    raise_descriptor_limit()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop where it is installed, else asyncio's."""
    try:
        import uvloop  # noqa: PLC0415 - not every system has it
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def load(*modules: str) -> None:
    """Import a server's modules. No search for reference cycles looks at them, now or later: they stay.

    The searches took a sixth of a broker's start, while its 700 modules came and in :func:`begin_serving`.
    """
    gc.disable()
    try:
        for module in modules:
            import_module(module)
    finally:
        gc.freeze()
        gc.enable()


def begin_serving(turns: TurnWatch) -> None:
    """Call this when a start is over and all is loaded: what comes now must not hold the event loop for long.

    Searching for reference cycles leaves out what is there now; it would take 50 ms or more each time.
    """
    gc.collect()
    gc.freeze()
    keep_for_reuse()
    turns.start()


# In the environment of a child whose standard input is a pipe of its parent: it ends with it, however that ends.
ENDS_WITH_INPUT = "PYMQ_ENDS_WITH_INPUT"
_STDIN = 0


class StopSignals:
    """Catches SIGINT and SIGTERM inside the ``with``: records the first; a second one has its usual effect.

    :attr:`came` is true at once, even while the event loop is blocked, for instance by a recovery. Use it in the main
    thread, with a running loop.
    """

    def __enter__(self) -> StopSignals:
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[int] = self._loop.create_future()
        self._came = False
        # Not the loop's own handlers: they run only when the loop does.
        self._before: dict[signal.Signals, Any] = {}
        for each in (signal.SIGINT, signal.SIGTERM):
            self._before[each] = signal.signal(each, self._take)
        # Gets what comes on the standard input of a child of :data:`ENDS_WITH_INPUT`.
        self.on_input: Callable[[bytes], None] | None = None
        self._watches_input = ENDS_WITH_INPUT in os.environ
        if self._watches_input:
            self._loop.add_reader(_STDIN, self._look_at_input)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_watching()
        self._give_back()

    @property
    def came(self) -> bool:
        """True once a signal has come."""
        return self._came

    async def wait(self) -> int:
        """Wait for the first signal and return its number."""
        return await self._first

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` and return its result.

        A signal cancels it: raises StoppedError unless it was done by then.
        """
        working = asyncio.ensure_future(work)
        try:
            await asyncio.wait((working, self._first), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait((working,))
        if working.cancelled():
            raise StoppedError("a signal stopped it before the start was over")
        return working.result()

    def _look_at_input(self) -> None:
        """Take the end of the standard input, which the parent holds open, for a SIGTERM."""
        data = os.read(_STDIN, 4096)
        if data and self.on_input is not None:
            self.on_input(data)
        if not data:
            self._stop_watching()
            if not self._came:
                self._take(signal.SIGTERM, None)

    def _stop_watching(self) -> None:
        if self._watches_input:
            self._watches_input = False
            self._loop.remove_reader(_STDIN)

    def _take(self, number: int, _: object) -> None:
        self._came = True
        self._give_back()
        self._loop.call_soon_threadsafe(self._first.set_result, number)

    def _give_back(self) -> None:
        before, self._before = self._before, {}
        for each, handler in before.items():
            signal.signal(each, handler)
