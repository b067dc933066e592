"""SavedState: a table in memory and its file. A worker thread writes the file, so the event loop never waits.

An operator's change takes effect once it is saved, so there is nothing to undo when the save fails. A change by use (a
retry topic, a group by a heartbeat) takes effect at once and is saved soon.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from pymq.broker.metadata.table_reading import read_version
from pymq.broker.metadata.table_saver import Saved, TableSaver
from pymq.clock import Clock
from pymq.errors import Refusal, StoreError
from pymq.model.tables import DataVersion
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

StateT = TypeVar("StateT")


def raise_failure(error: StoreError | OSError | None) -> None:
    """Raise the error of a save: a :data:`Saved` for callers that pass none."""
    if error is not None:
        raise error


class _Change(NamedTuple, Generic[StateT]):
    apply: Callable[[StateT], object]
    done: Saved


class SavedState(Generic[StateT]):
    """``current`` is the state in use. Only this object changes it, in place.

    One save runs at a time; changes that come meanwhile share the next one. Belongs to the event loop's thread.
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
        """``to_table`` turns a copy of the state into the saved object, in a worker thread."""
        self.current = current
        self.version = DataVersion()
        self._saver = saver
        self._clock = clock
        self._copy = copy
        self._to_table = to_table
        self._saving: list[_Change[StateT]] = []
        self._waiting: list[_Change[StateT]] = []
        self._planned: StateT | None = None  # see planned(); None: not made since the last save began or ended
        self._is_dirty = False  # a change is in effect that is in no save yet
        self._is_failing = False
        self._is_stopped = False

    def load(self) -> dict[str, Any]:
        """Return the table as last saved, and take its version."""
        loaded = self._saver.load()
        self.version = read_version(loaded)
        return loaded

    def planned(self) -> StateT:
        """Return the state in use with all changes that wait for a save, to be read and not kept.

        The state is copied at most twice a save, however many changes come meanwhile.
        """
        if self._planned is None:
            if not (self._saving or self._waiting):
                return self.current
            self._planned = self._with_waiting_changes()
        return self._planned

    def change(self, apply: Callable[[StateT], object], done: Saved) -> None:
        """Make the change once it is saved, then call ``done`` with None; with the error when the save fails.

        ``apply`` is called for copies too, so it must do the same each time.
        """
        self._waiting.append(_Change(apply, done))
        if self._planned is not None:
            apply(self._planned)
        self._start()

    def check_version(self, expected: int | None) -> None:
        """Check a change that was made from the state with this version's counter; None is no condition.

        Raises Refusal(SUBSCRIPTION_NOT_LATEST) when the state has changed since, or is changing.
        """
        if expected is not None and (expected != self.version.counter or self._saving or self._waiting):
            raise Refusal(
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
                f"the table has version {self.version.counter}, and the change was made from version {expected}: read "
                "it again",
            )

    def when_saved(self, done: Saved) -> None:
        """Call ``done`` when all that is :meth:`planned` now is saved."""
        nothing: _Change[StateT] = _Change(lambda state: None, done)
        if self._waiting or self._is_dirty:
            self._waiting.append(nothing)
            self._start()
        elif self._saver.is_busy:
            self._saving.append(nothing)
        else:
            done(None)

    def change_at_once(self, apply: Callable[[StateT], object]) -> None:
        """Make the change now and save it as soon as a thread is free. A crash before that loses it."""
        apply(self.current)
        if self._planned is not None:  # until the next save, this change counts as newer than those that wait
            apply(self._planned)
        self.version = self.version.next(self._clock.now_ms())
        self._is_dirty = True
        self._start()

    def take_over(self, apply: Callable[[StateT], object], version: DataVersion) -> None:
        """Take another broker's state, which ``apply`` sets, and its ``version`` now; save them as soon as possible."""
        apply(self.current)
        self._planned = None
        self.version = version
        self._is_dirty = True
        self._start()

    def as_table(self) -> dict[str, Any]:
        """Return the saved object of the state in use. Encode it before the next change."""
        return self._to_table(self.current, self.version)

    def tick(self) -> None:
        """Try again to save what could not be saved. Call it about every second."""
        if self._is_dirty:
            self._start()

    def stop(self) -> None:
        """Ignore the result of a save that still runs. Then another thread may call :meth:`save`."""
        self._is_stopped = True

    def save(self) -> None:
        """Save now if anything is not saved. Raises StoreError."""
        if self._is_dirty or self._waiting or self._saver.is_busy:
            if self._saving or self._waiting:
                self.version = self.version.next(self._clock.now_ms())
            self._saver.save(self._to_table(self._with_waiting_changes(), self.version))
            self._is_dirty = False

    def _start(self) -> None:
        if self._saver.is_busy or self._is_stopped or not (self._waiting or self._is_dirty):
            return
        was_dirty, self._is_dirty = self._is_dirty, False
        self._saving, self._waiting = self._waiting, []
        before = self.version
        version = before.next(self._clock.now_ms()) if self._saving else before
        state, self._planned = self._with_waiting_changes(), None

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
        self._planned = None
        for change in changes:
            change.apply(self.current)
        if changes:
            # A change at once took the version's number meanwhile, so the table is saved again with the next number.
            self.version = version if self.version == before else self.version.next(self._clock.now_ms())
        self._start()
        for change in changes:
            change.done(None)

    def _failed(self, error: StoreError | OSError) -> None:
        if not self._is_failing:
            log.warning("%s", error)
        self._is_failing = True
        # Changes that came meanwhile were checked against a state that never took effect.
        changes, self._saving, self._waiting = self._saving + self._waiting, [], []
        self._planned = None
        for change in changes:
            change.done(error)

    def _with_waiting_changes(self) -> StateT:
        """Return a copy of the state in use, with all changes that wait for a save."""
        state = self._copy(self.current)
        for change in (*self._saving, *self._waiting):
            change.apply(state)
        return state
