"""``pymq cluster clients``: every producer and consumer that is connected to any broker."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import OutputOption
from pymq.cli.common.session import Session, end_partial
from pymq.cli.output import Column, OutputFormat, print_listing

COLUMNS = [
    Column("kind"),
    Column("group"),
    Column("client_id", "CLIENT"),
    Column("language"),
    Column("version"),
    Column("brokers"),
]


def clients(
    session: Session,
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="NAME", help="Only this group.", autocompletion=live("group"))
    ] = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """List the producers and consumers that are connected now, with the brokers of each.

    Every master is asked, one request for each of its groups. Exit code 3: the group has no client; 6: a
    broker could not be asked.
    """
    from pymq.operations.clients import connected_clients, no_client

    records, unreached = session.ask_reachable(lambda admin: connected_clients(admin, group))
    if group is not None and not records and not unreached:
        raise no_client(group)
    print_listing(records, COLUMNS, output, "no client is connected")
    end_partial(unreached)
