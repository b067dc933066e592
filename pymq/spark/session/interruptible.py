"""Runs work with Spark so that Ctrl-C ends it cleanly: PySpark's own handler breaks the connection to its JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

CANCEL_TIMEOUT_S = 15.0
_Result = TypeVar("_Result")


def run_interruptibly(work: Callable[[], _Result], cancel: Callable[[], object]) -> _Result:
    """Return the result of ``work``, which runs in another thread so that this one can be interrupted.

    On KeyboardInterrupt calls ``cancel``, waits for the work's end (at most :data:`CANCEL_TIMEOUT_S`) and raises it
    again. Outside of the main thread, where no interrupt arrives, runs the work here.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    done = threading.Event()
    results: list[_Result] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    try:
        threading.Thread(target=run, name="pymq-spark", daemon=True).start()
        done.wait()
    except KeyboardInterrupt:
        with suppress(Exception):
            cancel()
        done.wait(CANCEL_TIMEOUT_S)
        raise
    if errors:
        raise errors[0]
    return results[0]
