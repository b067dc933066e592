"""TableSaver: saves a JSON table in a worker thread, so that the event loop does not wait for four fsyncs.

Offsets are saved every few seconds. Messages, heartbeats and pulls must not wait for a slow disk.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from pymq.broker.metadata.table_reading import Table
from pymq.broker.work.worker_threads import Result, RunInThread, WorkOutcome
from pymq.errors import StoreError

Make = Callable[[], dict[str, Any]]
# Gets why the table could not be saved, None when it was.
Saved = Callable[[StoreError | OSError | None], None]


def run_inline(work: Callable[[], int], done: Callable[[Result], None]) -> None:
    """A :data:`RunInThread` without a thread."""
    done(WorkOutcome(work))


def ending_turns(run_in_thread: RunInThread, end_turn: Callable[[], None]) -> RunInThread:
    """Return ``run_in_thread`` with a turn's end after each piece of work: slaves wait for tables that were saved."""

    def run(work: Callable[[], int], done: Callable[[Result], None]) -> None:
        def done_in_turn(result: Result) -> None:
            try:
                done(result)
            finally:
                end_turn()

        run_in_thread(work, done_in_turn)

    return run


# After a save the next one waits for this many times its duration, so that a large table takes at most a tenth of a
# thread. A disk that hung must not put off the next save for long.
SAVE_PAUSE_FACTOR = 9
SAVE_PAUSE_MS_MAX = 60_000


class TableSaver:
    """The saver of one table. It never replaces a newer state by an older one. Belongs to the event loop's thread, at
    the end to another one."""

    def __init__(
        self, table: Table, run_in_thread: RunInThread = run_inline, before: Callable[[], object] = lambda: None
    ) -> None:
        """``before`` runs in the same thread, after the state to save is known and before it is written.

        When it raises StoreError, nothing is written.
        """
        self._table = table
        self._run_in_thread = run_in_thread
        self._before = before
        self._lock = Lock()
        self._newest = 0  # the number of the newest state to save
        self.is_busy = False

    def load(self) -> dict[str, Any]:
        """See :class:`Table`."""
        return self._table.load()

    def interval_ms(self, interval_ms: int) -> int:
        """Return how long changes may wait for the next save where the settings say ``interval_ms``."""
        return interval_ms

    def pause_ms(self, duration_ms: int) -> int:
        """Return how long the next save must wait after one of this duration."""
        return min(duration_ms * SAVE_PAUSE_FACTOR, SAVE_PAUSE_MS_MAX)

    def save(self, value: dict[str, Any]) -> None:
        """Save before it returns. Raises StoreError."""
        self._newest += 1
        self._write(self._newest, lambda: value)

    def save_soon(self, make: Make, saved: Saved) -> None:
        """Save what ``make`` returns, which runs in a worker thread; ``saved`` runs on the loop.

        Must not be called while :attr:`is_busy`.
        """
        assert not self.is_busy
        self.is_busy = True
        self._newest += 1
        number = self._newest

        def done(result: Result) -> None:
            self.is_busy = False
            try:
                result.result()
            except (StoreError, OSError) as error:
                saved(error)
            else:
                saved(None)

        self._run_in_thread(lambda: self._write(number, make), done)

    def _write(self, number: int, make: Make) -> int:
        value = make()  # may read the state now, so it comes first: ``before`` syncs what the state speaks of
        self._before()
        with self._lock:
            if number == self._newest:
                self._table.save(value)
        return number
