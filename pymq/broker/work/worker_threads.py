"""A few threads that wait for the disk on behalf of the event loop.

Under SYNC_FLUSH there is an fsync for every few dozen sends: handing it over must cost little. An executor's future,
its two locks and its callbacks cost as much processor time as the fsync itself; a queue and one wake-up of the loop
do not.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

CallSoon = Callable[..., object]  # AbstractEventLoop.call_soon_threadsafe


class Result(Protocol):
    """What a worker thread's future offers."""

    def result(self) -> Any: ...


# Runs the first function in a worker thread, then the second on the event loop with a future of its result.
RunInThread = Callable[[Callable[[], int], Callable[[Result], None]], None]


class WorkOutcome:
    """What a piece of work returned or raised: the part of a future that its receiver needs."""

    __slots__ = ("_error", "_value")

    def __init__(self, work: Callable[[], int]) -> None:
        self._value = 0
        self._error: BaseException | None = None
        try:
            self._value = work()
        except BaseException as error:
            self._error = error

    def result(self) -> int:
        if self._error is not None:
            raise self._error
        return self._value


class WorkerThreads:
    """``count`` threads, started with the first work, ended by :meth:`stop`."""

    def __init__(self, call_soon: CallSoon, count: int, name: str) -> None:
        """``call_soon(function, argument)`` runs a function on the loop, from any thread."""
        self._call_soon = call_soon
        self._queue: SimpleQueue[tuple[Callable[[], int], Callable[[WorkOutcome], None]] | None] = SimpleQueue()
        self._threads = [Thread(target=self._run, name=f"{name}-{i}", daemon=True) for i in range(count)]
        self._is_started = False

    def __call__(self, work: Callable[[], int], done: Callable[[WorkOutcome], None]) -> None:
        """Run ``work`` in a thread, then ``done`` on the loop."""
        if not self._is_started:
            self._is_started = True
            for thread in self._threads:
                thread.start()
        self._queue.put((work, done))

    def stop(self) -> None:
        """End the threads once the work given so far is done. Does not wait for it: a disk may hang."""
        for _ in self._threads if self._is_started else ():
            self._queue.put(None)

    def join(self) -> None:
        """Wait after :meth:`stop` until the threads have ended."""
        for thread in self._threads if self._is_started else ():
            thread.join()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            work, done = item
            outcome = WorkOutcome(work)
            try:
                self._call_soon(done, outcome)
            except RuntimeError:  # the loop is closed: nothing waits for the result any more
                return
