"""MaintenanceTasks: the slow work on old segments, scrubbing and compressing, in small pieces beside other work.

A worker thread reads, compares and compresses the pieces; a setting limits the bytes per second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pymq.broker.work.worker_threads import Result, RunInThread
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

FIRST_PASS_DELAY_MS = 60_000  # so as not to slow down a start
COLD_INTERVAL_MS = 60_000  # between looks for segments that became old enough
HOUR_MS = 3_600_000


class TaskPiece(Protocol):
    """A part of a task, which reads ``size`` bytes."""

    size: int

    def run(self) -> None:
        """Do the work; any thread may call it."""
        ...


@dataclass(slots=True, frozen=True)
class MaintenanceTask:
    """Work in pieces. At ``bytes_per_second`` 0 no piece starts. ``interval_ms`` is the pause when all are done."""

    name: str
    next_piece: Callable[[], Any]  # a Piece, or None when all is done
    finish: Callable[[Any], None]  # runs on the loop after each piece
    bytes_per_second: Callable[[], int]
    interval_ms: Callable[[], int]


class _Lane:
    """Paces one task: one piece at a time."""

    def __init__(self, task: MaintenanceTask, clock: Clock, run_in_thread: RunInThread) -> None:
        self._task = task
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._ticked_ms = clock.monotonic_ms()
        self._resumes_ms = self._ticked_ms + FIRST_PASS_DELAY_MS
        self._allowed_bytes = 0.0
        self._is_working = False
        self.is_stopped = False

    def tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._resumes_ms:
            return
        rate = self._task.bytes_per_second()
        # An allowance that is not used within a second is lost: a pause must not cause a burst.
        self._allowed_bytes = min(self._allowed_bytes + rate * (now_ms - self._ticked_ms) / 1000, rate)
        self._ticked_ms = now_ms
        if rate:
            self._start()

    def _start(self) -> None:
        if self._is_working or self.is_stopped or self._allowed_bytes <= 0:
            return
        piece = self._task.next_piece()
        if piece is None:
            self._resumes_ms = self._clock.monotonic_ms() + self._task.interval_ms()
            return
        self._is_working = True
        self._allowed_bytes -= piece.size

        def work() -> int:
            piece.run()
            return 0

        self._run_in_thread(work, lambda result: self._done(piece, result))

    def _done(self, piece: TaskPiece, result: Result) -> None:
        self._is_working = False
        if self.is_stopped:
            return
        try:
            result.result()
            self._task.finish(piece)
        except OSError as error:
            log.error("%s: %s; it is tried again", self._task.name, error)
            self._resumes_ms = self._clock.monotonic_ms() + COLD_INTERVAL_MS
            return
        self._start()


class MaintenanceTasks:
    """Runs tasks side by side. Call :meth:`tick` a few times a second."""

    def __init__(self, tasks: list[MaintenanceTask], clock: Clock, run_in_thread: RunInThread) -> None:
        self._lanes = [_Lane(task, clock, run_in_thread) for task in tasks]

    def tick(self) -> None:
        for lane in self._lanes:
            lane.tick()

    def stop(self) -> None:
        """Start nothing more and ignore the result of work that still runs: the store is about to be closed."""
        for lane in self._lanes:
            lane.is_stopped = True


def maintenance_tasks(store: MessageStore, config: BrokerConfig, clock: Clock) -> list[MaintenanceTask]:
    """Return the tasks that a broker's settings ask for; all the settings but the digests may change at run time."""
    tasks = [
        MaintenanceTask(
            name="compressing old segments",
            next_piece=lambda: store.next_cold_piece(clock.now_ms() - config.cold_segment_hours * HOUR_MS),
            finish=store.finish_cold_piece,
            bytes_per_second=lambda: config.cold_bytes_per_second if config.cold_segment_hours else 0,
            interval_ms=lambda: COLD_INTERVAL_MS,
        )
    ]
    if store.settings.digests_enabled:
        tasks.append(
            MaintenanceTask(
                name="scrubbing",
                next_piece=store.next_scrub_piece,
                finish=store.finish_scrub_piece,
                bytes_per_second=lambda: config.scrub_bytes_per_second,
                interval_ms=lambda: config.scrub_interval_hours * HOUR_MS,
            )
        )
    return tasks
