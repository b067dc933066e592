"""Filters are listed, expressions evaluated a line at a time, and tried on a topic."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from typing import Any

import pytest

from pymq.cli.filter import evaluation as filter_eval
from pymq.cli.filter.evaluation import Evaluator, answer_lines
from pymq.clock import ManualClock
from pymq.errors import EXIT_OK, EXIT_USAGE
from pymq.filter.plugins import EachMessage, hookimpl
from pymq.filter.registry import FilterRegistry
from tests.cli.conftest import Pymq


class Counting:
    """A filter with state that matches every other message. The expression ``wrong`` raises an arbitrary error."""

    name = "counting"
    doc = "every other"

    def __init__(self) -> None:
        self.compiled: list[str] = []

    def compile(self, expression: str) -> EachMessage:
        self.compiled.append(expression)
        seen: list[Any] = []

        def odd(message: Any) -> bool:
            if expression == "wrong":
                raise ZeroDivisionError(message.body.decode())
            seen.append(message)
            return len(seen) % 2 == 1

        return EachMessage(odd)

    @hookimpl
    def pymq_filters(self) -> list[Counting]:
        return [self]


def evaluator(*plugins: Any, default: str = "sql92") -> Evaluator:
    class Entry:
        name, module, dist = "own", "own", None

        def __init__(self, plugin: Any) -> None:
            self.load = lambda: plugin

    return Evaluator(FilterRegistry(lambda: map(Entry, plugins)), default, ManualClock())  # type: ignore[arg-type]


def ask(line: Any, judge: Evaluator | None = None) -> Any:
    raw = line if isinstance(line, bytes) else json.dumps(line).encode()
    answer = (judge or evaluator()).answer(raw)
    assert answer.endswith(b"\n") and answer.count(b"\n") == 1
    return json.loads(answer)


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ({"expr": "a > 5", "props": {"a": "9"}}, {"result": True}),
        ({"expr": "a > 5", "props": {"a": "2"}}, {"result": False}),
        ({"expr": "a > 5", "props": {}}, {"result": None}),
        ({"expr": "a > 5"}, {"result": None}),
        ({"expr": "a > 5", "props": None}, {"result": None}),
        ({"expr": "a > 5", "props": {"a": 9}}, {"result": True}),
        ({"expr": "a = TRUE", "props": {"a": True}}, {"result": True}),
        ({"expr": "a IS NULL", "props": {"a": None}}, {"result": True}),
        ({"expr": "TAGS = 'x'", "tags": "x"}, {"result": True}),
        ({"expr": "x || y", "tags": "y", "filter": "tag"}, {"result": True}),
        ({"expr": "a > 5", "props": {"a": "9"}, "other": [1]}, {"result": True}),
    ],
)
def test_results(line: dict[str, Any], answer: dict[str, Any]) -> None:
    assert ask(line) == answer


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"expr": "a >", "props": {}}, "column 4: found the end"),
        ({"expr": "a > 5", "props": {"a": "x"}}, "it compares a text that is not a whole number"),
        ({"expr": "a = 1", "filter": "nope"}, "no filter 'nope'"),
        ({"expr": "(" * 40_000}, "the limit is 32768"),
        ({"expr": "a = 1", "props": {"a\x02": "1"}}, "leave them out"),
        ({"expr": "a = 1", "props": {"a": [1]}}, "not a JSON object"),
        ({"props": {}}, "missing required field `expr`"),
        (b"", "not a JSON object"),
        (b"{", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b'{"expr": "\xff"}', "not a JSON object"),
        (b'{"expr": "\\ud800"}', "not a JSON object"),
        (
            {"expr": "wrong", "filter": "counting", "body": "\u20ac"},
            "filter counting failed: ZeroDivisionError: \u20ac",
        ),
    ],
)
def test_errors(line: Any, text: str) -> None:
    assert text in ask(line, evaluator(Counting()))["error"]


def test_an_expression_is_compiled_once_and_keeps_its_state() -> None:
    plugin = Counting()
    judge = evaluator(plugin, default="counting")
    assert [ask({"expr": expr}, judge)["result"] for expr in "aaaba"] == [True, False, True, True, False]
    assert plugin.compiled == ["a", "b"]


def test_compiled_expressions_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_eval, "FILTER_CACHE_COUNT", 2)
    plugin = Counting()
    judge = evaluator(plugin, default="counting")
    for expr in "abacab":
        ask({"expr": expr}, judge)
    assert plugin.compiled == ["a", "b", "c", "b"]


class Pieces:
    """Input that arrives in pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = [*pieces, b""]

    def read1(self, size: int) -> bytes:
        return self._pieces.pop(0)


def answers(*pieces: bytes) -> list[bytes]:
    out = io.BytesIO()
    answer_lines(Pieces(*pieces), out, lambda line: line + b"!\n")
    return out.getvalue().splitlines()


def test_lines_in_pieces() -> None:
    assert answers(b"a", b"b\nc\nd", b"\n\ne") == [b"ab!", b"c!", b"d!", b"!", b"e!"]
    assert answers() == []


def test_lines_are_answered_as_they_come() -> None:
    out = io.BytesIO()
    seen: list[bytes] = []

    class Interactive(Pieces):
        def read1(self, size: int) -> bytes:
            seen.append(out.getvalue())
            return super().read1(size)

    answer_lines(Interactive(b"a\n", b"b\n"), out, lambda line: line)
    assert seen == [b"", b"a", b"ab"]


def test_an_overlong_line_is_an_error_and_reading_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_eval, "LINE_SIZE_MAX_BYTES", 4)
    assert answers(b"1234\n") == [b"1234!"]
    for pieces in ((b"12345\nab\n",), (b"123", b"45", b"678", b"9\nab\n"), (b"12345", b"\nab\n")):
        long, short = answers(*pieces)
        assert json.loads(long) == {"error": "the line is over 4 bytes: send less in one line"} and short == b"ab!"
    [last] = answers(b"123456")
    assert b"over 4 bytes" in last


def test_eval_as_a_command() -> None:
    lines = ['{"expr": "a > 5", "props": {"a": "9"}}', "nope", '{"expr": "a > 5", "props": {"a": "1"}}']
    done = subprocess.run(
        [sys.executable, "-m", "pymq", "filter", "eval"], input="\n".join(lines), capture_output=True, text=True
    )
    assert done.returncode == EXIT_OK and not done.stderr
    one, two, three = done.stdout.splitlines()
    assert (one, three) == ('{"result": true}', '{"result": false}') and "error" in json.loads(two)


def test_an_unknown_default_filter_is_refused(pymq: Pymq) -> None:
    outcome = pymq("filter", "eval", "--filter", "nope")
    assert outcome.code == EXIT_USAGE and "no filter 'nope'" in outcome.err


def test_list(pymq: Pymq) -> None:
    listed = pymq("filter", "list").out.splitlines()
    assert listed[0].split() == ["NAME", "DOC", "PACKAGE", "VERSION"]
    records = pymq("filter", "list", "--json").json()
    assert records == pymq("filter", "list", "-o", "json").json()
    assert [record["name"] for record in records[:2]] == ["sql92", "tag"]
    assert set(records[0]) == {"name", "doc", "package", "version", "error"}


def test_an_expression_is_tried_on_a_topic(pymq: Pymq) -> None:
    assert pymq("topic", "create", "tried", "--wq", "1").code == EXIT_OK
    for size in ("3", "7", "x", "9"):
        assert pymq("send", "tried", f"m{size}", "--property", f"size={size}").code == EXIT_OK
    assert pymq("send", "tried", "none").code == EXIT_OK
    report = pymq("filter", "test", "tried", "size > 5", "--from", "start", "-o", "json").json()
    figures = {name: report[name] for name in ("messages", "matched", "skipped", "unknown", "errors")}
    assert figures == {"messages": 5, "matched": 2, "skipped": 2, "unknown": 1, "errors": 1}
    assert [one["body"] for one in report["examples"]["matched"]] == ["m7", "m9"]
    assert [one["why"] for one in report["examples"]["skipped"]] == ["", "unknown"]
    assert report["examples"]["errors"][0]["place"] == "broker-a/0@2"
    shown = pymq("filter", "test", "tried", "size > 5", "-n", "2").out
    assert "messages    2" in shown and "matched: broker-a/0@3  m9" in shown
    assert pymq("filter", "test", "tried", "size >").code == EXIT_USAGE


def test_tail_through_a_filter(pymq: Pymq) -> None:
    assert pymq("topic", "create", "tail_filtered", "--wq", "1").code == EXIT_OK
    for size in ("3", "7", "x", "12"):
        assert pymq("send", "tail_filtered", f"m{size}", "--property", f"size={size}").code == EXIT_OK
    outcome = pymq("tail", "tail_filtered", "-F", "--from", "start", "--filter", "sql92:size > 5", "-o", "raw")
    assert outcome.out.splitlines() == ["m7", "m12"]
    outcome = pymq("tail", "tail_filtered", "-F", "--filter", "sql92:size >")
    assert outcome.code == EXIT_USAGE and "the expression is wrong at column 7" in outcome.err
    assert "write NAME:EXPRESSION" in pymq("tail", "tail_filtered", "-F", "--filter", "sql92").err


def test_a_group_shows_what_sql_did_for_it(pymq: Pymq) -> None:
    assert pymq("topic", "create", "sql_counted", "--wq", "1").code == EXIT_OK
    for size in ("3", "7", "x"):
        assert pymq("send", "sql_counted", f"m{size}", "--property", f"size={size}").code == EXIT_OK
    assert (
        pymq(
            "tail", "sql_counted", "-F", "--group", "sql_group", "--create-group", "--sql", "size > 5", "-o", "raw"
        ).out
        == "m7\n"
    )
    [figures] = pymq("group", "describe", "sql_group", "-o", "json").json()["filters"]
    assert figures.pop("time_ms") >= 0
    assert figures == {
        "topic": "sql_counted",
        "place": "broker",
        "at": "broker-a",
        "filter": "sql92",
        "matched": 1,
        "skipped": 1,
        "errors": 1,
    }
    assert "RUNS IN" in pymq("group", "describe", "sql_group").out
