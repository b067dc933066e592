"""Options of commands that read a store directory instead of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pymq.errors import UsageError

if TYPE_CHECKING:
    from pymq.spark.planning.store_place import StorePlace

StoreOption = Annotated[
    str | None,
    typer.Option("--store", metavar="DIR", help="Read a stopped broker's data directory instead of a cluster."),
]
CommitLogOption = Annotated[
    str | None, typer.Option("--commitlog", metavar="DIR", help="With --store: the commit log, when it is elsewhere.")
]
BrokerNameOption = Annotated[
    str | None,
    typer.Option("--broker-name", metavar="NAME", help="With --store: the broker's name; else that of the directory."),
]
WhileRunningOption = Annotated[
    bool, typer.Option("--while-running", help="With --store: read even if a broker runs there, what its disk has.")
]


def store_place(
    directory: str | None, commit_log: str | None, broker_name: str | None, *, while_running: bool
) -> StorePlace | None:
    """Return the directory to read, None for a cluster. Raises UsageError for options that need --store."""
    if directory is None:
        if commit_log is not None or broker_name is not None or while_running:
            raise UsageError("--commitlog, --broker-name and --while-running are for --store: name the directory too")
        return None
    from pymq.spark.planning.store_place import StorePlace

    return StorePlace(directory, commit_log or "", broker_name or "", while_running)
