"""A worker process: compiles filters and filters records, one task after the other, until its input ends.

A filter that hangs, crashes or uses too much memory does so here; :mod:`pymq.filterserver.workers` kills and replaces
the process.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import BinaryIO

from pymq.clock import Clock, SystemClock
from pymq.errors import FilterError, PymqError
from pymq.filter.messages import of_stored
from pymq.filter.plugins import FilterPlugin
from pymq.filter.registry import installed_filters
from pymq.filter.running import RunningFilter
from pymq.filterserver.work import (
    FAILED,
    LENGTH,
    MATCH,
    NO_MATCH,
    Answer,
    Compile,
    Compiled,
    FilterRecords,
    RecordOutcomes,
    Task,
    decode_task,
    framed,
)
from pymq.model.record import decode_records

MEMORY_MAX_BYTES = 1024 * 1024 * 1024
ERROR_LENGTH_MAX = 1000


class Worker:
    """The filters of one process by their ``filter_id``."""

    def __init__(self, find: Callable[[str], FilterPlugin], clock: Clock) -> None:
        self._find = find
        self._clock = clock
        self._filters: dict[int, RunningFilter] = {}

    def answer(self, task: Task) -> Answer | None:
        """Run a task and return its answer; None for a task without one."""
        if isinstance(task, Compile):
            return self._compile(task)
        if isinstance(task, FilterRecords):
            return self._filter(task)
        self._filters.pop(task.filter_id, None)
        return None

    def _compile(self, task: Compile) -> Compiled:
        try:
            plugin = self._find(task.filter_name)
            self._filters[task.filter_id] = RunningFilter(plugin, task.expression, clock=self._clock)
        except PymqError as error:
            return Compiled(_shortened(str(error)))
        except Exception as error:  # plugins are foreign code
            return Compiled(_shortened(f"{type(error).__name__}: {error}"))
        return Compiled(keeps_state=getattr(plugin, "keeps_state", False))

    def _filter(self, task: FilterRecords) -> RecordOutcomes:
        begun_ns = time.perf_counter_ns()
        messages = decode_records(task.records)
        for message in messages:
            message.broker_name = task.broker_name
        outcomes = self._filters[task.filter_id].match([of_stored(message) for message in messages])
        errors = [outcome for outcome in outcomes if isinstance(outcome, FilterError)]
        marks = bytes(
            MATCH if outcome is True else FAILED if isinstance(outcome, FilterError) else NO_MATCH
            for outcome in outcomes
        )
        spent_us = (time.perf_counter_ns() - begun_ns) // 1000
        return RecordOutcomes(marks, _shortened(str(errors[0])) if errors else "", spent_us)


def serve(tasks: BinaryIO, answers: BinaryIO, worker: Worker) -> None:
    """Answer tasks until the input ends."""
    while head := tasks.read(LENGTH.size):
        (size,) = LENGTH.unpack(head)
        answer = worker.answer(decode_task(tasks.read(size)))
        if answer is not None:
            answers.write(framed(answer))
            answers.flush()


def main(find: Callable[[], Callable[[str], FilterPlugin]] = lambda: installed_filters().find) -> None:
    """Serve on standard input and output. Output of a filter goes to standard error.

    ``find`` is called after the limits are set and returns the look-up of filters by name.
    """
    resource = import_module("resource")  # POSIX alone has it
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(os.dup(sys.stdin.fileno()), "rb") as tasks, os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
        worker = Worker(find(), SystemClock())
        answers.write(framed(Compiled()))
        answers.flush()
        serve(tasks, answers, worker)


def _shortened(text: str) -> str:
    return text if len(text) <= ERROR_LENGTH_MAX else f"{text[: ERROR_LENGTH_MAX - 3]}..."


if __name__ == "__main__":
    main()
