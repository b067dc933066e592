"""``pymq spark-import`` without Spark: its plan, what it prints, and what it refuses. tests/spark has its imports."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pymq.errors import EXIT_NOT_FOUND, EXIT_OK, EXIT_USAGE
from pymq.spark.imports.imports import ImportSummary, TopicCounts
from tests.cli.conftest import Pymq
from tests.cli.schemas import assert_documented


def test_a_dry_run_shows_the_steps_and_its_fields_are_documented(pymq: Pymq, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"body": [b"x"] * 30}), tmp_path / "in" / "a.parquet")
    words = ("spark-import", str(tmp_path / "in"), "--topic", "T", "--rows-per-step", "20", "--dry-run")
    found = pymq(*words, "-o", "json").json()
    assert_documented("spark-import", found)
    assert [(step["rows"], step["parts"][0]["from_row"]) for step in found["plan"]] == [(20, 0), (10, 20)]
    assert "would import 30 rows of 1 file in 2 steps" in pymq(*words).out
    done = ImportSummary(**{**found, "dry_run": False, "topics": [TopicCounts("T", 30, 31)]})
    assert_documented("spark-import", done.to_dict())


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("nowhere",), EXIT_NOT_FOUND, "there is no file or directory nowhere"),
        ((".", "--topic", "a b", "--dry-run"), EXIT_USAGE, "a b"),
        ((".", "--column", "body"), EXIT_USAGE, "--column 'body' is wrong: write NAME=VALUE"),
    ],
)
def test_what_is_refused(
    words: tuple[str, ...], code: int, text: str, pymq: Pymq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = pymq("spark-import", *words)
    assert outcome.code == code != EXIT_OK and text in outcome.err
