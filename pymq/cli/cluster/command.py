"""``pymq cluster``: list, clients, shards, rebalance."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pymq.cli.cluster.clients import clients
from pymq.cli.cluster.shards import rebalance, shards
from pymq.cli.common.cells import shown_bytes, shown_ms
from pymq.cli.common.live import live
from pymq.cli.common.options import OutputOption
from pymq.cli.common.session import Session, end_partial
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_data, print_line, print_listing

app = new_app("Show all brokers of all clusters.")


@app.callback()
def group() -> None:
    """Show all brokers of all clusters."""


COLUMNS = [
    Column("broker"),
    Column("broker_id", "ID", right=True),
    Column("role", folds=False),
    Column("address", folds=False),
    Column("version", extra=True),
    Column("in_per_second", "IN/S", right=True, extra=True),
    Column("out_per_second", "OUT/S", right=True, extra=True),
    Column("log_end", right=True, extra=True),
    Column("lag_bytes", "LAG", right=True, show=shown_bytes),
    Column("lag_messages", "MESSAGES", right=True, extra=True),
    Column("lag_ms", "TIME", right=True, show=shown_ms),
    Column("in_sync", "IN SYNC"),
]
MACHINE_COLUMN = Column("machine", extra=True)


@app.command(
    "list",
    epilog=examples("pymq cluster list", "pymq cluster list -c DefaultCluster", "pymq cluster list -o json"),
    watched=True,
)
def list_brokers(
    session: Session,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", "-c", metavar="NAME", help="Only this cluster.", autocompletion=live("cluster")),
    ] = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """List every broker with its role, rates, end of the log, lag, and problems.

    LAG, MESSAGES and TIME show what a slave lacks of its master's log: bytes, messages, and the age of its oldest
    missing byte. IN SYNC shows how many of a master's connected slaves keep up.
    """
    from pymq.operations.broker import listing as work

    (records, silent), missing = session.ask_reachable(lambda admin: work.list_brokers(admin, cluster))
    if not print_data(records, output):
        _print_brokers(records, output)
    end_partial({**missing, **silent})


def _print_brokers(records: list[dict[str, Any]], output: OutputFormat) -> None:
    """Print a table, and below it the problems of brokers that answer."""
    shown = [record | {"in_sync": _in_sync_text(record)} for record in records]
    print_listing(shown, columns_for(records), output, "no broker is registered: start one, or wait for it to register")
    answering = [record for record in records if record["role"] is not None]
    problems = [(record, problem) for record in answering for problem in record["problems"]]
    if problems:
        print_line("\nproblems")
    for record, problem in problems:
        print_line(f"  {record['broker']} {record['broker_id']} at {record['address']}: {problem}")


app.command(
    epilog=examples("pymq cluster clients", "pymq cluster clients --group billing", "pymq cluster clients -o json"),
    watched=True,
)(clients)
app.command(epilog=examples("pymq cluster shards", "pymq cluster shards -o json"), watched=True)(shards)
app.command(epilog=examples("pymq cluster rebalance --dry-run", "pymq cluster rebalance --yes"))(rebalance)


def columns_for(records: list[dict[str, Any]]) -> list[Column]:
    """Return the columns; a narrow terminal does without the cluster's name when there is one cluster."""
    is_one = len({record["cluster"] for record in records}) == 1
    machine = [MACHINE_COLUMN] if any(record["machine"] for record in records) else []
    return [Column("cluster", folds=False, extra=is_one), *machine, *COLUMNS]


def _in_sync_text(record: dict[str, Any]) -> Any:
    """Return a master's slaves in sync and connected, such as ``"1/2"``; for a slave whether it is in sync."""
    if record["in_sync_slaves"] is None:
        return record["in_sync"]
    return f"{record['in_sync_slaves']}/{record['connected_slaves']}"
