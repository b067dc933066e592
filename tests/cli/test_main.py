"""The command table: the help of every command, the imports help needs, and the exit codes of errors."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pymq.cli import main as cli
from pymq.errors import (
    EXIT_FAILED,
    EXIT_NOT_FOUND,
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    NotFoundError,
    RefusedError,
    UnreachableError,
)
from tests.cli.command_tree import ALL_COMMANDS

HEAVY = {
    "asyncio",
    "pydantic",
    "uvloop",
    "msgspec",
    "numpy",
    "rich",
    "zstandard",
    "lz4",
    "pyarrow",
    "pyspark",
    "multiprocessing",
}


@pytest.mark.parametrize("path", ALL_COMMANDS, ids=" ".join)
def test_help_of_each_command_has_an_example(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*path, "--help"]) == EXIT_OK
    text = capsys.readouterr().out
    assert "Examples:" in text
    assert f"pymq {' '.join(path)}" in text.split("Examples:")[1]


def test_help_lists_each_command_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--help"]) == EXIT_OK
    text = capsys.readouterr().out
    for name, (_, line) in cli.COMMANDS.items():
        assert name in text
        assert line in text


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], set()),
        (["topic", "--help"], {"pymq.cli.topic.command"}),
        (["tail", "--help"], {"pymq.cli.tail.command"}),
    ],
    ids=["root", "topic", "tail"],
)
def test_help_imports_only_the_command_table_and_that_command(arguments: list[str], allowed: set[str]) -> None:
    program = "import sys; from pymq.cli.main import run; run(sys.argv[1:]); print('MODULES', *sys.modules)"
    result = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    modules = set(result.stdout.split("MODULES")[1].split())
    assert not {module.partition(".")[0] for module in modules} & HEAVY
    commands = {module for module, _ in cli.COMMANDS.values()}
    assert modules & commands == allowed
    assert not any(module.startswith(("pymq.client", "pymq.broker", "pymq.wire", "pymq.store")) for module in modules)


def test_listing_topics_imports_neither_servers_nor_consumers() -> None:
    program = (
        "import sys; from pymq.cli.main import run; "
        "run(['topic', 'list', '--namesrv', '127.0.0.1:1']); print('MODULES', *sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    modules = set(result.stdout.split("MODULES")[1].split())
    unwanted = (
        "pymq.broker",
        "pymq.store",
        "pymq.namesrv",
        "pymq.client.producer",
        "pymq.client.push_consumer",
        "pymq.spark",
    )
    assert not [module for module in modules if module.startswith(unwanted)]
    assert not {module.partition(".")[0] for module in modules} & (HEAVY - {"asyncio", "msgspec"})


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == EXIT_OK
    assert capsys.readouterr().out.startswith("pymq 0.")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tpic"], "did you mean topic?"),
        (["topic", "lst"], "lst"),
        (["topic", "list", "--nope"], "--nope"),
        (["topic", "describe"], "NAME"),
        (["topic", "create", "a/b"], "character outside"),
        (["topic", "update", "t"], "nothing to change"),
        (["topic", "create", "t", "--perm", "X"], "not a permission"),
        (["topic", "list", "-o", "xml"], "xml"),
        (["topic", "list", "--namesrv", "nowhere"], "HOST:PORT"),
        (["send", "t", "b", "--property", "KEYS=1"], "reserved by RocketMQ"),
        (["send", "t", "b", "--property", "nothing"], "NAME=VALUE"),
        (["send", "t", "b", "--queue", "three"], "BROKER:ID"),
        (["tail", "--from", "yesterday"], "--from 'yesterday'"),
        (["tail", "--from", "end", "-10"], "exclude each other"),
        (["tail", "--commit"], "--group"),
        (["tail", "--grep", "("], "regular expression"),
        (["tail", "-o", "xml"], "'text', 'table', 'json', 'jsonl', 'tsv', 'yaml', 'raw'"),
        (["message", "query", "t", "--key", "k", "--from", "-1h", "--to", "-2h"], "later than --to"),
        (["standalone", "--ephemeral", "--dir", "x"], "exclude each other"),
        (["broker", "--set", "brokerNam=x"], "did you mean brokerName"),
        (["broker", "-c", "/nowhere/broker.conf"], "/nowhere/broker.conf"),
        (["broker", "--log-level", "loud"], "loud"),
        (["spark-export", "--format", "xls"], "xls"),
        (["spark-export", "--sql", "a >"], "wrong at column 4"),
        (["spark-export", "--filter", "regex"], "write NAME:EXPRESSION"),
        (["spark-export", "--dry-run", "--filter", "tag:A", "--tag", "B"], "excludes tag and sql"),
        (["spark-export", "--dry-run", "--filter", "tag:A", "--on-error", "panic"], "skip, deliver, stop"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_usage_errors_are_one_line_and_exit_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.startswith("pymq: ")
    assert captured.err.count("\n") == 1


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["topic"]) == EXIT_USAGE
    assert "describe" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "list"],
        ["group", "lag"],
        ["tail", "--no-follow"],
        ["send", "t", "b"],
        ["bench", "consume"],
        ["message", "get", "7F000001259782E45A2174B1F1DB0001", "--topic", "t"],
    ],
    ids=" ".join,
)
def test_no_server_exits_4(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*arguments, "--namesrv", "127.0.0.1:1"]) == EXIT_UNREACHABLE
    captured = capsys.readouterr()
    assert captured.err.startswith("pymq: ")
    assert "127.0.0.1:1" in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFoundError("gone"), EXIT_NOT_FOUND),
        (UnreachableError("away"), EXIT_UNREACHABLE),
        (RefusedError(16, "no", "h:1"), EXIT_REFUSED),
        (OSError(28, "No space left on device", "f"), EXIT_FAILED),
        (ValueError("two\nlines"), EXIT_FAILED),
        (KeyboardInterrupt(), cli.EXIT_INTERRUPTED),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_kind_of_error_has_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: list[str]) -> None:
        raise error

    monkeypatch.setattr(cli, "_invoke", fail)
    assert cli.run([]) == code
    assert capsys.readouterr().err.count("\n") == (0 if code == cli.EXIT_INTERRUPTED else 1)


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYMQ_DEBUG", "1")
    with pytest.raises(UnreachableError):
        cli.run(["topic", "list", "--namesrv", "127.0.0.1:1"])


def test_an_error_that_has_no_text_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """PySpark asks its JVM for the text, and the JVM may have ended."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise AssertionError

    def fail(arguments: list[str]) -> None:
        raise Mute

    monkeypatch.setattr(cli, "_invoke", fail)
    monkeypatch.delenv("PYMQ_DEBUG", raising=False)
    assert cli.run(["x"]) == EXIT_FAILED
    expected = "pymq: internal error: Mute: without a text (AssertionError) (PYMQ_DEBUG=1 shows where)\n"
    assert capsys.readouterr().err == expected
