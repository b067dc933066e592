"""``pymq top``: the command."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import OutputOption
from pymq.cli.common.session import Session, until_done_or_stopped
from pymq.cli.declared import examples, new_app
from pymq.cli.output import OutputFormat, print_data, print_json_line
from pymq.errors import UsageError

if TYPE_CHECKING:
    from pymq.cli.top.screen import Choice, View
    from pymq.client.admin import Admin

app = new_app()
VIEWS = ("cluster", "topics", "groups")
INTERVAL_DEFAULT_S = 2.0
PIPE_WIDTH = 120


@app.command(
    epilog=examples(
        "pymq top",
        "pymq top --view groups --sort lag",
        "pymq top --broker broker-a",
        "pymq top --once                    (one block of all views, for a pipe)",
        "pymq top --batch 10 -d 5 -o json   (a JSON line every five seconds)",
    )
)
def top(
    session: Session,
    view: Annotated[
        str | None, typer.Option("--view", metavar="|".join(VIEWS), help="What to show; plain blocks show all.")
    ] = None,
    interval: Annotated[
        float, typer.Option("--interval", "-d", metavar="SECONDS", min=0.1, help="Time between two samples.")
    ] = INTERVAL_DEFAULT_S,
    sort: Annotated[str | None, typer.Option("--sort", metavar="COLUMN", help="Column to sort by.")] = None,
    contains: Annotated[
        str, typer.Option("--find", metavar="TEXT", help="Only brokers, topics or groups with TEXT in their name.")
    ] = "",
    broker: Annotated[
        str | None,
        typer.Option(
            "--broker",
            "-b",
            metavar="NAME",
            help="Only this broker, or all workers of this machine.",
            autocompletion=live("broker"),
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="System topics, too.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Print one plain block; the same as --batch 1.")] = False,
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="N", min=1, help="Print N plain blocks instead of a screen.")
    ] = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show brokers, topics and groups with their rates, live.

    Keys: 1, 2, 3 or tab switch views; s and S choose the column to sort by, r reverses; / finds names; a shows system
    topics; + and - change the interval; p pauses; arrows scroll; q quits. Without a terminal, and with TERM=dumb, it
    prints plain blocks until it is stopped. Rates are differences of what brokers count, so they need two samples.
    Several workers of a machine stand under a row with their sums.
    """
    from pymq.clock import SystemClock

    if view is not None and view not in VIEWS:
        raise UsageError(f"no view {view!r}: there are {', '.join(VIEWS)}")
    choices = _choices(view, sort, contains, everything)
    count = 1 if once else batch
    is_plain = count is not None or output is not OutputFormat.table or not _has_screen()
    clock = SystemClock()

    async def work(admin: Admin) -> None:
        from pymq.operations.top.sample import Sampler

        sampler = Sampler(admin, clock, broker=broker)
        if is_plain:
            from pymq.cli.top.plain import print_blocks

            width = shutil.get_terminal_size((PIPE_WIDTH, 0)).columns if sys.stdout.isatty() else PIPE_WIDTH
            show = None if output is OutputFormat.table else lambda frame: _print_frame(frame, output)
            blocks = print_blocks(sampler, choices, clock, interval, count, width=width, sparks=_sparks(), as_json=show)
            await until_done_or_stopped(blocks)
            return
        from rich.console import Console

        from pymq.cli.top.live import Screen, watch

        screen = Screen(choices[0], interval, lambda: clock.local_time().strftime("%H:%M:%S"))
        await until_done_or_stopped(watch(sampler, screen, Console(), sparks=_sparks()))

    session.ask(work)


def _choices(view: str | None, sort: str | None, contains: str, everything: bool) -> list[Choice]:
    """Return a choice for each view that plain blocks show; the live view begins with the first."""
    from pymq.cli.top.screen import Choice, View, sort_keys

    wanted: list[View] = list(View) if view is None else [View(view)]
    known = {key for one in wanted for key in sort_keys(one)}
    if sort is not None and sort not in known:
        raise UsageError(f"no column {sort!r} to sort by: there are {', '.join(sorted(known))}")
    return [Choice(one, sort, contains=contains, everything=everything) for one in wanted]


def _has_screen() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def _sparks() -> str:
    """Return the signs of spark lines that stdout can show."""
    from pymq.cli.top.screen import ASCII_SPARKS, SPARKS

    try:
        SPARKS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII_SPARKS
    return SPARKS


def _print_frame(frame: Any, output: OutputFormat) -> None:
    """Print a frame for programs: as JSON on one line, so that a stream of frames stays readable."""
    if output is OutputFormat.json:
        print_json_line(frame)
        return
    print_data(frame, output)
    sys.stdout.flush()
