"""TableTaker: puts a master's tables in place on a slave, those that speak of messages once the messages are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pymq.broker.replication.replicated_tables import ReplicatedTable
from pymq.errors import PymqError


class UnusableTableError(PymqError):
    """What a master sent is no table of the kind that was asked for."""


class TableTaker:
    """``log_end`` tells how far the slave's log goes, in the bytes it has."""

    def __init__(self, tables: Iterable[ReplicatedTable], log_end: Callable[[], int]) -> None:
        self._tables = {table.name: table for table in tables}
        self._log_end = log_end
        # Tables that came before their messages, with the log's end they wait for. Of each at most two: the oldest,
        # so that it has its turn while newer ones keep coming, and the newest.
        self._held: dict[str, list[tuple[int, dict[str, Any]]]] = {}

    def take(self, name: str, table: Any, *, is_part: bool = False, master_log_end: int = -1) -> None:
        """Puts it in place, or holds it until the log goes to ``master_log_end``. A table of no known name is left out.

        Raises UnusableTableError for one that is no such table, StoreError or OSError when the disk fails.
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
        """Puts in place what waited for a log that is here now. Call it some times a second."""
        for name, held in list(self._held.items()):
            log_end = self._log_end()
            reached = [number for number, (end, _) in enumerate(held) if end <= log_end]
            if reached:
                del self._held[name]
                if later := held[reached[-1] + 1 :]:
                    self._held[name] = later
                self._put(self._tables[name], held[reached[-1]][1], is_part=False)

    def drop_held(self) -> None:
        """Forgets what waits: it was of another master, or of the time before it lost a part of its log."""
        self._held.clear()

    def _put(self, row: ReplicatedTable, table: dict[str, Any], is_part: bool) -> None:
        try:
            row.take(table, is_part)
        except (AttributeError, TypeError, ValueError) as error:
            raise UnusableTableError(f"the master's table {row.name} can't be read: {error}") from error
