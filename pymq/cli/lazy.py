"""A command group that imports a command's module only when the command is called, and helpers for such modules."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from pymq.cli.options import DEFAULT_TIMEOUT_S, TIMEOUT_MAX_S, TIMEOUT_MIN_S, request_timeout_s
from pymq.errors import UsageError

CommandTable = Mapping[str, tuple[str, str]]

# Commands that take --namesrv and don't work through the admin client of pymq.cli.session.
_WITHOUT_ADMIN = frozenset({"bench", "broker", "filter", "filter-server", "send", "spark-export", "standalone", "tail"})


class LazyGroup(TyperGroup):
    """A Typer group with a table ``name -> (module, one line of help)``; each module has an ``app``."""

    table: ClassVar[CommandTable] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.table:
            return None
        command = get_command(import_module(self.table[cmd_name][0]).app)
        command.name = cmd_name
        _offer_json(command)
        if cmd_name not in _WITHOUT_ADMIN:
            _offer_timeout(command)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if name not in self.table and not name.startswith("-"):
            close = get_close_matches(name, self.table, n=1)
            hint = f"did you mean {close[0]}?" if close else f"{ctx.command_path} --help lists them"
            ctx.fail(f"no command {name!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the lines of the table, so that help for the group imports no command."""
        if not self.table:
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; ends it without an error when a reader closes the output early (``| head``)."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            # The interpreter flushes stdout once more at exit, which must not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0


def new_app(help_text: str | None = None) -> typer.Typer:
    """Returns an app with plain text help: otherwise Typer imports rich for every ``--help``."""
    return typer.Typer(help=help_text, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


def examples(*lines: str) -> str:
    r"""Returns a command's epilog with its examples; the ``\b`` mark keeps their line breaks."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def _offer_json(command: Any) -> None:
    """Adds ``--json`` to every command with ``-o json``, so that both forms work everywhere."""
    for below in getattr(command, "commands", {}).values():
        _offer_json(below)
    for at, option in enumerate(command.params):
        formats = getattr(option.type, "choices", ()) or (option.metavar or "").split("|")
        if option.name == "output" and "json" in formats:
            flag = TyperOption(
                param_decls=["--json"],
                is_flag=True,
                is_eager=True,  # parsed before -o, which wins when both are given
                expose_value=False,
                callback=_print_json_by_default,
                help="The same as -o json.",
            )
            command.params.insert(at + 1, flag)
            return


def _print_json_by_default(ctx: Any, param: Any, wanted: bool) -> None:
    if wanted:
        ctx.default_map = {**(ctx.default_map or {}), "output": "json"}


def _offer_timeout(command: Any) -> None:
    """Adds ``--timeout`` to every command with ``--namesrv`` that has no such option of its own."""
    for below in getattr(command, "commands", {}).values():
        _offer_timeout(below)
    names = [name for option in command.params for name in option.opts]
    if "--namesrv" in names and "--timeout" not in names:
        flag = TyperOption(
            param_decls=["--timeout"],
            type=float,
            metavar="SECONDS",
            expose_value=False,
            callback=_set_timeout,
            help=f"How long each request may take; default: {DEFAULT_TIMEOUT_S:g}.",
        )
        command.params.append(flag)


def _set_timeout(ctx: Any, param: Any, value: float | None) -> None:
    timeout_s = DEFAULT_TIMEOUT_S if value is None else value
    if not TIMEOUT_MIN_S <= timeout_s <= TIMEOUT_MAX_S:
        raise UsageError(
            f"--timeout {timeout_s:g} is out of range: write {TIMEOUT_MIN_S:g} to {TIMEOUT_MAX_S:g} seconds"
        )
    request_timeout_s.set(timeout_s)
