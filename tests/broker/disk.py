"""Disks that fail on purpose, and worker threads that run on command, for worlds in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pymq.broker.upkeep.flusher import Flusher
from tests.broker.world import World


@contextmanager
def failing(world: World, call: str, part: str, number: int = errno.ENOSPC) -> Iterator[None]:
    """Make every ``call`` (pwrite, sync, …) on a path that contains ``part`` fail within the block."""

    def fault(called: str, path: str) -> None:
        if called == call and part in path:
            raise OSError(number, os.strerror(number), path)

    world.files.fault = fault
    try:
        yield
    finally:
        world.files.fault = None


class _Result:
    def __init__(self, work: Callable[[], int]) -> None:
        self._value, self._error = 0, None
        try:
            self._value = work()
        except Exception as error:
            self._error = error

    def result(self) -> int:
        if self._error is not None:
            raise self._error
        return self._value


class Threads:
    """Keeps a flusher's work until :meth:`run_one`; ``after_count`` counts the calls after each sync."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], int], Callable[[Any], None]]] = []
        self.after_count = 0

    def __call__(self, work: Callable[[], int], done: Callable[[Any], None]) -> None:
        self.waiting.append((work, done))

    def after(self) -> None:
        self.after_count += 1

    def run_one(self, between: Callable[[], None] = lambda: None) -> None:
        """Runs the oldest work; ``between`` happens after it and before the loop hears of it."""
        work, done = self.waiting.pop(0)
        result = _Result(work)
        between()
        done(result)

    @classmethod
    def of(cls, world: World) -> Threads:
        """Replace the world's own (idle) threads."""
        threads = cls()
        parts = world.parts
        flusher = Flusher(
            parts.store,
            threads,
            threads.after,
            clock=world.clock,
            config=world.config,
            waiting_answers=parts.messages.waiting_answers,
        )
        parts.messages.flusher = flusher
        parts.messages.writer._request_sync = flusher.request
        return threads
