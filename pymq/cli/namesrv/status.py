"""``pymq namesrv status``: every name server of a cluster, and where their views differ."""

from __future__ import annotations

import typer

from pymq.cli.common.options import OutputOption
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_line, print_table
from pymq.errors import EXIT_PARTIAL, EXIT_UNREACHABLE

app = new_app()

COLUMNS = [
    Column("address", "NAME SERVER"),
    Column("answers"),
    Column("brokers", right=True),
    Column("topics", right=True),
]


@app.command(
    epilog=examples("pymq namesrv status", "pymq namesrv status --namesrv 'ns-1:9876;ns-2:9876' -o json"), watched=True
)
def status(session: Session, output: OutputOption = OutputFormat.table) -> None:
    """Show every name server with what it knows, and what it lacks that another one knows.

    Name servers share nothing: after a start or a lost connection their views differ for up to 30 s. Exit code 6: not
    every one answers; 4: none does.
    """
    from pymq.operations import namesrv as work

    records = session.ask(work.views)
    if not print_data(records, output):
        print_table(records, COLUMNS)
        for record in records:
            for problem in record["problems"]:
                print_line(f"\n{record['address']}: {problem}")
    if not all(record["answers"] for record in records):
        is_any = any(record["answers"] for record in records)
        raise typer.Exit(EXIT_PARTIAL if is_any else EXIT_UNREACHABLE)
