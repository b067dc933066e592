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
WAKE_UP_MS = 100
IDLE_WAKE_UP_MS = 250  # of a broker that got nothing since it woke up before; also the heartbeat of TurnWatch
EARLY_S = 0.001  # that a timer of the loop may come before its time


@dataclass(slots=True, frozen=True)
class Job:
    """One piece of periodic work. ``period``: ms from the end of a run to the next one's start, give or take half of
    WAKE_UP_MS, up to IDLE_WAKE_UP_MS in an idle broker; a function where it may change at run time."""

    name: str
    period: int | Callable[[], int]
    run: Callable[[], object]

    @property
    def period_ms(self) -> int:
        return self.period if isinstance(self.period, int) else self.period()


class JobRunner:
    """Runs jobs on the loop it is started in, until stopped. ``after_each`` runs after every job (a commit, say).

    All jobs share one timer. ``turns`` judges how long each takes. ``activity`` returns a number that grows with
    requests and messages: while it stands still, jobs run less often, as far as nobody hastens them. Without it they
    always keep their periods.
    """

    def __init__(
        self,
        jobs: list[Job],
        after_each: Callable[[], None],
        turns: TurnWatch,
        activity: Callable[[], int] | None = None,
    ) -> None:
        self.jobs = jobs
        self.failure_count = 0
        self._after_each = after_each
        self._turns = turns
        self._activity = activity
        self._seen_activity = 0
        self._wake_up_ms = WAKE_UP_MS
        self._due_s: dict[str, float] = {}  # loop time, by job; the job that runs has none
        self._timer: asyncio.Handle | None = None
        self._wakes_s = 0.0  # loop time of the timer
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        for job in self.jobs:
            self._schedule_next(job, self._loop)
        self._set_timer(self._loop)

    def hasten(self, name: str, delay_ms: int) -> None:
        """Run the job of this name in ``delay_ms``, unless its turn comes sooner. No such job: nothing happens."""
        if (loop := self._loop) is not None and any(job.name == name for job in self.jobs):
            self._schedule(name, loop.time() + delay_ms / 1000)
            self._set_timer(loop)

    def run_all(self) -> None:
        """Run each job now; its next turn is a period later."""
        if self._loop is not None:
            self._run(self.jobs)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due_s.clear()
        self._loop = None

    def _schedule_next(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        now_ms, period_ms, wake_up_ms = loop.time() * 1000, job.period_ms, self._wake_up_ms
        if period_ms < WAKE_UP_MS:
            when_ms = now_ms + period_ms
        else:
            when_ms = round((now_ms + max(period_ms, wake_up_ms)) / wake_up_ms) * wake_up_ms
        self._schedule(job.name, when_ms / 1000)

    def _schedule(self, name: str, when_s: float) -> None:
        self._due_s[name] = min(when_s, self._due_s.get(name, when_s))

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake up for the job that is due first."""
        when_s = min(self._due_s.values(), default=None)
        if when_s is None or (self._timer is not None and self._wakes_s <= when_s):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._wakes_s = loop.call_at(when_s, self._run_due), when_s

    def _run_due(self) -> None:
        assert self._loop is not None
        self._timer = None
        if self._activity is not None:
            activity = self._activity()
            self._wake_up_ms = IDLE_WAKE_UP_MS if activity == self._seen_activity else WAKE_UP_MS
            self._seen_activity = activity
        now_s = self._loop.time() + EARLY_S
        self._run([job for job in self.jobs if self._due_s[job.name] <= now_s])

    def _run(self, jobs: list[Job]) -> None:
        """Run jobs one after the other, until one of them stops the runner."""
        for job in jobs:
            self._due_s.pop(job.name, None)
            begun_s = self._turns.begin()
            try:
                job.run()
                self._after_each()
            except Exception:
                self.failure_count += 1
                log.exception("the job %s failed; it is tried again in %d ms", job.name, job.period_ms)
            self._turns.end(begun_s, f"job: {job.name}")
            if self._loop is None:
                return
            self._schedule_next(job, self._loop)
        if self._loop is not None:
            self._set_timer(self._loop)
