"""Small files are merged so that a reader sees each row once at any moment, also after a kill between two steps."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from pymq.cli import main as cli
from pymq.errors import UsageError
from pymq.spark.lake.commits import ExportDirectory, open_existing
from pymq.spark.lake.compaction import CompactSettings, compact, directories_of, plan
from pymq.spark.places import exchange
from pymq.spark.places.places import OutputBusyError
from tests.spark.killed_steps import run_driver
from tests.spark.lake_files import ROWS_OF_A_FILE, SETTINGS, export, visible

ROOT = Path(__file__).parents[3]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_small_files_become_one_and_a_second_run_finds_nothing(tmp_path: Path) -> None:
    export(tmp_path, 7)
    export(tmp_path, 1, topic="U", first=7)
    with open_existing(tmp_path) as log:
        done = compact(log, directories_of(tmp_path), CompactSettings())
        assert (done.directories, done.files_before, done.files_after, done.rows) == (1, 7, 1, 70)
        assert names(tmp_path / "topic=T") == ["compacted-00000008-0.parquet"]
        assert compact(log, directories_of(tmp_path), CompactSettings()).directories == 0
    assert visible(tmp_path) == list(range(80))
    entry = json.loads((tmp_path / "_pymq/commits/8.json").read_text())["replacement"]
    assert entry["directory"] == "topic=T" and len(entry["removed"]) == 7
    assert (entry["added"][0]["rows"], len(entry["added"][0]["sha256"])) == (70, 64)
    export(tmp_path, 2, first=8)
    with open_existing(tmp_path) as log:
        assert log.positions == {("T", "b", 0): 100, ("U", "b", 0): 80}
        compact(log, directories_of(tmp_path), CompactSettings())
        assert names(tmp_path / "topic=T") == ["compacted-00000011-0.parquet"]
    assert visible(tmp_path) == list(range(100))


def test_a_reader_that_lists_the_old_directory_sees_all_of_it_for_a_grace(tmp_path: Path) -> None:
    export(tmp_path, 3)
    handle = os.open(tmp_path / "topic=T", os.O_RDONLY)
    with open_existing(tmp_path) as log:
        compact(log, directories_of(tmp_path), CompactSettings())
        log.remove_replaced(grace_s=600)
        assert len(list(os.scandir(handle))) == 3
        log.remove_replaced(grace_s=0)
        assert list(os.scandir(handle)) == []
    os.close(handle)
    assert names(tmp_path / "_pymq") == ["commits", "export.json", "lock"]


def test_sizes_decide_what_is_merged(tmp_path: Path) -> None:
    sizes = {"a": 50, "b": 10, "c": 10, "d": 10, "e": 10, "f": 10, "g": 49}
    for name, size in sizes.items():
        (tmp_path / f"{name}.parquet").write_bytes(b"x" * size)
    groups = plan(tmp_path, CompactSettings(target_bytes=100))
    assert [[file.name[0] for file in group] for group in groups] == [list("bcdefg")]
    groups = plan(tmp_path, CompactSettings(target_bytes=20))
    assert groups == []
    groups = plan(tmp_path, CompactSettings(target_bytes=30))
    assert [[file.name[0] for file in group] for group in groups] == [list("bcd"), list("ef")]
    assert plan(tmp_path, CompactSettings(target_bytes=1000, by_size=True)) == []
    for number in range(5):
        (tmp_path / f"h{number}.parquet").write_bytes(b"x" * 11)
    groups = plan(tmp_path, CompactSettings(target_bytes=1000, by_size=True))
    assert [[file.name[0] for file in group] for group in groups] == [list("abcdefghhhhh")]
    (tmp_path / "i.parquet").write_bytes(b"x" * 101)
    groups = plan(tmp_path, CompactSettings(target_bytes=1000, by_size=True))
    assert [[file.name[0] for file in group] for group in groups] == [list("abcdefghhhhh")]


def test_a_directory_that_holds_something_else_is_left_and_named(tmp_path: Path) -> None:
    export(tmp_path, 2)
    export(tmp_path, 2, topic="U", first=2)
    export(tmp_path, 2, topic="V", first=4)
    (tmp_path / "topic=U" / "notes").mkdir()
    pq.write_table(pa.table({"other": [1]}), tmp_path / "topic=V" / "z.parquet")
    (tmp_path / "topic=T" / "README").write_text("stays")
    with open_existing(tmp_path) as log:
        done = compact(log, directories_of(tmp_path), CompactSettings())
    assert done.directories == 1 and names(tmp_path / "topic=T") == ["README", "compacted-00000006-0.parquet"]
    assert ["notes in it is not a file" in text for text in done.skipped] == [True, False]
    assert "z.parquet has other columns than b-0-" in done.skipped[1]
    assert len(names(tmp_path / "topic=V")) == 3


def test_what_can_not_be_compacted_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="holds no export with a commit"):
        open_existing(tmp_path)
    export(tmp_path / "lake", 2)
    with ExportDirectory(tmp_path / "lake", SETTINGS), pytest.raises(OutputBusyError, match="another export"):
        open_existing(tmp_path / "lake")
    monkeypatch.setattr(exchange, "_call", lambda: None)
    with open_existing(tmp_path / "lake") as log:
        with pytest.raises(UsageError, match="can't exchange two directories"):
            compact(log, directories_of(tmp_path / "lake"), CompactSettings())
        (tmp_path / "lake" / "x.parquet").write_bytes(b"")
        with pytest.raises(UsageError, match="export with --partition-by"):
            directories_of(tmp_path / "lake")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(tmp_path, 4)
    command = ["spark-compact", str(tmp_path)]
    assert cli.run([*command, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("would merge 4 files of 1 directories into 1: 40 rows, ")
    assert cli.run([*command, "--grace", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files_after"] == 1
    assert cli.run(command) == 0 and "nothing to merge" in capsys.readouterr().out
    assert cli.run([*command, "--target-size", "1"]) == 2
    assert cli.run(["spark-compact", str(tmp_path / "nothing")]) == 2
    assert visible(tmp_path) == list(range(40))


DRIVER = """
import os
from pathlib import Path
from pymq.spark.lake import compaction
from pymq.spark.lake import commit_files
from pymq.spark.lake import commits
from tests.spark.killed_steps import work_on_each

def work(log, home):
    compaction.compact(log, compaction.directories_of(home), compaction.CompactSettings())
    log.remove_replaced(0)

work_on_each(
    (
        (commit_files, "write_durably"), (commits, "exchange"),
        (commits, "sync_directory"), (compaction, "sync_directory"),
        (compaction, "parquet_writer"), (compaction, "_plain_files"), (os, "link"), (Path, "rename"), (Path, "replace"),
        (Path, "mkdir"), (os, "unlink"), (os, "rmdir"),
    ),
    commits.open_existing,
    work,
)
"""
STEPS = 29


@pytest.mark.slow
def test_a_kill_between_any_two_steps_costs_no_row_and_doubles_none(tmp_path: Path) -> None:
    first = tmp_path / "00"
    export(first, 3)
    (first / "topic=T" / "_NOTE").write_text("linked")
    run_driver(DRIVER, first, STEPS)
    counts: list[Any] = []
    for step in range(STEPS):
        home = tmp_path / f"{step:02d}"
        assert visible(home) == list(range(30)), step
        with open_existing(home) as log:
            assert visible(home) == list(range(30)), step
            assert log.positions == {("T", "b", 0): 30}
            counts.append(len(list((home / "topic=T").glob("*.parquet"))))
            if step % 6 == 0:
                compact(log, directories_of(home), CompactSettings())
                assert visible(home) == list(range(30)) and len(names(home / "topic=T")) == 2
    assert set(counts) == {1, 3} and counts == sorted(counts, reverse=True)


def test_an_interrupt_in_a_commit_is_completed_by_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between a commit and its files' moves: closing must not clear what the commit names."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ExportDirectory, "_publish", interrupt)
        export(tmp_path, 1)
    assert list(tmp_path.rglob("*.parquet")) == []
    with open_existing(tmp_path) as log:
        assert log.positions == {("T", "b", 0): 10}
    assert visible(tmp_path) == list(range(10))


def test_a_reader_beside_sees_each_row_once_or_fails(tmp_path: Path) -> None:
    """It sees all rows that were committed before it began. A listing may show a later commit's file and not an earlier
    one's: systems list a directory in several steps."""
    export(tmp_path, 1)
    committed = ROWS_OF_A_FILE
    is_done = threading.Event()
    wrong: list[list[int]] = []
    reads = 0

    def read() -> None:
        nonlocal reads
        while not is_done.is_set():
            least = committed
            try:
                rows = visible(tmp_path)
            except FileNotFoundError:  # listed before the exchange, opened after it
                continue
            except KeyError:  # pyarrow leaves out names that went between its listing and its look: no file, no schema
                continue
            reads += 1
            if rows[:least] != list(range(least)) or rows != sorted(set(rows)) or len(rows) > ROWS_OF_A_FILE * 25:
                wrong.append(rows)

    reader = threading.Thread(target=read)
    reader.start()
    for first in range(1, 25, 3):
        export(tmp_path, 3, first=first)
        committed += 3 * ROWS_OF_A_FILE
        with open_existing(tmp_path) as log:
            compact(log, directories_of(tmp_path), CompactSettings())
    is_done.set()
    reader.join()
    assert not wrong and reads
    assert len(names(tmp_path / "topic=T")) == 1 and visible(tmp_path) == list(range(committed))
