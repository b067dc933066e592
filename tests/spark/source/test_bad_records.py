"""What parts a stream's batch: bad records are written first, under a name that a repeated batch has too."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyspark_pymq
from pymq.errors import UsageError


class Rows:
    """As much of a DataFrame as the function uses, with what was done to it in ``steps``."""

    def __init__(self, steps: list[str], bad: int, columns: tuple[str, ...] = ("body", "badRecord")) -> None:
        self.steps, self.columns, self._bad = steps, list(columns), bad
        self.text = "rows"
        self.write = self
        self.sparkSession = self.sparkContext = self

    def _then(self, text: str) -> Rows:
        found = Rows(self.steps, self._bad)
        found.text = f"{self.text} {text}"
        return found

    def getLocalProperty(self, name: str) -> str:
        return f"of {name}"

    def persist(self) -> Rows:
        self.steps.append("persist")
        return self

    def unpersist(self) -> None:
        self.steps.append("unpersist")

    def where(self, condition: str) -> Rows:
        return self._then(condition)

    def select(self, columns: str) -> Rows:
        return self._then(columns)

    def drop(self, column: str) -> Rows:
        return self._then(f"without {column}")

    def isEmpty(self) -> bool:
        return not self._bad

    def mode(self, mode: str) -> Rows:
        return self._then(mode)

    def parquet(self, place: str) -> None:
        self.steps.append(f"{self.text} {place}")


def run(rows: Any, query: str = "", fails: bool = False) -> list[str]:
    def write(good: Any, batch_id: int) -> None:
        rows.steps.append(f"{good.text} {batch_id}")
        if fails:
            raise OSError

    pyspark_pymq.bad_records_aside(write, "/bad/", query)(rows, 7)
    steps: list[str] = rows.steps
    return steps


GOOD = "rows badRecord IS NULL without badRecord 7"


def test_bad_records_go_to_the_place_of_their_batch_and_then_the_others_are_written() -> None:
    bad = "rows badRecord IS NOT NULL badRecord.* overwrite /bad/query=a%2Fb/batch=7"
    assert run(Rows([], 1), "a/b") == ["persist", bad, GOOD, "unpersist"]
    assert "query=of%20sql.streaming.queryId/batch=7" in run(Rows([], 1))[1]


def test_without_bad_records_there_are_no_files() -> None:
    assert run(Rows([], 0)) == ["persist", GOOD, "unpersist"]


def test_a_write_that_fails_leaves_no_rows_in_memory() -> None:
    rows = Rows([], 0)
    with pytest.raises(OSError):
        run(rows, fails=True)
    assert rows.steps[-1] == "unpersist"


def test_rows_without_the_column_are_refused() -> None:
    with pytest.raises(UsageError, match="have no column badRecord: give the source onBadRecord table"):
        run(Rows([], 0, columns=("body",)))
