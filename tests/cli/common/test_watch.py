"""--watch: turn after turn until Ctrl-C."""

from __future__ import annotations

import io

import pytest
import typer

from pymq.cli.common.watch import watch
from pymq.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE, UnreachableError
from tests.cli.command_tree import leaves
from tests.cli.conftest import Pymq


class Sleeps:
    """Ends a watch after some turns, as Ctrl-C does."""

    def __init__(self, turn_count: int) -> None:
        self.left = turn_count

    def __call__(self, duration_s: float) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def test_a_pipe_gets_a_block_a_turn(capsys: pytest.CaptureFixture[str]) -> None:
    assert watch(lambda: print("turn"), "pymq x", 1, sleep=Sleeps(3)) == 0
    assert capsys.readouterr().out == "turn\n\nturn\n\nturn\n"


def test_a_terminal_is_drawn_over(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr("sys.stdout", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("COLUMNS", "80")
    assert watch(lambda: print("\n".join(map(str, range(30)))), "pymq x", 2, sleep=Sleeps(2)) == 0
    first, second = shown.getvalue().split("\033[H")[1:]
    assert first.splitlines()[0].startswith("every 2 s: pymq x")
    assert len(first.splitlines()) == 10 and "… 23 more lines" in first
    assert second.endswith("\033[J")
    monkeypatch.setenv("TERM", "dumb")
    shown.truncate(0)
    watch(lambda: print("turn"), "pymq x", 2, sleep=Sleeps(2))
    assert "\033" not in shown.getvalue()


def test_only_an_error_of_the_first_turn_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    turns = iter([None, UnreachableError("away"), None])

    def turn() -> None:
        error = next(turns)
        if error is not None:
            raise error
        print("here")
        raise typer.Exit(1)  # as a check does

    assert watch(turn, "pymq x", 1, sleep=Sleeps(3)) == 0
    captured = capsys.readouterr()
    assert captured.out.split() == ["here", "here"] and captured.err == "pymq: away\n"
    with pytest.raises(UnreachableError):
        watch(lambda: (_ for _ in ()).throw(UnreachableError("away")), "pymq x", 1)


def test_listing_commands_watch(pymq: Pymq, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps = Sleeps(2)
    monkeypatch.setattr("pymq.cli.common.watch.watch.__kwdefaults__", {"sleep": sleeps})
    watched = pymq("cluster", "list", "-o", "jsonl", "--watch", "1")
    assert watched.code == EXIT_OK
    blocks = watched.out.split("\n\n")
    assert len(blocks) == 2 and all('"broker": "broker-a"' in block for block in blocks)
    assert pymq("cluster", "list", "--watch", "0").code == EXIT_USAGE
    assert pymq("cluster", "list", "--namesrv", "127.0.0.1:1", "--watch", "1").code == EXIT_UNREACHABLE


def test_only_commands_that_look_are_watched() -> None:
    options = {path: {flag for one in command.params for flag in one.opts} for path, command in leaves()}
    watched = {path for path, flags in options.items() if "--watch" in flags}
    assert {"topic list", "group members", "cluster shards"} <= watched
    assert [path for path in watched if options[path] & {"--yes", "--dry-run"}] == []
