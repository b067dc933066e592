"""``pymq broker promote``: makes a slave the master of its group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.cells import shown_bytes, shown_count
from pymq.cli.common.confirm import confirm
from pymq.cli.common.live import live
from pymq.cli.common.options import ConfirmOption, OutputOption
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_line, print_note, print_section

if TYPE_CHECKING:
    from pymq.client.admin import Admin

app = new_app()

MEMBER_COLUMNS = [
    Column("broker_id", "ID", right=True, show=shown_count),
    Column("address"),
    Column("role"),
    Column("log_end", "LOG ENDS AT", right=True, show=shown_count),
    Column("lag_bytes", "LACKS", right=True, show=shown_bytes),
    Column("lag_messages", "MESSAGES", right=True, show=shown_count),
    Column("epoch", right=True),
    Column("becomes"),
    Column("problem"),
]


@app.command(
    epilog=examples(
        "pymq broker promote broker-a",
        "pymq broker promote 127.0.0.1:10921 --yes",
        "pymq broker promote broker-a --dry-run",
        "pymq broker promote broker-a --yes --force --json",
    )
)
def promote(
    session: Session,
    broker: Annotated[
        str,
        typer.Argument(
            metavar="NAME|HOST:PORT", help="The group, or the slave to make its master.", autocompletion=live("broker")
        ),
    ],
    yes: ConfirmOption = False,
    force: Annotated[bool, typer.Option("--force", help="Promote even if messages may be lost.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    timeout_s: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=1, max=50, help="Longest time for the slave to catch up."),
    ] = 20.0,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Make a slave the master of its group.

    A running master refuses writes meanwhile and becomes a slave: nothing is lost. Without a running master, everything
    the slave lacks is lost, which needs --force. Exit code 5: impossible, or it could lose messages; 4: no broker
    answers.
    """
    from pymq.clock import SystemClock
    from pymq.operations.broker import promotion as work

    for_people = output is OutputFormat.table

    async def run(admin: Admin) -> dict[str, Any]:
        plan = await work.make_plan(admin, broker)
        record = work.plan_record(plan)
        if for_people:
            _show(record)
        elif dry_run:
            print_data(record, output)
        plan.check(force=force)
        if dry_run:
            return record
        if not yes:
            confirm(f"Make {plan.target.address} the master?")
        tell = print_note if for_people else (lambda text: None)
        return record | await work.carry_out(admin, plan, SystemClock(), force=force, timeout_s=timeout_s, tell=tell)

    done = session.ask(run)
    if dry_run:
        return
    if print_data(done, output):
        return
    for note in done["notes"]:
        print_note(f"pymq: warning: {note}")
    print_line(
        f"{done['target']} is the master of {done['broker']} with epoch {done['epoch']}, from offset {done['start']} on"
    )


def _show(record: dict[str, Any]) -> None:
    print_line(f"group {record['broker']}")
    print_section("members", record["members"], MEMBER_COLUMNS, "none")
    print_line("\nplan")
    for number, step in enumerate(record["steps"], start=1):
        print_line(f"  {number}. {step}")
    for risk in record["risks"]:
        print_line(f"  risk: {risk}")
    for obstacle in record["obstacles"]:
        print_line(f"  obstacle: {obstacle}")
    if not record["risks"] and not record["obstacles"]:
        print_line("  nothing is lost")
    print_line()
