"""Tables, formats for programs, escapes and progress."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pymq.cli import output
from pymq.cli.cluster.command import columns_for
from pymq.cli.output import (
    Column,
    OutputFormat,
    RecordStream,
    cell_text,
    print_data,
    print_fields,
    print_line,
    print_listing,
    print_note,
    print_table,
    printable,
    printable_json,
    progress,
)
from pymq.cli.output.formats import formatted
from pymq.cli.output.table import shown_width, table_lines

COLUMNS = [Column("name"), Column("queue_count", right=True), Column("perm", "MAY")]
RECORDS = [
    {"name": "a", "queue_count": 8, "perm": "RW-", "more": [1]},
    {"name": "long-name", "queue_count": 16, "perm": ""},
]
# What drives a terminal: ESC, its 8-bit form, a bell, a title, marks of direction, an end of line, half a character.
HOSTILE = "a\x1b[2J\x9b31mb\x07\x1b]0;title\x07c\u202ed\u2028e\r\n\x7f\ud800"
OBEYED = ("\x1b", "\x9b", "\x07", "\u202e", "\u2028", "\r", "\x7f", "\ud800")


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


def test_jsonl_is_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_listing(RECORDS, COLUMNS, OutputFormat.jsonl)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == RECORDS


def test_tsv_has_a_line_of_names_and_a_line_a_record() -> None:
    records = [{"name": 'a\tb\nc\\d"e', "count": 3, "ok": True, "list": ["x", 1], "none": None}, {"name": "f"}]
    text = formatted(records, OutputFormat.tsv)
    assert text.splitlines() == [
        "name\tcount\tok\tlist\tnone",
        'a\\tb\\nc\\\\d"e\t3\ttrue\t["x", 1]\t',
        "f\t\t\t\t",
    ]
    assert len(list(csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))) == 3
    assert formatted([], OutputFormat.tsv) == ""


def test_yaml_is_a_block_of_names_and_values() -> None:
    record = {
        "topic": "orders",
        "no": "no",
        "number": "12",
        "text": "a: b # c",
        "empty": [],
        "nested": {"one": {"two": [1, {"three": None, "four": [True]}]}},
        "list": [[1, 2], "x"],
    }
    assert formatted(record, OutputFormat.yaml).splitlines() == [
        "topic: orders",
        '"no": "no"',
        'number: "12"',
        'text: "a: b # c"',
        "empty: []",
        "nested:",
        "  one:",
        "    two:",
        "      - 1",
        "      - three: null",
        "        four:",
        "          - true",
        "list:",
        "  - - 1",
        "    - 2",
        "  - x",
    ]
    assert formatted([], OutputFormat.yaml) == "[]\n"


def test_no_results_are_reported_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    print_listing([], COLUMNS, OutputFormat.table, "nothing here")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "nothing here\n")
    print_listing([], COLUMNS, OutputFormat.json, "nothing here")
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize("output", list(OutputFormat))
def test_no_format_lets_a_text_drive_the_terminal(output: OutputFormat, capsys: pytest.CaptureFixture[str]) -> None:
    records = [{"name": HOSTILE, HOSTILE: [HOSTILE, {HOSTILE: HOSTILE}]}]
    print_listing(records, [Column("name"), Column(HOSTILE, "MORE")], output)
    text = capsys.readouterr().out
    assert not [one for one in OBEYED if one in text]
    if output in (OutputFormat.table, OutputFormat.tsv):
        assert text.count("\n") == 2
    if output is OutputFormat.json:
        assert json.loads(text) == records


def test_texts_for_people_are_escaped_and_keep_their_own_line_ends(capsys: pytest.CaptureFixture[str]) -> None:
    print_line(f"one\n{HOSTILE}")
    print_note(HOSTILE)
    print_fields({HOSTILE: HOSTILE})
    captured = capsys.readouterr()
    assert not [one for one in OBEYED if one in captured.out + captured.err]
    assert captured.out.startswith("one\na\\x1b[2J")


def test_escaped_json_has_the_same_value() -> None:
    value = {"text": "\x9b\x7f\u202e\U000e0001 é 漢 \U0001f600"}
    text = printable_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert "é 漢 \U0001f600" in text and "\\u009b\\u007f\\u202e\\udb40\\udc01" in text
    assert printable("é 漢") == "é 漢"


def test_a_narrow_terminal_folds_texts_and_keeps_numbers_and_times_whole() -> None:
    columns = [Column("topic"), Column("brokers"), Column("offset", right=True), Column("time", show=str)]
    time = "2026-01-31 12:00:00.123"
    record = {"topic": "orders-of-the-south", "brokers": ["broker-a", "broker-b"], "offset": 10**15, "time": time}
    for width in range(61, 100):
        lines, left_out = table_lines([record], columns, width)
        assert max(map(shown_width, lines)) <= width
        assert any(str(10**15) in line for line in lines) and any(time in line for line in lines)
        words = [line[: line.find("  ")] if "  " in line else line for line in lines[1:]]
        assert "".join(words).startswith("orders-of-the-south"[: len(words[0])])
        assert left_out == []


def test_extra_columns_go_when_folding_is_not_enough() -> None:
    columns = [Column("a", right=True), Column("b", right=True, extra=True), Column("c", right=True, extra=True)]
    record = {"a": 10**9, "b": 10**9, "c": 10**9}
    assert table_lines([record], columns, 40)[1] == []
    assert table_lines([record], columns, 30)[1] == ["C"]
    assert table_lines([record], columns, 20)[1] == ["B", "C"]
    lines, left_out = table_lines([record], columns, 5)
    assert (lines, left_out) == (["         A", "1000000000"], ["B", "C"])


def test_brokers_take_a_line_each_at_80_columns() -> None:
    record = {
        "cluster": "DefaultCluster",
        "broker": "broker-a",
        "broker_id": 0,
        "role": "ASYNC_MASTER",
        "address": "192.168.100.100:10911",
        "version": "V5_3_3",
        "in_per_second": 12345.6,
        "out_per_second": 12345.6,
        "log_end": 10**13,
        "lag_bytes": 10**9,
        "lag_messages": 10**6,
        "lag_ms": 100_000,
        "in_sync": "1/2",
        "machine": None,
    }
    lines, left_out = table_lines([record, record | {"broker_id": 1}], columns_for([record]), 80)
    assert len(lines) == 3 and max(map(len, lines)) <= 80
    assert {"LAG", "TIME", "IN SYNC", "ROLE", "ADDRESS"} & set(left_out) == set()


def test_wide_characters_are_aligned() -> None:
    lines, _ = table_lines([{"name": "漢字"}, {"name": "ab"}], [Column("name"), Column("x")], None)
    assert [shown_width(line) for line in lines[1:]] == [7, 7]


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


def test_data_is_not_printed_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert not print_data({"a": 1}, OutputFormat.table)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("term", "is_bold"), [("xterm", True), ("dumb", False)])
def test_a_dumb_terminal_gets_no_escapes(term: str, is_bold: bool, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    program = "from pymq.cli.main import main; main(['filter', 'list'])"
    environment = {**os.environ, "TERM": term, "COLUMNS": "80"}
    environment.pop("NO_COLOR", None)
    subprocess.run([sys.executable, "-c", program], stdout=slave, stderr=slave, env=environment, check=True)
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # Linux reports the end of a terminal so
            break
        if not part:
            break
        shown += part
    os.close(master)
    assert (b"\x1b" in shown) == is_bold
    plain = shown.decode().replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert max(map(len, plain.splitlines())) <= 80


def test_no_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("work", 10) as bar:
        bar.advance(5)
        bar.set_total(20)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_the_note_about_left_out_columns_folds_between_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "line_width_max", lambda: 40)
    monkeypatch.setattr(output, "is_styled", lambda: False)
    names = [f"column_{number}" for number in range(8)]
    columns = [Column(name, right=True, extra=name != names[0]) for name in names]
    print_table([dict.fromkeys(names, 1)], columns)
    shown = capsys.readouterr()
    assert max(map(len, (shown.out + shown.err).splitlines())) <= 40
    assert " ".join(shown.err.split()).endswith("COLUMN 7: a wider terminal, or -o json, shows all")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_stream_of_records_is_one_document(count: int) -> None:
    rows = [{"name": f"r{number}", "text": "a\tb", "more": [number]} for number in range(count)]

    def streamed(kind: OutputFormat | None) -> str:
        stream = RecordStream(
            kind, lambda row: json.dumps(row).encode() + b"\n", lambda row: row, ("name", "more", "text", "absent")
        )
        pieces = [stream(row) for row in rows]
        assert all(piece.endswith(b"\n") for piece in pieces), "each piece can be shown at once"
        return (b"".join(pieces) + stream.end()).decode()

    assert json.loads(streamed(OutputFormat.json)) == rows
    assert [json.loads(line) for line in streamed(OutputFormat.jsonl).splitlines()] == rows
    assert streamed(OutputFormat.yaml) == formatted(rows, OutputFormat.yaml)
    lines = [f"r{number}\t[{number}]\ta\\tb\t" for number in range(count)]
    assert streamed(OutputFormat.tsv).splitlines() == (["name\tmore\ttext\tabsent", *lines] if rows else [])
    assert streamed(None) == streamed(OutputFormat.jsonl)
