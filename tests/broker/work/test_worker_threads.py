"""WorkerThreads: work runs in threads, its outcome arrives on the loop, and a hanging thread delays no other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from pymq.broker.work.worker_threads import WorkerThreads, WorkOutcome

PATIENCE_S = 30  # a failing test ends


class Loop:
    """Keeps the calls of ``call_soon_threadsafe``, which the test's own thread runs."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[tuple[Callable[..., None], Any]] = SimpleQueue()

    def call_soon(self, function: Callable[..., None], argument: object) -> None:
        self.calls.put((function, argument))

    def run_one(self) -> None:
        function, argument = self.calls.get(timeout=PATIENCE_S)
        function(argument)


def test_the_outcome_is_reported_on_the_loop() -> None:
    loop = Loop()
    seen: list[Any] = []
    workers = WorkerThreads(loop.call_soon, 1, "test")

    def work() -> int:
        seen.append(threading.current_thread())
        return 7

    workers(work, lambda outcome: seen.extend([outcome.result(), threading.current_thread()]))
    loop.run_one()
    workers.stop()
    assert seen[0] is not threading.current_thread() and seen[1:] == [7, threading.current_thread()]


def test_an_error_is_handed_over_and_the_thread_goes_on() -> None:
    loop = Loop()
    outcomes: list[Any] = []
    workers = WorkerThreads(loop.call_soon, 1, "test")

    def fail() -> int:
        raise OSError(5, "Input/output error")

    workers(fail, outcomes.append)
    workers(lambda: 2, outcomes.append)
    loop.run_one()
    loop.run_one()
    workers.stop()
    failed, second = outcomes
    with pytest.raises(OSError, match="Input/output error"):
        failed.result()
    assert second.result() == 2


def test_a_hanging_thread_does_not_stop_the_others() -> None:
    loop, outcomes = Loop(), list[WorkOutcome]()
    workers = WorkerThreads(loop.call_soon, 2, "test")
    may_end = threading.Event()
    workers(lambda: may_end.wait(PATIENCE_S) and 1, outcomes.append)
    for _ in range(5):
        workers(lambda: 2, outcomes.append)
    for _ in range(5):
        loop.run_one()
    assert [outcome.result() for outcome in outcomes] == [2] * 5
    may_end.set()
    loop.run_one()
    assert outcomes[-1].result() == 1
    workers.stop()


def test_a_closed_loop_ends_the_thread() -> None:
    called = threading.Event()

    def closed(function: Callable[..., None], argument: object) -> None:
        called.set()
        raise RuntimeError("Event loop is closed")

    workers = WorkerThreads(closed, 1, "test")
    workers(lambda: 1, lambda outcome: None)
    assert called.wait(PATIENCE_S)
    (thread,) = workers._threads
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_stop_ends_what_was_started_after_its_work() -> None:
    loop = Loop()
    outcomes: list[Any] = []
    workers = WorkerThreads(loop.call_soon, 2, "test")
    workers.stop()
    workers(lambda: 1, outcomes.append)
    workers.stop()
    loop.run_one()
    for thread in workers._threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert outcomes[0].result() == 1


def test_join_waits_for_the_work_that_was_given() -> None:
    done: list[int] = []
    threads = WorkerThreads(Loop().call_soon, 2, "disk")
    threads.join()  # none was started
    for number in range(20):
        threads(lambda number=number: done.append(number) or 0, lambda _: None)
    threads.stop()
    threads.join()
    assert sorted(done) == list(range(20))
