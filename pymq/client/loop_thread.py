"""An event loop in a background thread, which runs the asynchronous clients under the blocking ones."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from pymq.net.forks import notify_of_forks

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread, which starts on first use, in a forked child again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._inherited: list[object] = []
        notify_of_forks(self)

    def after_fork(self) -> None:
        """In a forked child: forgets the parent's loop, whose thread does not run here."""
        # Kept, because a loop that is collected would take its sockets out of the selector that it shares with the
        # parent's, and every pending task would write a line to the log.
        self._inherited.append((self._loop, self._thread))
        self._lock = threading.Lock()
        self._loop = self._thread = None

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` on the loop and wait for its result; cancel it when the wait is interrupted."""
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``coroutine`` on the loop. Any thread except the loop's may wait for the future."""
        loop = self._running_loop()
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("a blocking client was called on its own event loop: use pymq.client's classes there")
        return asyncio.run_coroutine_threadsafe(coroutine, loop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(loop,), name="pymq-client", daemon=True)
                self._thread.start()
                self._loop = loop
            return self._loop

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()


shared = LoopThread()  # of all blocking clients


async def on_loop(function: Callable[[], T]) -> T:
    """Return the result of ``function``, called on the loop."""
    return function()


def blocking_loop(items: AsyncGenerator[T, None]) -> Iterator[T]:
    """Yield what ``items`` yields on the loop; a loop over it that is left early closes ``items``."""
    try:
        while True:
            try:
                item = shared.call(_next(items))
            except StopAsyncIteration:
                return
            yield item
    finally:
        shared.call(items.aclose())


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)
