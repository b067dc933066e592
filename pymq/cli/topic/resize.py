"""``pymq topic shrink`` and ``pymq topic expand``: another number of queues, without losing messages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import DryRunOption, OutputOption
from pymq.cli.common.session import Session
from pymq.cli.output import Column, OutputFormat, print_data, print_line, print_listing, print_note, print_section
from pymq.units import format_count

if TYPE_CHECKING:
    from pymq.client.admin import Admin
    from pymq.client.admin.draining import Draining

TopicArgument = Annotated[str, typer.Argument(metavar="NAME", help="The topic.", autocompletion=live("topic"))]
ToOption = Annotated[
    int, typer.Option("--to", metavar="N", min=1, max=65535, help="The new number of queues on each broker.")
]
BrokerOption = Annotated[
    list[str] | None,
    typer.Option(
        "-b",
        "--broker",
        metavar="NAME|HOST:PORT",
        help="Only on this broker; repeatable.",
        autocompletion=live("broker"),
    ),
]
BROKER_COLUMNS = [
    Column("broker"),
    Column("read_queues", "READ QUEUES", right=True),
    Column("write_queues", "WRITE QUEUES", right=True),
    Column("next", "NEXT STEP"),
]
GROUP_COLUMNS = [
    Column("group"),
    Column("mode"),
    Column("unread", right=True, show=lambda value: "unknown" if value is None else f"{value:,}"),
    Column("waits", "WAITED FOR"),
]


def shrink(
    session: Session,
    name: TopicArgument,
    to: ToOption,
    brokers: BrokerOption = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without", metavar="GROUP", help="Don't wait for this group; repeatable.", autocompletion=live("group")
        ),
    ] = None,
    settle_s: Annotated[
        float | None,
        typer.Option(
            "--settle",
            metavar="SECONDS",
            min=0,
            help="Upper queues must stay without a new message for so long; default 35: producers ask for routes every "
            "30 s.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Don't wait: hide what is not read.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Apply the plan; without it, only show it.")] = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Give a topic fewer queues without loss.

    First no more messages go to the upper queues. Then the command waits until every group has read them, and shows
    what is left. Then consumers stop reading them. Stopped in between, it goes on where it was when called again.

    Groups that broadcast are left out: only their members know their offsets.
    """
    from pymq.operations.topic import resizing as work

    skipped = without or []

    async def run(admin: Admin) -> tuple[Draining, bool]:
        wait_s = work.SETTLE_S if settle_s is None else settle_s
        shrinking = work.Shrinking(admin, name, to, brokers or [], without=skipped, settle_s=wait_s)
        state = await shrinking.check()
        if dry_run or not yes:
            return state, False
        return await shrinking.run(_shower(skipped), is_forced=force), True

    state, is_done = session.ask(run)
    record = work.plan_record(state, skipped) | {"applied": is_done}
    if print_data(record, output):
        return
    if is_done:
        print_line(
            f"{name} has {format_count(to, 'queue')} on {', '.join(entry['broker'] for entry in record['brokers'])}"
        )
        return
    _print_plan(record)
    print_note("\nnothing is changed: --yes applies this plan" + (", without waiting" if force else ""))


def _print_plan(record: dict[str, Any]) -> None:
    print_listing(record["brokers"], BROKER_COLUMNS, OutputFormat.table)
    title = f"Messages in queues {record['to']} and above: {record['messages']:,}"
    print_section(title, record["groups"], GROUP_COLUMNS, "no group reads the topic")


def _shower(without: list[str]) -> Any:
    """Return a function that shows what a shrink waits for: one line that changes on a terminal, else a line each."""
    from pymq.operations.topic import resizing as work

    if not sys.stderr.isatty():
        return lambda state: print_note(work.waiting_text(state, without))
    from rich.console import Console

    status = Console(stderr=True).status("")

    def show(state: Draining) -> None:
        status.start()
        status.update(work.waiting_text(state, without))

    return show


def expand(
    session: Session,
    name: TopicArgument,
    to: ToOption,
    brokers: BrokerOption = None,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Give a topic more queues: each is read before it is written.

    With more queues, keys go to other queues than before: an ordered topic loses its order at that moment.
    """
    from pymq.operations.topic import resizing as work

    records = session.ask(lambda admin: work.expand(admin, name, to, brokers or [], is_dry=dry_run))
    columns = [Column("broker"), Column("address"), *BROKER_COLUMNS[1:3], Column("before")]
    print_listing(records, columns, output)
    if dry_run:
        print_note("nothing was changed: this is a dry run")
