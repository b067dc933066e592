"""What a task does for the Python worker that it runs in, which Spark keeps for the tasks after it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache


@contextmanager
def task() -> Iterator[None]:
    """A block around a task's work.

    Spark's daemon collects garbage after each task, and so visits every object of all imported modules: 20 ms. The end
    of a worker's first task takes these objects out of the collector's sight.
    """
    yield
    settle()


@cache
def settle() -> None:
    """Leave out what is there now from all later collections; do so once."""
    gc.collect()
    gc.freeze()
