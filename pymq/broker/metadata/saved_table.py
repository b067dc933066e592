"""SavedTable: the base of a manager whose entries are one saved table."""

from __future__ import annotations

from typing import Any, Generic

from pymq.broker.metadata.saved_state import SavedState, StateT
from pymq.model.tables import DataVersion


class SavedTable(Generic[StateT]):
    """Saves the entries after each change. A subclass reads them at the start, changes them, and answers about them."""

    def __init__(self, state: SavedState[StateT]) -> None:
        self._state = state

    @property
    def data_version(self) -> DataVersion:
        """The version of the table in use; each change has the next one."""
        return self._state.version

    def as_table(self) -> dict[str, Any]:
        """Return the saved object."""
        return self._state.as_table()

    def tick(self) -> None:
        """Try again to save what could not be saved. Call it about every second."""
        self._state.tick()

    def stop(self) -> None:
        """Ignore the result of a save that still runs. Then another thread may call :meth:`save`."""
        self._state.stop()

    def save(self) -> None:
        """Save now if anything is not saved. Raises StoreError."""
        self._state.save()
