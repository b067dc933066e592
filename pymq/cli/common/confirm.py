"""The question that a command asks before something is lost."""

from __future__ import annotations

import sys

import typer

from pymq.cli.output import print_note
from pymq.errors import EXIT_FAILED, UsageError

NO_TERMINAL = "stdin is not a terminal, so no question can be asked: give --yes"


def confirm(question: str, *, unasked: str = NO_TERMINAL, on_no: str = "") -> None:
    """Ask ``question`` on the terminal, and end the command on a no, with the note ``on_no`` or typer's own.

    Raises UsageError with the text ``unasked`` where there is no terminal to ask at.
    """
    if not sys.stdin.isatty():
        raise UsageError(unasked)
    if not typer.confirm(question, abort=not on_no, err=True):
        print_note(on_no)
        raise typer.Exit(EXIT_FAILED)
