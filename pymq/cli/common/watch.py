"""``--watch``: runs a listing every N seconds; redraws it on a terminal, and prints block after block on a pipe."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

import typer

INTERVAL_MIN_S, INTERVAL_MAX_S = 0.1, 86_400.0
Turn = Callable[[], Any]

_HOME, _CLEAR, _CLEAR_LINE, _CLEAR_BELOW = "\033[H", "\033[2J", "\033[K", "\033[J"


class Screen(io.StringIO):
    """Collects what a turn prints, as if it were the terminal: tables take its width."""

    def isatty(self) -> bool:
        return True


def watch(turn: Turn, title: str, interval_s: float, *, sleep: Callable[[float], None] = time.sleep) -> int:
    """Call ``turn`` every ``interval_s`` seconds until Ctrl-C, which is how a watch ends; return 0.

    An error of the first turn is raised. Later a cluster may be away for a while: its error takes the turn's place.
    """
    from pymq.errors import PymqError

    draws = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    number = 0
    try:
        while True:
            try:
                _drawn(turn, title, interval_s, is_first=not number) if draws else _block(turn, is_first=not number)
            except PymqError as error:
                if not number:
                    raise
                _show_error(error)
            number += 1
            sleep(interval_s)
    except KeyboardInterrupt:
        return 0


def _run(turn: Turn) -> None:
    """Run a turn; an exit code of its own, such as that of a check, does not end the watch."""
    with contextlib.suppress(typer.Exit):
        turn()


def _block(turn: Turn, *, is_first: bool) -> None:
    if not is_first:
        sys.stdout.write("\n")
    _run(turn)
    sys.stdout.flush()


def _drawn(turn: Turn, title: str, interval_s: float, *, is_first: bool) -> None:
    """Draw over the last turn, so that nothing flickers. What has no room is left out, with a line that says so."""
    screen = Screen()
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
        _run(turn)
    lines = [f"every {interval_s:g} s: {title}   {time.strftime('%H:%M:%S')}", *screen.getvalue().splitlines()]
    room = shutil.get_terminal_size().lines - 1
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more lines"]
    text = "".join(f"{line}{_CLEAR_LINE}\n" for line in lines)
    sys.stdout.write(f"{_CLEAR if is_first else ''}{_HOME}{text}{_CLEAR_BELOW}")
    sys.stdout.flush()


def _show_error(error: Exception) -> None:
    from pymq.cli.output import print_note

    print_note(f"pymq: {' '.join(str(error).split())}")
