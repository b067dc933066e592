"""``pymq broker drain``: takes the write permission of a broker away and waits until nothing is written any more."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import ApplyOption, OutputOption
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import (
    Column,
    OutputFormat,
    is_styled,
    print_data,
    print_line,
    print_note,
    print_section,
    print_table,
)

if TYPE_CHECKING:
    from pymq.client.admin import Admin
    from pymq.operations.broker.drain import State

app = new_app()

SERVER_COLUMNS = [
    Column("address", "NAME SERVER"),
    Column("topics", right=True),
    Column("writable", right=True),
    Column("problem"),
]
GROUP_COLUMNS = [Column("group"), Column("unread", right=True, show=lambda value: f"{value:,}")]

BrokerArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The broker's name, or a machine's.", autocompletion=live("broker"))
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show the plan, also with --yes.")]


@app.command(
    epilog=examples(
        "pymq broker drain broker-a",
        "pymq broker drain broker-a --yes",
        "pymq broker drain broker-a --yes --until-read",
    )
)
def drain(
    session: Session,
    name: BrokerArgument,
    until_read: Annotated[
        bool, typer.Option("--until-read", help="Wait also until every group has read the broker's messages.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="End when the permission is gone.")] = False,
    settle_s: Annotated[
        float | None,
        typer.Option(
            "--settle",
            metavar="SECONDS",
            min=0,
            help="Nothing may be written for so long; default 35: producers ask for routes every 30 s.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also when a topic can be written on no other broker then.")
    ] = False,
    yes: ApplyOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Take a broker out of service for producers.

    Every name server takes the broker's write permission out of routes, so that producers go to other brokers at their
    next look-up. Then the command waits until nothing is written any more, and shows what consumers have still to read.
    Stopped in between, it goes on where it was when called again; pymq broker undrain takes everything back.

    Exit code 5: a topic would be written nowhere, and --force is missing. Exit code 6: not every name server did it.
    """
    from pymq.operations.broker import drain as work
    from pymq.operations.broker.machine_drain import draining_of

    async def run(admin: Admin) -> tuple[State, bool]:
        run = await draining_of(admin, name, settle_s=work.SETTLE_S if settle_s is None else settle_s)
        state = await run.look()
        if dry_run or not yes:
            return state, False
        work.check(state, is_forced=force)
        return await run.drain(_shower(), is_waited=not no_wait, until_read=until_read), True

    state, is_done = session.ask(run)
    record = work.record(state) | {"applied": is_done}
    if print_data(record, output):
        return
    if is_done:
        left = "" if record["groups"] else ": it can be stopped"
        print_line(f"{name} is not writable in routes" if no_wait else f"producers have left {name}{left}")
        _print_unread(record)
    else:
        print_plan(record)
        if record["only_here"]:
            print_note(f"\n{work.only_here_text(state)}: --force drains the broker all the same")
        print_note("\nnothing is changed: --yes applies this plan")


def print_plan(record: dict[str, Any]) -> None:
    """Print how the name servers show a broker, and what its groups have to read."""
    where = record["address"] or "no master"
    print_line(
        f"broker {record['broker']} of cluster {record['cluster']}, {where}; its topics with write permission:\n"
    )
    print_table(record["servers"], SERVER_COLUMNS)
    _print_unread(record)


def _print_unread(record: dict[str, Any]) -> None:
    if record["problem"]:
        print_note(f"\nwhat groups have to read is not known: {record['problem']}")
        return
    print_section("Messages to read", record["groups"], GROUP_COLUMNS, "every group has read everything")


def _shower() -> Any:
    """Return a function that shows what a drain waits for: one line that changes on a terminal, else a line each."""
    if not (sys.stderr.isatty() and is_styled()):
        return print_note
    from rich.console import Console

    status = Console(stderr=True).status("")

    def show(text: str) -> None:
        status.start()
        status.update(text)

    return show
