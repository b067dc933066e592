"""``pymq offset``: show, reset, copy, skip."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import ApplyOption, DryRunOption, OutputOption
from pymq.cli.common.session import Session, end_partial
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_listing, print_note, print_table
from pymq.errors import EXIT_FAILED, UsageError
from pymq.operations.queues import parse_queue_choice

if TYPE_CHECKING:
    from pymq.client.admin import Admin
    from pymq.operations.offsets import Plan

app = new_app("Show where consumer groups are, and move them.")

GroupArgument = Annotated[
    str, typer.Argument(metavar="GROUP", help="The consumer group.", autocompletion=live("group"))
]
TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="NAME",
        help="Only this topic (repeatable); default: all that the group reads.",
        autocompletion=live("topic"),
    ),
]
BrokerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--broker", metavar="NAME", help="Only queues of this broker (repeatable).", autocompletion=live("broker")
    ),
]
QueueOption = Annotated[
    list[str] | None,
    typer.Option("--queue", metavar="[BROKER:]ID", help="Only this queue, of each broker or of one (repeatable)."),
]

_QUEUE_COLUMNS = [Column("topic"), Column("broker"), Column("queue", right=True), Column("first_offset", right=True)]
PLACE_COLUMNS = [*_QUEUE_COLUMNS, Column("committed", right=True), Column("end_offset", right=True)]
PLAN_COLUMNS = [
    *_QUEUE_COLUMNS,
    Column("end_offset", right=True),
    Column("before", right=True),
    Column("after", right=True),
    Column("moves_by", right=True, show=lambda moves: "-" if moves is None else f"{moves:+d}" if moves else "0"),
]
RESULT_COLUMNS = [*PLAN_COLUMNS, Column("now", right=True), Column("problem")]


@app.command(
    epilog=examples("pymq offset show billing", "pymq offset show billing --topic orders -o json"), watched=True
)
def show(
    session: Session,
    group: GroupArgument,
    topics: TopicOption = None,
    brokers: BrokerOption = None,
    queues: QueueOption = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show a group's committed offset in each queue, between the first and the end offset."""
    from pymq.operations import offsets as work

    selection = work.Selection(group, topics or [], brokers or [], [parse_queue_choice(text) for text in queues or ()])
    records, unreached = session.ask_reachable(lambda admin: work.show(admin, selection))
    print_listing(records, PLACE_COLUMNS, output)
    end_partial(_chosen(unreached, brokers))


@app.command(
    epilog=examples(
        "pymq offset reset billing --to start",
        "pymq offset reset billing --to -15m --topic orders --yes",
        "pymq offset reset billing --to 1000 --topic orders --queue 3 --yes",
    )
)
def reset(
    session: Session,
    group: GroupArgument,
    to: Annotated[str, typer.Option("--to", metavar="WHERE", help="start, end, an offset, -15m or 2026-01-31T12:00.")],
    topics: TopicOption = None,
    brokers: BrokerOption = None,
    queues: QueueOption = None,
    yes: ApplyOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Move a group forwards or backwards: to the start, the end, an offset or a time.

    The group may be online, offline or new. Without --yes this shows the plan and changes nothing.
    """
    from pymq.operations import offsets as work
    from pymq.operations.start import parse_start

    try:
        start = parse_start(to, time.time_ns() // 1_000_000)
    except UsageError:
        raise UsageError(f"--to {to!r}: write start, end, an offset, -15m or 2026-01-31T12:00") from None
    selection = work.Selection(group, topics or [], brokers or [], [parse_queue_choice(text) for text in queues or ()])
    _run(
        session, lambda admin: work.plan_reset(admin, selection, start), brokers, yes=yes and not dry_run, output=output
    )


@app.command(
    epilog=examples("pymq offset copy billing billing-v2", "pymq offset copy billing billing-v2 --topic orders --yes")
)
def copy(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The group whose place to take.")],
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group to move.", autocompletion=live("group"))],
    topics: TopicOption = None,
    brokers: BrokerOption = None,
    queues: QueueOption = None,
    yes: ApplyOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Move a group to where another group is.

    Without --yes this shows the plan and changes nothing.
    """
    from pymq.operations import offsets as work

    selection = work.Selection(group, topics or [], brokers or [], [parse_queue_choice(text) for text in queues or ()])
    _run(
        session, lambda admin: work.plan_copy(admin, source, selection), brokers, yes=yes and not dry_run, output=output
    )


@app.command(
    epilog=examples("pymq offset skip billing", "pymq offset skip billing --topic orders --queue 2 --count 1 --yes")
)
def skip(
    session: Session,
    group: GroupArgument,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", min=1, help="Skip N messages of each queue; default: all.")
    ] = None,
    topics: TopicOption = None,
    brokers: BrokerOption = None,
    queues: QueueOption = None,
    yes: ApplyOption = False,
    dry_run: DryRunOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Skip messages that a group has not consumed: N of each queue, or all.

    Without --yes this shows the plan and changes nothing.
    """
    from pymq.operations import offsets as work

    selection = work.Selection(group, topics or [], brokers or [], [parse_queue_choice(text) for text in queues or ()])
    _run(
        session, lambda admin: work.plan_skip(admin, selection, count), brokers, yes=yes and not dry_run, output=output
    )


def _run(
    session: Session,
    make_plan: Callable[[Admin], Awaitable[Plan]],
    brokers: list[str] | None,
    *,
    yes: bool,
    output: OutputFormat,
) -> None:
    """Make a plan, apply it with ``yes``, and print it. Exits with 1 when a queue was not moved.

    On a half-dead cluster the queues of reachable brokers are moved; the others are named, and it exits with 6.
    """
    from pymq.operations import offsets as work

    async def run(admin: Admin) -> dict[str, Any]:
        plan = await make_plan(admin)
        return await work.apply(admin, plan) if yes else plan.record()

    record, unreached = session.ask_reachable(run)
    if not print_data(record, output):
        _print(record)
    if any(entry.get("problem") for entry in record["queues"]):
        raise typer.Exit(EXIT_FAILED)
    end_partial(_chosen(unreached, brokers), is_change=True)


def _chosen(unreached: Mapping[str, str], brokers: list[str] | None) -> dict[str, str]:
    """Return the unreached brokers that the command is about."""
    return {broker: reason for broker, reason in unreached.items() if not brokers or broker in brokers}


def _print(record: dict[str, Any]) -> None:
    print_table(record["queues"], RESULT_COLUMNS if record["applied"] else PLAN_COLUMNS)
    if record["creates_group_on"]:
        made = "was created" if record["applied"] else "is created"
        print_note(f"group {record['group']} {made} on {', '.join(record['creates_group_on'])}")
    if record["members_online"]:
        print_note(f"{record['members_online']} members are online: they go on at the new offsets")
    for note in record["notes"]:
        print_note(note)
    if not record["applied"]:
        print_note("nothing was changed: --yes applies this plan")
