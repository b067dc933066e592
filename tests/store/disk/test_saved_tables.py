"""A table that was saved and is gone is no table that was never written."""

from __future__ import annotations

import pytest

from pymq.errors import StoreError
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.disk.saved_tables import CONSEQUENCES, SAVED_TABLES_FILE, SavedTables

ROOT = "/data"
NAME = "topics.json"


def table(files: MemoryFiles, name: str = NAME) -> JsonTable:
    return JsonTable(files, f"{ROOT}/config/{name}", "m", saved=SavedTables(files, ROOT))


@pytest.fixture
def files() -> MemoryFiles:
    made = MemoryFiles()
    for path in (ROOT, f"{ROOT}/config"):
        made.makedirs(path)
    return made


def test_a_new_directory_has_empty_tables(files: MemoryFiles) -> None:
    assert table(files).load() == {}
    assert SavedTables(files, ROOT).missing() == []


@pytest.mark.parametrize("name", CONSEQUENCES)
def test_a_saved_table_that_is_gone_is_refused_with_a_way_out(files: MemoryFiles, name: str) -> None:
    table(files, name).save({"m": {"a": 1}})
    files.remove(f"{ROOT}/config/{name}")
    with pytest.raises(StoreError, match=f"{name} is gone, although it was saved; without it .*accept-loss {ROOT}"):
        table(files, name).load()
    saved = SavedTables(files, ROOT)
    assert saved.missing() == [name]
    saved.forget([name])
    assert table(files, name).load() == {}
    table(files, name).save({"m": {}})
    assert SavedTables(files, ROOT).names() == {name}


def test_a_backup_still_counts(files: MemoryFiles) -> None:
    one = table(files)
    one.save({"m": {"a": 1}})
    one.save({"m": {"a": 2}})
    files.remove(f"{ROOT}/config/{NAME}")
    assert table(files).load() == {"m": {"a": 1}}


def test_a_table_of_another_broker_is_listed_when_it_is_read(files: MemoryFiles) -> None:
    file = files.open(f"{ROOT}/config/{NAME}", create=True)
    file.pwrite(0, b'{"m": {}}')
    table(files).load()
    assert SavedTables(files, ROOT).names() == {NAME}
    table(files, "other.json").save({"m": {}})
    assert SavedTables(files, ROOT).names() == {NAME}


@pytest.mark.parametrize("raw", [b"", b"{}", b" \n", b"\0" * 9, b'{"x": 1}', b"[]"])
def test_an_emptied_table_is_refused(files: MemoryFiles, raw: bytes) -> None:
    table(files).save({"m": {}})
    file = files.open(f"{ROOT}/config/{NAME}")
    file.truncate(0)
    file.pwrite(0, raw)
    with pytest.raises(StoreError, match="put back a copy"):
        table(files).load()


def test_a_damaged_list_begins_again_and_is_said(files: MemoryFiles, caplog: pytest.LogCaptureFixture) -> None:
    table(files).save({"m": {}})
    for name in (SAVED_TABLES_FILE, f"{SAVED_TABLES_FILE}.bak"):
        files.open(f"{ROOT}/{name}", create=True).pwrite(0, b"rubbish")
    assert table(files).load() == {"m": {}}
    assert "the list of saved tables begins again" in caplog.text
    assert SavedTables(files, ROOT).names() == {NAME}
