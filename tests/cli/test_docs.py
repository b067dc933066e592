"""docs/cli.md names every command and every exit code."""

from __future__ import annotations

from pathlib import Path

from pymq import errors
from pymq.cli import main as cli

from .test_main import ALL_COMMANDS

TEXT = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()


def test_every_command_is_documented() -> None:
    for path in ALL_COMMANDS:
        assert f"`pymq {path[0]}" in TEXT
        assert f"`{path[-1]}`" in TEXT or f"{path[-1]}`" in TEXT, path


def test_every_exit_code_is_documented() -> None:
    codes = [value for name, value in vars(errors).items() if name.startswith("EXIT_")]
    for code in [*codes, cli.EXIT_INTERRUPTED]:
        assert f"\n| {code} |" in TEXT
