"""``pymq topic order``: the queues of a topic in a fixed order, the same for every producer."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import OutputOption
from pymq.cli.common.session import Session
from pymq.cli.output import Column, OutputFormat, print_listing, print_note
from pymq.errors import UsageError

COLUMNS = [Column("broker"), Column("queues", right=True)]


def order(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The topic.", autocompletion=live("topic"))],
    wanted: Annotated[
        str | None,
        typer.Option("--set", metavar="BROKER:N;…", help="Brokers in their order, each with its number of queues."),
    ] = None,
    delete: Annotated[bool, typer.Option("--delete", help="Producers use the topic's own queues again.")] = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show, set or delete a topic's order configuration.

    Producers then write exactly these queues, also while a broker is away, so that a key keeps its queue. Name servers
    keep it in memory, in the namespace ORDER_TOPIC_CONFIG, and tell producers with orderMessageEnable=true.
    """
    from pymq.operations.topic import order as work

    if wanted is not None and delete:
        raise UsageError("--set and --delete exclude each other: give one of them")
    records, silent = session.ask(lambda admin: work.order(admin, name, wanted, delete=delete))
    print_listing(records, COLUMNS, output, f"{name} has no order configuration: --set makes one")
    if records and silent:
        print_note(
            f"{', '.join(silent)} don't tell producers: pymq config set orderMessageEnable=true --namesrv-server"
        )
