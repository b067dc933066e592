"""The file of a log's epoch history."""

from __future__ import annotations

import pytest

from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.replica.epoch_table import epoch_table, last_clean_end

ROOT = "/data"


def with_table(table: dict[str, object]) -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs(f"{ROOT}/config")
    JsonTable(files, f"{ROOT}/config/epochHistory.json").save(table)
    return files


def test_the_table_is_the_file_in_the_config_directory() -> None:
    table = {"epochs": [{"epoch": 1, "start": 0, "epochId": "a"}], "endedAt": 40}
    assert epoch_table(with_table(table), ROOT).load() == table


@pytest.mark.parametrize(
    ("table", "end"),
    [({"endedAt": 40}, 40), ({"endedAt": -1}, 0), ({"endedAt": "40"}, 0), ({"endedAt": None}, 0), ({}, 0)],
)
def test_the_end_at_the_last_orderly_stop(table: dict[str, object], end: int) -> None:
    assert last_clean_end(with_table(table), ROOT) == end


def test_an_unreadable_file_does_not_say_where_the_log_ended() -> None:
    files = with_table({"endedAt": 40})
    files.open(f"{ROOT}/config/epochHistory.json").pwrite(0, b"?")
    assert last_clean_end(files, ROOT) == 0
