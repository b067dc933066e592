"""Tables, JSON and progress."""

from __future__ import annotations

import json

import pytest

from pymq.cli.output import Column, OutputFormat, cell_text, print_fields, print_listing, progress

COLUMNS = [Column("name"), Column("queue_count", right=True), Column("perm", "MAY")]
RECORDS = [
    {"name": "a", "queue_count": 8, "perm": "RW-", "more": [1]},
    {"name": "long-name", "queue_count": 16, "perm": ""},
]


def test_a_table_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_listing(RECORDS, COLUMNS, OutputFormat.table)
    assert capsys.readouterr().out.splitlines() == [
        "NAME       QUEUE COUNT  MAY",
        "a                    8  RW-",
        "long-name           16  -",
    ]


def test_json_holds_everything(capsys: pytest.CaptureFixture[str]) -> None:
    print_listing(RECORDS, COLUMNS, OutputFormat.json)
    assert json.loads(capsys.readouterr().out) == RECORDS


def test_no_results_are_reported_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_listing([], COLUMNS, OutputFormat.table, "nothing here")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "nothing here\n")
    print_listing([], COLUMNS, OutputFormat.json, "nothing here")
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), ("", "-"), (True, "yes"), (False, "no"), (0, "0"), ([], "-"), (["a", 1], "a, 1")]
)
def test_cells(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_fields(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields({"a": 1, "long": None})
    assert capsys.readouterr().out == "a     1\nlong  -\n"
    print_fields({"a": "one\ntwo", "long": 3})
    assert capsys.readouterr().out == "a     one\n      two\nlong  3\n"


def test_no_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("work", 10) as bar:
        bar.advance(5)
        bar.set_total(20)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
