"""Old commits become one file, and nothing else changes by that, also after a kill between two steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pymq.spark.lake.commit_files import FILES_PER_COMMIT
from pymq.spark.lake.commits import ExportDirectory
from tests.spark.killed_steps import run_driver
from tests.spark.lake_files import SETTINGS, export, visible

ROOT = Path(__file__).parents[3]
COMMITS_MAX = 3


def commits(output: Path) -> list[str]:
    return sorted(path.name for path in (output / "_pymq/commits").iterdir())


def folded(output: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((output / "_pymq/commits/folded.json").read_text())
    return result


@pytest.mark.parametrize("runs", [1, 4])
def test_many_commits_become_one_file_and_the_last(tmp_path: Path, runs: int) -> None:
    export(tmp_path, COMMITS_MAX, commits_max=COMMITS_MAX)
    assert commits(tmp_path) == ["0.json", "1.json", "2.json"]
    export(tmp_path, 1, first=3, commits_max=COMMITS_MAX)
    assert commits(tmp_path) == ["3.json", "folded.json"]
    for run in range(runs):
        export(tmp_path, 12 // runs, first=4 + run * 12 // runs, commits_max=COMMITS_MAX)
    assert commits(tmp_path) == ["15.json", "folded.json"]
    assert visible(tmp_path) == list(range(160))
    with ExportDirectory(tmp_path, SETTINGS) as log:
        assert log.positions == {("T", "b", 0): 160} and log.next_number == 16
        assert log.marks["T", "b", 0].offset == 159
    found = folded(tmp_path)
    (part,) = found["ranges"]
    assert (found["number"], part["from_offset"], part["to_offset"], part["rows"]) == (14, 0, 150, 150)
    assert (found["marks"][0]["offset"], len(found["files"])) == (149, 15)
    assert all((tmp_path / file["path"]).exists() and "staged" not in file for file in found["files"])


def test_a_long_list_of_files_is_written_again_only_for_a_tenth_more(tmp_path: Path) -> None:
    export(tmp_path, 42, commits_max=40)
    assert commits(tmp_path) == ["40.json", "41.json", "folded.json"]
    export(tmp_path, 40 // FILES_PER_COMMIT - 2, first=42, commits_max=1)
    assert len(commits(tmp_path)) == 40 // FILES_PER_COMMIT + 1
    export(tmp_path, 1, first=44, commits_max=1)
    assert commits(tmp_path) == ["44.json", "folded.json"]


def test_ranges_that_do_not_touch_stay_apart_and_removed_files_are_left_out(tmp_path: Path) -> None:
    export(tmp_path, 2)
    export(tmp_path, 2, first=5)
    export(tmp_path, 2, first=9, topic="U")
    shutil.rmtree(tmp_path / "topic=U")
    export(tmp_path, 1, first=11, commits_max=COMMITS_MAX)
    found = folded(tmp_path)
    bounds = [(part["topic"], part["from_offset"], part["to_offset"]) for part in found["ranges"]]
    assert bounds == [("T", 0, 20), ("T", 50, 70), ("U", 90, 110)]
    assert len(found["files"]) == 4 and all(file["path"].startswith("topic=T/") for file in found["files"])
    assert commits(tmp_path) == ["6.json", "folded.json"]
    with ExportDirectory(tmp_path, SETTINGS) as log:
        assert log.positions == {("T", "b", 0): 120, ("U", "b", 0): 110}
    assert visible(tmp_path) == [*range(20), *range(50, 70), *range(110, 120)]


DRIVER = """
import os
from pathlib import Path
import pyarrow as pa
from pymq.spark.lake import commit_files
from pymq.spark.lake import commits
from pymq.spark.places import places
from tests.spark.killed_steps import work_on_each
from tests.spark.lake_files import SETTINGS, add

work_on_each(
    (
        (commit_files, "write_durably"), (places, "sync_directory"),
        (Path, "replace"), (Path, "unlink"), (os, "rmdir"),
    ),
    lambda home: commits.ExportDirectory(home, SETTINGS, commits_max=3),
    lambda log, home: add(log, 3, "T", pa.schema([("queueOffset", pa.int64())])),
)
"""
STEPS = 14


@pytest.mark.slow
def test_a_kill_between_any_two_steps_costs_no_commit_and_doubles_none(tmp_path: Path) -> None:
    first = tmp_path / "00"
    export(first, 3)
    run_driver(DRIVER, first, STEPS)
    found = []
    for step in range(STEPS):
        home = tmp_path / f"{step:02d}"
        left = commits(home)
        with ExportDirectory(home, SETTINGS, commits_max=3) as log:
            count = log.next_number
            assert log.positions == {("T", "b", 0): count * 10} and log.marks["T", "b", 0].offset == count * 10 - 1
            assert visible(home) == list(range(count * 10)), step
        assert not {"0.json", "folded.json"} <= set(commits(home)), step
        if step % 4 == 0:
            export(home, 2, first=count, commits_max=3)
            assert visible(home) == list(range(count * 10 + 20)), step
        found.append((count, "folded.json" in left, len(left)))
    assert {state[:2] for state in found} == {(3, False), (4, False), (4, True)}
    assert {count for _, is_folded, count in found if is_folded} >= {2, 3, 4, 5}
