"""TableSaver: keeps the event loop free of the four fsyncs that replacing a JSON file takes.

Offsets are saved every few seconds, whatever the disk does; messages, heartbeats and pulls must not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from pymq.broker.metadata.state import Table
from pymq.broker.upkeep.flusher import Result, RunInThread
from pymq.broker.upkeep.worker_threads import Outcome
from pymq.errors import StoreError

Make = Callable[[], dict[str, Any]]
# Gets why the table could not be saved, None when it was.
Saved = Callable[[StoreError | OSError | None], None]


def run_inline(work: Callable[[], int], done: Callable[[Result], None]) -> None:
    """A :data:`RunInThread` without a thread."""
    done(Outcome(work))


def ending_turns(run_in_thread: RunInThread, end_turn: Callable[[], None]) -> RunInThread:
    """As ``run_in_thread``, and a turn ends behind each piece of work: slaves wait for tables that were saved."""

    def run(work: Callable[[], int], done: Callable[[Result], None]) -> None:
        def done_in_turn(result: Result) -> None:
            try:
                done(result)
            finally:
                end_turn()

        run_in_thread(work, done_in_turn)

    return run


class TableSaver:
    """One table. Never puts an older state over a newer one. Belongs to the event loop's thread, at the end another."""

    def __init__(
        self, table: Table, run_in_thread: RunInThread = run_inline, before: Callable[[], object] = lambda: None
    ) -> None:
        """``before`` runs ahead of each write, in the same thread; when it raises StoreError, nothing is written."""
        self._table = table
        self._run_in_thread = run_in_thread
        self._before = before
        self._lock = Lock()
        self._newest = 0  # number of the newest state that was given here
        self.is_busy = False

    def load(self) -> dict[str, Any]:
        """See :class:`Table`."""
        return self._table.load()

    def save(self, value: dict[str, Any]) -> None:
        """Saves before it returns. Raises StoreError."""
        self._newest += 1
        self._write(self._newest, lambda: value)

    def save_soon(self, make: Make, saved: Saved) -> None:
        """Saves what ``make`` returns, which is called in a worker thread; ``saved`` is called on the loop.

        Not while :attr:`is_busy`.
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
        self._before()
        with self._lock:
            if number == self._newest:
                self._table.save(make())
        return number
