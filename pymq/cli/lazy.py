"""A command group that imports a command's module only when the command is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar

from typer.core import TyperGroup
from typer.main import get_command

CommandTable = Mapping[str, tuple[str, str]]


class LazyGroup(TyperGroup):
    """A Typer group with a table ``name -> (module, one line of help)``; each module has an ``app``.

    ``headings``: the same entries by the heading that they have in the help; none for one list.
    """

    table: ClassVar[CommandTable] = {}
    headings: ClassVar[Mapping[str, CommandTable]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.table:
            return None
        command = get_command(import_module(self.table[cmd_name][0]).app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.table and not name.startswith("-"):
            close = get_close_matches(name, self.table, n=1)
            hint = f"did you mean {close[0]}?" if close else f"{ctx.command_path} --help lists them"
            ctx.fail(f"no command {name!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the lines of the table, so that help for the group imports no command."""
        if not self.table:
            return
        width = max(map(len, self.table))
        for heading, table in (self.headings or {"Commands": self.table}).items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in table.items()])

    def invoke(self, ctx: Any) -> Any:
        """Run the command; end it without an error when a reader closes the output early (``| head``)."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            # The interpreter flushes stdout once more at exit, which must not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
