"""Every command, found by walking the tree of Typer's commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from pymq.cli.main import app


def leaves() -> Iterator[tuple[str, Any]]:
    """Yield every command that does something, with its path: "topic list". Servers also have commands below."""
    yield from _below(get_command(app), "")


def _below(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    names = command.list_commands(typer.Context(command, info_name="pymq")) if hasattr(command, "commands") else []
    if not names or (path and command.invoke_without_command):
        yield path, command
    for name in names:
        below = command.get_command(typer.Context(command, info_name=f"pymq {path}".strip()), name)
        yield from _below(below, f"{path} {name}".strip())


ALL_COMMANDS = [path.split(" ") for path, _ in leaves()]
