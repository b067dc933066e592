"""SavedState: a table in memory and the file it is kept in, which a worker thread writes: the event loop never waits.

A change that an operator asks for counts once it is saved, so there is nothing to undo when that fails. What comes
about on the way (a topic by its first send, a group by a heartbeat) counts at once and is saved soon.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from pymq.broker.metadata.state import read_version
from pymq.broker.metadata.table_saver import Saved, TableSaver
from pymq.clock import Clock
from pymq.errors import StoreError
from pymq.model.tables import DataVersion

log = logging.getLogger(__name__)

StateT = TypeVar("StateT")


def raise_failure(error: StoreError | OSError | None) -> None:
    """A :data:`Saved` for callers that nobody waits for."""
    if error is not None:
        raise error


class _Change(NamedTuple, Generic[StateT]):
    apply: Callable[[StateT], object]
    done: Saved


class SavedState(Generic[StateT]):
    """``current`` is what is served; changed in place, and only here.

    One save runs at a time; the changes that come meanwhile share the next one. Belongs to the event loop's thread.
    """

    def __init__(
        self,
        current: StateT,
        saver: TableSaver,
        *,
        clock: Clock,
        copy: Callable[[StateT], StateT],
        to_table: Callable[[StateT, DataVersion], dict[str, Any]],
    ) -> None:
        """``to_table`` makes what is saved of a copy, in a worker thread."""
        self.current = current
        self.version = DataVersion()
        self._saver = saver
        self._clock = clock
        self._copy = copy
        self._to_table = to_table
        self._saving: list[_Change[StateT]] = []
        self._waiting: list[_Change[StateT]] = []
        self._is_dirty = False  # something counts already that no save holds which has begun
        self._is_failing = False
        self._is_stopped = False

    def load(self) -> dict[str, Any]:
        """The table as last saved; the version is taken from it."""
        loaded = self._saver.load()
        self.version = read_version(loaded)
        return loaded

    def planned(self) -> StateT:
        """A copy of what is served, with all changes that are not saved yet."""
        state = self._copy(self.current)
        for change in (*self._saving, *self._waiting):
            change.apply(state)
        return state

    def change(self, apply: Callable[[StateT], object], done: Saved) -> None:
        """Makes the change once it is saved, then calls ``done``; with the error when it can't be saved.

        ``apply`` is called for copies too: it must do the same each time.
        """
        self._waiting.append(_Change(apply, done))
        self._start()

    def when_saved(self, done: Saved) -> None:
        """Calls ``done`` when all that is :meth:`planned` now is saved."""
        nothing: _Change[StateT] = _Change(lambda state: None, done)
        if self._waiting or self._is_dirty:
            self._waiting.append(nothing)
            self._start()
        elif self._saver.is_busy:
            self._saving.append(nothing)
        else:
            done(None)

    def change_at_once(self, apply: Callable[[StateT], object]) -> None:
        """Makes the change now and saves it as soon as a thread has time; a crash before that forgets it."""
        apply(self.current)
        self.version = self.version.next(self._clock.now_ms())
        self._is_dirty = True
        self._start()

    def take_over(self, apply: Callable[[StateT], object], version: DataVersion) -> None:
        """Makes ``apply``'s state and ``version``, another broker's, this one's: now, and saved as soon as may be."""
        apply(self.current)
        self.version = version
        self._is_dirty = True
        self._start()

    def tick(self) -> None:
        """Tries again what could not be saved. Call it every second or so."""
        if self._is_dirty:
            self._start()

    def stop(self) -> None:
        """From now on nobody is told of a save that still runs; another thread may call :meth:`save`."""
        self._is_stopped = True

    def save(self) -> None:
        """Saves before it returns if anything is not saved. Raises StoreError."""
        if self._is_dirty or self._waiting or self._saver.is_busy:
            if self._saving or self._waiting:
                self.version = self.version.next(self._clock.now_ms())
            self._saver.save(self._to_table(self.planned(), self.version))
            self._is_dirty = False

    def _start(self) -> None:
        if self._saver.is_busy or self._is_stopped or not (self._waiting or self._is_dirty):
            return
        was_dirty, self._is_dirty = self._is_dirty, False
        self._saving, self._waiting = self._waiting, []
        before = self.version
        version = before.next(self._clock.now_ms()) if self._saving else before
        state = self.planned()

        def saved(error: StoreError | OSError | None) -> None:
            if self._is_stopped:
                return
            if error is None:
                self._succeeded(before, version)
            else:
                self._is_dirty = self._is_dirty or was_dirty
                self._failed(error)

        self._saver.save_soon(lambda: self._to_table(state, version), saved)

    def _succeeded(self, before: DataVersion, version: DataVersion) -> None:
        self._is_failing = False
        changes, self._saving = self._saving, []
        for change in changes:
            change.apply(self.current)
        if changes:
            # What changed at once meanwhile has taken the version's number; it is saved again with the next one.
            self.version = version if self.version == before else self.version.next(self._clock.now_ms())
        self._start()
        for change in changes:
            change.done(None)

    def _failed(self, error: StoreError | OSError) -> None:
        if not self._is_failing:
            log.warning("%s", error)
        self._is_failing = True
        # Those that came meanwhile were checked against a state that has not come about.
        changes, self._saving, self._waiting = self._saving + self._waiting, [], []
        for change in changes:
            change.done(error)
