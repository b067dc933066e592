"""Threads that run an application's plain functions: few switches while calls are short, all threads when they block.

A call costs a switch of threads in each direction where every call wakes a thread of its own (45 µs a message, measured
with ``concurrent.futures``). Here one thread takes call after call. The others wake a millisecond later if calls still
wait, because then one of them blocks. Results go back to the loop many at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

ArgumentT = TypeVar("ArgumentT")

Outcome = tuple[Any, BaseException | None]

HELP_AFTER_S = 0.001


class _Call(Generic[ArgumentT]):
    """One call and its outcome."""

    __slots__ = ("argument", "error", "future", "result")

    def __init__(self, argument: ArgumentT, future: asyncio.Future[Outcome]) -> None:
        self.argument = argument
        self.future = future
        self.result: Any = None
        self.error: BaseException | None = None


class HandlerThreads(Generic[ArgumentT]):
    """At most ``count_max`` daemon threads that call ``function``: one that hangs never keeps the process alive.

    Call its methods on the event loop that it was first used on.
    """

    def __init__(self, function: Callable[[ArgumentT], Any], count_max: int, name: str) -> None:
        self._function = function
        self._count_max = count_max
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: deque[_Call[ArgumentT]] = deque()
        self._done: deque[_Call[ArgumentT]] = deque()
        self._settling = False
        self._helping = False
        self._lock = threading.Lock()  # of what follows
        self._wake = threading.Semaphore(0)
        self._count = self._idle_count = 0
        self._closed = False

    def call(self, argument: ArgumentT) -> asyncio.Future[Outcome]:
        """Return a future of (what ``function(argument)`` returned, None), or of (None, what it raised).

        A future can't carry what it raised as its own exception: asyncio refuses StopIteration, and ends its loop for
        SystemExit.
        """
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        self._calls.append(_Call(argument, future))
        with self._lock:
            is_resting = self._idle_count == self._count
        if is_resting:
            self._wake_threads(1)
        elif not self._helping:
            self._helping = True
            loop.call_later(HELP_AFTER_S, self._help)
        return future

    def close(self) -> None:
        """End the threads once their running calls are done; calls that wait are never made."""
        self._calls.clear()
        with self._lock:
            self._closed = True
            if self._count:
                self._wake.release(self._count)

    def _help(self) -> None:
        """Wake as many threads as calls wait."""
        self._helping = False
        if self._calls and self._loop is not None:
            self._wake_threads(len(self._calls))
            self._helping = True
            self._loop.call_later(HELP_AFTER_S, self._help)

    def _wake_threads(self, wanted: int) -> None:
        with self._lock:
            woken = min(wanted, self._idle_count)
            self._idle_count -= woken
            new = min(wanted - woken, self._count_max - self._count)
            self._count += new
        if woken:
            self._wake.release(woken)
        for _ in range(new):
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                call = self._calls.popleft()
            except IndexError:
                if not self._rest():
                    return
                continue
            try:
                call.result = self._function(call.argument)
            except BaseException as error:  # SystemExit too: it ends neither the loop nor this thread
                call.error = error
            self._done.append(call)
            if not self._settling and not self._notify():
                return

    def _rest(self) -> bool:
        """Wait until woken; return False when the thread must end."""
        with self._lock:
            if self._closed:
                return False
            if self._calls:
                return True
            self._idle_count += 1
        self._wake.acquire()
        return not self._closed

    def _notify(self) -> bool:
        """Have the loop take the results; return False when the loop has ended."""
        self._settling = True
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            return False
        return True

    def _settle(self) -> None:
        self._settling = False  # before the results are taken: a later one asks again
        while self._done:
            call = self._done.popleft()
            if not call.future.done():  # else cancelled: its caller has gone
                call.future.set_result((call.result, call.error))
