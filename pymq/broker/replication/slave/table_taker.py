"""TableTaker: takes over a master's tables on a slave; a table that refers to messages waits for the messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pymq.broker.replication.tables.replicated_tables import ReplicatedTable
from pymq.errors import PymqError


class UnusableTableError(PymqError):
    """The master sent something that is not the requested table."""


class TableTaker:
    """Takes over the given tables. ``log_end`` returns the end of the slave's log."""

    def __init__(self, tables: Iterable[ReplicatedTable], log_end: Callable[[], int]) -> None:
        self._tables = {table.name: table for table in tables}
        self._log_end = log_end
        # Tables that came before their messages, with the log end that they wait for. At most two of each: the oldest,
        # because newer ones may keep coming, and the newest.
        self._held: dict[str, list[tuple[int, dict[str, Any]]]] = {}

    @property
    def is_holding(self) -> bool:
        """True while a table waits for the log."""
        return bool(self._held)

    def take(self, name: str, table: Any, *, is_part: bool = False, master_log_end: int = -1) -> None:
        """Take the table over, now or when the log reaches ``master_log_end``. A table with an unknown name is ignored.

        Raises UnusableTableError for an unusable table, StoreError or OSError when the disk fails.
        """
        row = self._tables.get(name)
        if row is None:
            return
        if not isinstance(table, dict) or not isinstance(table.get(row.member), dict):
            raise UnusableTableError(f"the master's table {name} has no object {row.member}")
        if row.waits_for_log:
            held = self._held.setdefault(name, [])
            del held[1:]
            held.append((master_log_end, table))
            self.take_reached()
        else:
            self._put(row, table, is_part)

    def take_reached(self) -> None:
        """Take over the waiting tables whose messages are here. Call it several times a second."""
        for name, held in list(self._held.items()):
            log_end = self._log_end()
            reached = [number for number, (end, _) in enumerate(held) if end <= log_end]
            if reached:
                del self._held[name]
                if later := held[reached[-1] + 1 :]:
                    self._held[name] = later
                self._put(self._tables[name], held[reached[-1]][1], is_part=False)

    def drop_held(self) -> None:
        """Drop the waiting tables: they came from another master, or from before it lost a part of its log."""
        self._held.clear()

    def _put(self, row: ReplicatedTable, table: dict[str, Any], is_part: bool) -> None:
        try:
            row.take(table, is_part)
        except (AttributeError, TypeError, ValueError) as error:
            raise UnusableTableError(f"the master's table {row.name} can't be read: {error}") from error
