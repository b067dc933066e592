"""Upkeep: retention, maintenance of old segments, the log of the store's problems, and objects that last."""

from __future__ import annotations

from pymq.broker.runtime import Runtime
from pymq.broker.upkeep.cleaner import Cleaner
from pymq.broker.upkeep.known_retention import KnownRetention
from pymq.broker.upkeep.lasting_objects import LastingObjects
from pymq.broker.upkeep.maintenance import MaintenanceTasks, maintenance_tasks
from pymq.broker.upkeep.problem_log import ProblemLog
from pymq.broker.work.jobs import SLOW_TICK_PERIOD_MS, TICK_PERIOD_MS, Job
from pymq.store.store import MessageStore


class Upkeep:
    """The parts that keep a store within its limits."""

    def __init__(self, runtime: Runtime, *, store: MessageStore, known_retention: KnownRetention) -> None:
        self.cleaner = Cleaner(
            config=runtime.config,
            clock=runtime.clock,
            store=store,
            known=known_retention,
            run_in_thread=runtime.run_in_thread,
        )
        self.maintenance = MaintenanceTasks(
            maintenance_tasks(store, runtime.config, runtime.clock), runtime.clock, runtime.run_in_thread
        )
        self._problem_log = ProblemLog(store)
        self._lasting_objects = LastingObjects(store)

    def jobs(self) -> list[Job]:
        """Return the jobs. Each looks whether its work is due."""
        return [
            Job("retention", TICK_PERIOD_MS, self.cleaner.tick),
            Job("old segments", TICK_PERIOD_MS, self.maintenance.tick),
            Job("store problems", SLOW_TICK_PERIOD_MS, self._problem_log.tick),
            Job("lasting objects", TICK_PERIOD_MS, self._lasting_objects.tick),
        ]

    def stop(self) -> None:
        """Begin nothing more: another thread is about to close the store."""
        self.cleaner.stop()
        self.maintenance.stop()
