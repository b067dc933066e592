"""The log of a lake as readers see it, and the division of a range between a lake and the brokers."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.spark.lake.commits import ExportDirectory
from pymq.spark.lake.lake import Lake, LakeFile, Span, hand_over, joined
from tests.spark.lake_files import export

PLACE = ["brokerName", "queueId", "queueOffset"]
SPANS = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: Span(min(pair), max(pair)))


@given(wanted=SPANS, archived=st.lists(SPANS, max_size=4), stored=SPANS)
def test_each_offset_is_read_once_from_where_it_is(wanted: Span, archived: list[Span], stored: Span) -> None:
    pieces = hand_over(wanted, joined(archived), stored)
    found = [[offset for span in spans for offset in range(*span)] for spans in pieces]
    in_lake = {offset for span in archived for offset in range(*span)}
    model: list[list[int]] = [[], [], []]
    for offset in range(*wanted):
        model[0 if offset in in_lake else 1 if offset in range(*stored) else 2].append(offset)
    assert found == model


@given(st.lists(SPANS, max_size=6))
def test_joined_spans_hold_the_same_offsets(spans: list[Span]) -> None:
    found = joined(spans)
    assert {offset for span in found for offset in range(*span)} == {at for span in spans for at in range(*span)}
    assert all(one.to_offset < other.from_offset for one, other in pairwise(found))


def settings(**changed: object) -> dict[str, object]:
    return {"columns": PLACE, "partition_by": ["topic"], "tag": "*", **changed}


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"partition_by": ["dt"]}, "no directories by topic"),
        ({"tag": "A"}, "selected messages only"),
        ({"sql": "a > 1"}, "selected messages only"),
        ({"body": "json:amount double"}, "fields in place of bodies"),
        ({"columns": ["queueOffset", "body"]}, "lacks the column brokerName"),
    ],
)
def test_a_lake_that_is_no_history_is_refused(tmp_path: Path, changed: dict[str, object], text: str) -> None:
    with ExportDirectory(tmp_path / "lake", settings(**changed)) as log:
        log.commit([], [])
    with pytest.raises(UsageError, match=text):
        Lake(tmp_path / "lake")


def test_a_directory_without_a_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no lake with a commit"):
        Lake(tmp_path)


def test_the_log_is_read_while_it_is_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.spark.lake_files.SETTINGS", settings())
    export(tmp_path / "lake", 9, commits_max=4)
    lake = Lake(tmp_path / "lake")
    assert lake.topics() == ["T"] and lake.spans(("T", "b", 0)) == [(0, 90)]
    files = lake.files_of(("T", "b", 0), Span(15, 31))
    assert [file.path.name for file in files] == [f"b-0-{n:012d}-{n + 10:012d}.parquet" for n in (10, 20, 30)]
    assert lake.files_of(("T", "b", 1), Span(0, 90)) == []


def test_names_of_files_say_what_they_hold() -> None:
    file = LakeFile(Path("eu-west-1-3-000000000010-000000000020.parquet"), Path())
    assert file.may_hold(("eu-west-1", 3, 19, 30)) and not file.may_hold(("eu-west-1", 3, 20, 30))
    assert not file.may_hold(("eu-west", 1, 10, 20))
    assert LakeFile(Path("compacted-00000003-0.parquet"), Path()).may_hold(("b", 0, 0, 1))
