"""MadeByUsersTable: which topics and groups each user has made, in ``madeByUsers.json``, as slaves copy it."""

from __future__ import annotations

from typing import Any

from pymq.broker.metadata.table_saver import Make, Saved, TableSaver
from pymq.errors import StoreError
from pymq.security.made_by_users import MADE_MEMBER


class MadeByUsersTable:
    """Keeps the table that :class:`~pymq.security.made_by_users.MadeByUsers` saves last (its ``Saver``)."""

    def __init__(self, saver: TableSaver) -> None:
        self.change_count = 0
        self._saver = saver
        self._table: dict[str, Any] | None = None  # None: not read yet

    @property
    def is_busy(self) -> bool:
        """True while a save runs."""
        return self._saver.is_busy

    def load(self) -> dict[str, Any]:
        """Return what the file has. Raises StoreError."""
        self._table = self._saver.load()
        return self._table

    def as_table(self) -> dict[str, Any]:
        """Return the newest table; an empty one in place of a file that can't be read."""
        if self._table is None:
            try:
                self.load()
            except StoreError:
                self._table = {}
        return {MADE_MEMBER: {}, **(self._table or {})}

    def save(self, table: dict[str, Any]) -> None:
        """Save a table now. Raises StoreError or OSError."""
        self._saver.save(table)
        self._changed(table)

    def save_soon(self, make: Make, saved: Saved) -> None:
        """Save a table in a thread; ``saved`` gets None or why it is not saved. Not while :attr:`is_busy`."""
        table = make()

        def done(error: StoreError | OSError | None) -> None:
            if error is None:
                self._changed(table)
            saved(error)

        self._saver.save_soon(lambda: table, done)

    def _changed(self, table: dict[str, Any]) -> None:
        self._table = table
        self.change_count += 1
