"""Periodic work: the event loop runs a list of (name, period, function), logs each failure and goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from pymq.net.turn_watch import TurnWatch

log = logging.getLogger(__name__)

# Runs the job of this name in so many ms, unless its turn comes sooner.
HastenJob = Callable[[str, int], None]

TICK_PERIOD_MS = 100
SLOW_TICK_PERIOD_MS = 1000
# Jobs with this period or a longer one run together, at whole multiples of it: an idle broker wakes up this often, not
# once for each job.
WAKE_UP_MS = 50


@dataclass(slots=True, frozen=True)
class Job:
    """One piece of periodic work. ``period``: ms from the end of a run to the next one's start, give or take half of
    WAKE_UP_MS; a function where it may change at run time."""

    name: str
    period: int | Callable[[], int]
    run: Callable[[], object]

    @property
    def period_ms(self) -> int:
        return self.period if isinstance(self.period, int) else self.period()


class JobRunner:
    """Runs jobs on the loop it is started in, until stopped. ``after_each`` runs after every job (a commit, say).

    ``turns`` judges how long each takes.
    """

    def __init__(self, jobs: list[Job], after_each: Callable[[], None], turns: TurnWatch) -> None:
        self.jobs = jobs
        self.failure_count = 0
        self._after_each = after_each
        self._turns = turns
        self._timers: dict[str, tuple[float, asyncio.TimerHandle]] = {}  # by job; when it is due in loop time
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for job in self.jobs:
            self._schedule_next(job)

    def hasten(self, name: str, delay_ms: int) -> None:
        """Run the job of this name in ``delay_ms``, unless its turn comes sooner. No such job: nothing happens."""
        for job in self.jobs:
            if self._loop is not None and job.name == name:
                self._schedule(job, self._loop.time() + delay_ms / 1000)

    def run_all(self) -> None:
        """Run each job now; its next turn is a period later."""
        for job in self.jobs:
            if self._loop is not None:
                if job.name in self._timers:
                    self._timers[job.name][1].cancel()
                self._run(job)

    def stop(self) -> None:
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._loop = None

    def _schedule_next(self, job: Job) -> None:
        if self._loop is not None:
            when_ms = self._loop.time() * 1000 + job.period_ms
            if job.period_ms >= WAKE_UP_MS:
                when_ms = round(when_ms / WAKE_UP_MS) * WAKE_UP_MS
            self._schedule(job, when_ms / 1000)

    def _schedule(self, job: Job, when: float) -> None:
        assert self._loop is not None
        if job.name in self._timers:
            due, timer = self._timers[job.name]
            if due <= when:
                return
            timer.cancel()
        self._timers[job.name] = when, self._loop.call_at(when, self._run, job)

    def _run(self, job: Job) -> None:
        self._timers.pop(job.name, None)
        begun_s = self._turns.begin()
        try:
            job.run()
            self._after_each()
        except Exception:
            self.failure_count += 1
            log.exception("the job %s failed; it is tried again in %d ms", job.name, job.period_ms)
        self._turns.end(begun_s, f"job: {job.name}")
        self._schedule_next(job)
