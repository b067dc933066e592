"""RenamedTable: a file with an earlier version's name is read once, then the new file replaces it."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.errors import StoreError, StoreUnavailableError
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.disk.renamed_table import RenamedTable
from tests.store.disk.crash_points import crash_points, every_outcome

NEW, FORMER = "/config/new.json", "/config/former.json"


def table_of(files: MemoryFiles) -> RenamedTable:
    return RenamedTable(files, NEW, FORMER, lambda table: {"n": table["number"]} if table else {})


def loaded(files: MemoryFiles) -> dict[str, Any]:
    return table_of(files).load()


@pytest.fixture
def files() -> MemoryFiles:
    """Return a directory whose former file was saved twice."""
    files = MemoryFiles()
    files.makedirs("/config")
    files.sync_dir("/")
    former = JsonTable(files, FORMER)
    former.save({"number": 1})
    former.save({"number": 2})
    return files


def names(files: MemoryFiles) -> list[str]:
    return files.listdir("/config")


def test_the_former_file_is_read_and_stays_until_the_first_save(files: MemoryFiles) -> None:
    assert loaded(files) == loaded(files) == {"n": 2}
    assert names(files) == ["former.json", "former.json.bak"]


def test_the_first_save_writes_the_new_file_and_removes_the_former_one(files: MemoryFiles) -> None:
    table = table_of(files)
    table.save(table.load())
    assert names(files) == ["new.json"]
    assert loaded(files) == {"n": 2}
    table.save({"n": 3})
    assert names(files) == ["new.json", "new.json.bak"] and loaded(files) == {"n": 3}


def test_a_save_without_a_load_removes_the_former_file_too(files: MemoryFiles) -> None:
    table_of(files).save({"n": 3})
    assert names(files) == ["new.json"]


def test_without_a_former_file_it_is_an_ordinary_table(files: MemoryFiles) -> None:
    for name in names(files):
        files.remove(f"/config/{name}")
    assert loaded(files) == {}
    table = table_of(files)
    table.save({"n": 1})
    table.save({"n": 2})
    files.open(NEW).pwrite(0, b"?")
    assert loaded(files) == {"n": 1}


def test_a_former_file_beside_a_new_one_wins(files: MemoryFiles) -> None:
    JsonTable(files, NEW).save({"n": 0})
    assert loaded(files) == {"n": 2}


def test_a_damaged_former_file_is_replaced_by_its_backup_and_kept(files: MemoryFiles) -> None:
    files.open(FORMER).pwrite(0, b"?")
    table = table_of(files)
    table.save(table.load())
    assert loaded(files) == {"n": 1} and names(files) == ["new.json", "new.json.bad"]


def test_a_former_file_without_a_usable_backup_is_an_error(files: MemoryFiles) -> None:
    for path in (FORMER, FORMER + ".bak"):
        files.open(path).truncate(0)
    with pytest.raises(StoreError, match=r"former\.json"):
        loaded(files)


def test_a_former_file_that_can_t_be_removed_fails_the_save_and_still_counts(files: MemoryFiles) -> None:
    def fault(call: str, path: str) -> None:
        if call == "remove":
            raise OSError(5, "Input/output error", path)

    table = table_of(files)
    table.load()
    files.fault = fault
    with pytest.raises(StoreUnavailableError, match="can't be removed"):
        table.save({"n": 3})
    files.fault = None
    assert loaded(files) == {"n": 2}
    table.save({"n": 3})
    assert loaded(files) == {"n": 3} and names(files) == ["new.json"]


def test_a_crash_between_any_two_calls_leaves_the_former_or_the_new_table(files: MemoryFiles) -> None:
    """Covers kills and power losses with every subset of unsynced data."""

    def save() -> None:
        table = table_of(files)
        table.load()
        table.save({"n": 3})

    points = outcomes = 0
    for is_finished in crash_points(save, files):
        points += 1
        assert loaded(files) in ([{"n": 3}] if is_finished else [{"n": 2}, {"n": 3}])
        for after in every_outcome(files):
            outcomes += 1
            assert loaded(after) in ([{"n": 3}] if is_finished else [{"n": 2}, {"n": 3}])
            again = table_of(after)  # and the next run can save
            again.load()
            again.save({"n": 4})
            assert loaded(after) == {"n": 4} and "former.json" not in names(after)
    assert points >= 10 and outcomes >= 20
