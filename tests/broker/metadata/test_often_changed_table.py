"""OftenChangedTable: a save takes what changed, and what could not be saved counts as changed."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.metadata.often_changed_table import OftenChangedTable
from pymq.broker.metadata.table_saver import TableSaver
from pymq.errors import StoreUnavailableError


class Disk:
    """Keeps every saved table; refuses while ``is_full``."""

    def __init__(self) -> None:
        self.tables: list[dict[str, Any]] = []
        self.is_full = False

    def load(self) -> dict[str, Any]:
        return {}

    def save(self, value: dict[str, Any]) -> None:
        if self.is_full:
            raise StoreUnavailableError("disk full")
        self.tables.append(value)


class Number(OftenChangedTable):
    """A table with one number."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(TableSaver(disk), "the number could not be saved, trying again")
        self.number = 0

    def put(self, number: int) -> None:
        self.number, self._dirty = number, True

    def as_table(self) -> dict[str, Any]:
        return {"number": self.number}

    def tick(self) -> None:
        if self._dirty:
            self._save_soon(self.as_table)


def test_only_changes_are_saved() -> None:
    disk = Disk()
    table = Number(disk)
    table.save()
    assert not disk.tables
    table.put(1)
    table.save()
    table.save()
    table.put(2)
    table.tick()
    table.tick()
    assert disk.tables == [{"number": 1}, {"number": 2}]


def test_what_could_not_be_saved_is_saved_later(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    table = Number(disk)
    table.put(1)
    disk.is_full = True
    table.tick()
    assert "the number could not be saved, trying again: disk full" in caplog.text
    with pytest.raises(StoreUnavailableError):
        table.save()
    disk.is_full = False
    table.tick()
    assert disk.tables == [{"number": 1}]
