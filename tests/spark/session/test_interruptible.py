"""Ctrl-C while Spark works: the work is canceled, its end is awaited, and the interrupt is raised."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from pymq.spark.session.interruptible import run_interruptibly


def test_results_and_errors() -> None:
    assert run_interruptibly(lambda: 5, lambda: None) == 5
    with pytest.raises(ZeroDivisionError):
        run_interruptibly(lambda: 1 // 0, lambda: None)


def test_an_interrupt_cancels_the_work() -> None:
    canceled, ended = threading.Event(), threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        canceled.wait()
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(work, canceled.set)
    assert ended.is_set()


def test_outside_of_the_main_thread_the_work_runs_there() -> None:
    found: list[threading.Thread] = []
    thread = threading.Thread(target=lambda: found.append(run_interruptibly(threading.current_thread, lambda: None)))
    thread.start()
    thread.join()
    assert found == [thread]
