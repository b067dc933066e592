"""A command asks before something is lost: a yes goes on, a no ends it, and without a terminal it says what to give."""

from __future__ import annotations

import inspect
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from pymq.cli.common.confirm import NO_TERMINAL, confirm
from pymq.errors import EXIT_FAILED, UsageError


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is typed on the terminal."""
    typed: list[str] = []
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(inspect.getmodule(typer.confirm), "visible_prompt_func", lambda prompt: typed.pop(0))
    return typed


def test_a_yes_goes_on(answer: list[str]) -> None:
    answer.append("y")
    confirm("Delete it?")
    assert not answer


def test_a_no_ends_the_command(answer: list[str], capsys: Any) -> None:
    answer += ["n", "n"]
    with pytest.raises(typer.Abort):
        confirm("Delete it?")
    with pytest.raises(typer.Exit) as ended:
        confirm("Delete it?", on_no="nothing is deleted")
    assert ended.value.exit_code == EXIT_FAILED
    assert "nothing is deleted" in capsys.readouterr().err


def test_without_a_terminal_it_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    with pytest.raises(UsageError, match=NO_TERMINAL):
        confirm("Delete it?")
    with pytest.raises(UsageError, match="it deletes: give --yes"):
        confirm("Delete it?", unasked="it deletes: give --yes")
