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
    from pymq.errors import NotFoundError
    from pymq.wire.versions import version_name

    found, unreached = session.ask_reachable(lambda admin: admin.instances.all())
    records = [
        {**one._asdict(), "version": version_name(one.version), "brokers": list(one.brokers)}
        for one in found
        if group in (None, one.group)
    ]
    if group is not None and not records and not unreached:
        raise NotFoundError(f"no client of a group {group!r} is connected: pymq cluster clients shows all clients")
    print_listing(records, COLUMNS, output, "no client is connected")
    end_partial(unreached)
