"""Runs a query on a busy machine: Spark gives a Python process ten seconds to start, and else ends the query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymq.spark.session.failures import TaskFailedError, translated

TRIES = 10
_TOO_SLOW = "Python worker failed to connect back"


def run_to_its_end(start: Callable[[], Any]) -> None:
    """Start a bounded query and wait for its end; start it again, on its checkpoint, if a process began too slowly."""
    patiently(lambda: start().awaitTermination())


def patiently(run: Callable[[], Any]) -> None:
    """Run what continues on a checkpoint, again if a process began too slowly."""
    for left in reversed(range(TRIES)):
        try:
            with translated():
                run()
            return
        except TaskFailedError as error:
            if _TOO_SLOW not in str(error) or not left:
                raise
