"""OftenChangedTable: the base of a table that changes with requests, and is saved from time to time.

A save for each change would cost more than the requests. What changed since the last save is lost with a killed broker.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import Any

from pymq.broker.metadata.table_saver import Make, TableSaver
from pymq.errors import StoreError

log = logging.getLogger(__name__)


class OftenChangedTable(ABC):
    """Knows whether anything changed since the last save.

    A subclass sets ``_dirty`` with each change, and calls :meth:`_save_soon` when it is time.
    """

    def __init__(self, saver: TableSaver, failure: str) -> None:
        """``failure``: the text for the log when a save fails, in front of the cause."""
        self._table = saver
        self._failure = failure
        self._dirty = False

    @abstractmethod
    def as_table(self) -> dict[str, Any]:
        """Return the saved object."""

    def save(self) -> None:
        """Save now if anything changed. Raises StoreError."""
        if self._dirty or self._table.is_busy:
            self._table.save(self._table_to_save())
            self._dirty = False

    def _table_to_save(self) -> dict[str, Any]:
        return self.as_table()

    def _save_soon(self, make: Make) -> None:
        """Save what ``make`` returns, in a worker thread. Must not be called while the saver is busy."""
        self._dirty = False
        self._table.save_soon(make, self._saved)

    def _saved(self, error: StoreError | OSError | None) -> None:
        if error is not None:
            self._dirty = True
            log.warning("%s: %s", self._failure, error)
