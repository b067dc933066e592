"""Periodic work: a list of (name, period, function) run by the event loop, each failure logged and survived."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(slots=True, frozen=True)
class Job:
    """One piece of periodic work. ``period_ms`` counts from the end of a run to the next one's start."""

    name: str
    period_ms: int
    run: Callable[[], object]


class JobRunner:
    """Runs jobs on the loop it is started in, until stopped. ``after_each`` runs behind every job (a commit, say)."""

    def __init__(self, jobs: list[Job], after_each: Callable[[], None]) -> None:
        self.jobs = jobs
        self.failure_count = 0
        self._after_each = after_each
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for job in self.jobs:
            self._schedule(job)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._loop = None

    def _schedule(self, job: Job) -> None:
        if self._loop is not None:
            self._timers[job.name] = self._loop.call_later(job.period_ms / 1000, self._run, job)

    def _run(self, job: Job) -> None:
        try:
            job.run()
            self._after_each()
        except Exception:
            self.failure_count += 1
            log.exception("the job %s failed; it is tried again in %d ms", job.name, job.period_ms)
        self._schedule(job)
