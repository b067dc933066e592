"""The file of a log's epoch history, and its form in earlier versions."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.replica.epoch_table import epoch_table, translate

ROOT = "/data"
FORMER = {"reigns": [{"epoch": 1, "start": 0, "reignId": "a"}, {"epoch": 2, "start": 9, "reignId": "b"}], "endedAt": 40}
TODAY = {"epochs": [{"epoch": 1, "start": 0, "epochId": "a"}, {"epoch": 2, "start": 9, "epochId": "b"}], "endedAt": 40}


def test_the_former_file_is_read_once_and_written_with_today_s_names() -> None:
    files = MemoryFiles()
    files.makedirs(f"{ROOT}/config")
    JsonTable(files, f"{ROOT}/config/lineage.json").save(FORMER)
    table = epoch_table(files, ROOT)
    assert table.load() == TODAY
    table.save(TODAY)
    assert files.listdir(f"{ROOT}/config") == ["epochHistory.json"]
    assert epoch_table(files, ROOT).load() == TODAY


@pytest.mark.parametrize(
    ("former", "today"),
    [
        ({}, {}),
        ({"reigns": 5}, {"epochs": 5}),
        ({"reigns": [7]}, {"epochs": [7]}),
        ({"endedAt": None}, {"endedAt": None}),
    ],
)
def test_what_can_t_be_an_epoch_history_is_left_for_its_reader_to_refuse(
    former: dict[str, Any], today: dict[str, Any]
) -> None:
    assert translate(former) == today
