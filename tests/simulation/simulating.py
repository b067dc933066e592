"""Runs one plan of any kind of cluster, with everything around it that no seed decides kept out."""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import NamedTuple

from pymq.broker.work.bulk_work import BULK_MODULES
from pymq.errors import PymqError
from tests.simulation.cluster import Cluster, Story
from tests.simulation.history import History
from tests.simulation.loop import own_running_loop
from tests.simulation.master_slave.cluster import MasterSlave
from tests.simulation.master_slave.plan import MasterSlavePlan
from tests.simulation.plan import Plan
from tests.simulation.raft.cluster import RaftGroups
from tests.simulation.raft.plan import RaftPlan
from tests.simulation.workers.cluster import Workers
from tests.simulation.workers.plan import WorkersPlan

CLUSTERS: Mapping[type[Plan], Callable[..., Cluster]] = {
    MasterSlavePlan: MasterSlave,
    RaftPlan: RaftGroups,
    WorkersPlan: Workers,
}

for _name in BULK_MODULES:  # else the first seed would load them, and keep its objects for the process's life
    import_module(_name)


class Report(NamedTuple):
    """The result of one seed."""

    seed: int
    violations: list[str]
    faults: Counter[str]
    operations: Counter[str]
    lies: Counter[str]
    longest_wait_us: int | None
    simulated_us: int
    event_count: int
    cpu_seconds: float
    trace: list[str]


class _Errors(logging.Handler):
    """Reports a violation when the product logs a traceback: that is an error inside it."""

    def __init__(self, history: History) -> None:
        super().__init__(logging.ERROR)
        self._history = history

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, (PymqError, OSError)):
            self._history.violated(f"{record.getMessage()}: {type(error).__name__}: {error}")


@contextmanager
def _logged_to(history: History) -> Iterator[None]:
    logger = logging.getLogger("pymq")
    handler = _Errors(history)
    before = logger.propagate, logger.level
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before[0]
        logger.setLevel(before[1])  # unlike an assignment, this clears what the child loggers have cached


@contextmanager
def _without_gc() -> Iterator[None]:
    """Keep what dead processes leave until this context ends: a collector would run at moments that no seed decides.

    Coroutines of dead processes run to their ends without a loop when they are deleted, and complain: nothing is heard.
    """
    before = sys.unraisablehook
    gc.disable()
    try:
        yield
        sys.unraisablehook = lambda _: None
        gc.collect()
    finally:
        sys.unraisablehook = before
        gc.enable()


def simulate(plan: Plan, *, tracing: bool = False, story: Story | None = None) -> Report:
    """Run one plan. ``story`` takes the place of its faults. An error that escapes is a violation, too.

    With ``tracing`` such an error is raised.
    """
    started = time.process_time()
    cluster = CLUSTERS[type(plan)](plan, tracing=tracing)
    history, timeline = cluster.history, cluster.timeline
    with _without_gc():
        with _logged_to(history), own_running_loop(), cluster.surroundings():
            try:
                cluster.run(story)
            except Exception as error:
                if tracing:
                    raise
                history.violated(f"{type(error).__name__}: {error}")
        longest_wait_us = cluster.longest_wait_us()
        cluster.end()
        del cluster
    return Report(
        plan.seed, history.violations, history.faults, history.operations, history.lies, longest_wait_us,
        timeline.now_us, timeline.event_count, time.process_time() - started, history.trace or [],
    )  # fmt: skip
