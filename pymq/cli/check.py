"""``pymq check``: replica."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.broker_status import shown_bytes
from pymq.cli.lazy import examples, new_app
from pymq.cli.options import DEFAULT_NAMESRV, NamesrvOption, OutputOption
from pymq.cli.output import Column, OutputFormat, print_json, print_table
from pymq.cli.session import with_admin
from pymq.errors import EXIT_FAILED

app = new_app("Check the health of a cluster.")
SAMPLES_DEFAULT = 16


@app.callback()
def group() -> None:
    """Check the health of a cluster."""


COLUMNS = [
    Column("cluster"),
    Column("broker"),
    Column("slave_id", "SLAVE", right=True),
    Column("address"),
    Column("lag_bytes", "LAG", right=True, show=shown_bytes),
    Column("in_sync", "IN SYNC"),
    Column("compared_bytes", "COMPARED", right=True, show=shown_bytes),
    Column("ok", "OK"),
]


@app.command(epilog=examples("pymq check replica", "pymq check replica broker-a --full", "pymq check replica -o json"))
def replica(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Only brokers of this name.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Compare the whole log, not only samples.")] = False,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=0, max=10_000, help="Number of places in the log to compare.")
    ] = SAMPLES_DEFAULT,
    output: OutputOption = OutputFormat.table,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Check that every master has slaves that follow it, and that their logs and tables are equal.

    Compares digests of the end of the log and of random places in it. RocketMQ brokers have no digests, so for them it
    compares only offsets and tables. Exit code 0: no problem, 1: problems, each shown with the next step.
    """
    from pymq.cli import check_work as work

    records = with_admin(namesrv, lambda admin: work.check_replicas(admin, name, samples, full=full))
    if output is OutputFormat.json:
        print_json(records)
    else:
        print_table(records, COLUMNS)
        for record in records:
            name = f"{record['broker']} slave {record['slave_id']}" if record["slave_id"] else record["broker"]
            for line in [*record["problems"], *record["notes"]]:
                print(f"{name}: {line}")
    if not all(record["ok"] for record in records):
        raise typer.Exit(EXIT_FAILED)
