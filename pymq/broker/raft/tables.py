"""Tables: the metadata of a group as of one place in the log. The same log gives the same tables on every replica.

Values are kept as JSON text. So replicas compare and save tables without knowing what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pymq.broker.raft.table_records import TABLE_KINDS, TableChange

_Entries = dict[str, dict[str, bytes]]


class Table:
    """One table: ``entries`` by member and name, ``values`` by member; ``end``: of the last record that it includes."""

    def __init__(self, name: str, end: int = 0) -> None:
        self.name = name
        self.end = end
        self.kind = TABLE_KINDS[name]
        self.entries: _Entries = {member: {} for member in self.kind.entries}
        self.values: dict[str, bytes] = {}

    def copy(self) -> Table:
        """Return a table that changes on its own."""
        copy = Table(self.name, self.end)
        copy.entries = {member: dict(entries) for member, entries in self.entries.items()}
        copy.values = dict(self.values)
        return copy

    def make(self, change: TableChange) -> None:
        """Make a change. What it removes may be gone already."""
        for member, keys in change.removed.items():
            for key in keys:
                self.entries[member].pop(key, None)
        for member, entries in change.entries.items():
            self.entries[member].update(entries)
        self.values.update(change.values)

    def change_to(self, wanted: Mapping[str, Any], *, is_part: bool = False) -> TableChange:
        """Return what makes this table equal to ``wanted``, a file's object. Members it lacks count as empty.

        ``is_part``: ``wanted`` has only entries that may be different, and none is gone.
        """
        change = TableChange(self.name)
        for member, known in self.entries.items():
            entries = {str(key): msgspec.json.encode(value) for key, value in (wanted.get(member) or {}).items()}
            changed = {key: value for key, value in entries.items() if known.get(key) != value}
            if changed:
                change.entries[member] = changed
            if gone := [] if is_part else [key for key in known if key not in entries]:
                change.removed[member] = gone
        for member in self.kind.values:
            if member in wanted and (value := msgspec.json.encode(wanted[member])) != self.values.get(member):
                change.values[member] = value
        return change

    def take_object(self, saved: Mapping[str, Any]) -> None:
        """Be what a file's object says."""
        self.make(self.change_to(saved))

    def as_object(self) -> dict[str, Any]:
        """Return the object that the table's file holds, with its derived members."""
        found: dict[str, Any] = {member: msgspec.json.decode(value) for member, value in self.values.items()}
        for member, entries in self.entries.items():
            found[member] = {key: msgspec.json.decode(value) for key, value in entries.items()}
        return found | self.kind.derived(found)


class Tables:
    """All tables. ``end``: they include the records of the log below. Each change is made whole, or not at all."""

    def __init__(self, end: int = 0) -> None:
        self.end = end
        self._tables: dict[str, Table] = {}

    def get(self, name: str) -> Table | None:
        """Return a table; None before its first change."""
        return self._tables.get(name)

    def all(self) -> list[Table]:
        """Return the tables that had a change."""
        return list(self._tables.values())

    def put(self, table: Table) -> None:
        """Hold a table that was saved or copied. It may include more records than the others."""
        self._tables[table.name] = table

    def make(self, change: TableChange, end: int) -> None:
        """Make the change whose last record ends at ``end``, unless its table includes it already."""
        table = self._tables.get(change.table)
        if table is None:
            table = self._tables[change.table] = Table(change.table)
        if end > table.end:
            table.make(change)
            table.end = end
        self.end = max(self.end, end)

    def pass_over(self, end: int) -> None:
        """Take note that no record below ``end`` is missing."""
        self.end = max(self.end, end)
