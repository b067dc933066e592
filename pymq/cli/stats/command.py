"""``pymq stats``: the command."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.options import OutputOption
from pymq.cli.common.session import Session, end_partial
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_listing
from pymq.errors import UsageError

app = new_app()

_FIGURES = [
    Column("direction", ""),
    Column("per_second", "/S", right=True),
    Column("minute", right=True),
    Column("hour", right=True),
    Column("day", right=True),
]
TOPIC_COLUMNS = [Column("topic"), Column("group"), *_FIGURES, Column("lag", right=True)]
BROKER_COLUMNS = [
    Column("broker"),
    *_FIGURES,
    Column("today", right=True),
    Column("yesterday", right=True),
]


@app.command(
    epilog=examples(
        "pymq stats",
        "pymq stats orders payments --watch 10",
        "pymq stats --brokers",
        "pymq stats -o tsv",
    ),
    watched=True,
)
def stats(
    session: Session,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC…", help="Only these topics; default all of applications.", autocompletion=live("topic")
        ),
    ] = None,
    by_broker: Annotated[bool, typer.Option("--brokers", help="Brokers instead of topics.")] = False,
    broker: Annotated[
        str | None,
        typer.Option(
            "--broker", "-b", metavar="NAME", help="Only this broker; implies --brokers.", autocompletion=live("broker")
        ),
    ] = None,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show the messages of the last minute, hour and day: sent to topics, got and given back by groups.

    Brokers count them since their start. A broker shows what it took in and gave out, also today and yesterday.
    """
    from pymq.operations import stats as work

    if topics and (by_broker or broker):
        raise UsageError("topics and brokers exclude each other: leave out the topics, or --brokers and --broker")
    if by_broker or broker:
        records, unreached = session.ask_reachable(lambda admin: work.broker_statistics(admin, broker))
        print_listing(records, BROKER_COLUMNS, output, "no broker is registered")
    else:
        records, unreached = session.ask_reachable(lambda admin: work.topic_statistics(admin, topics or ()))
        print_listing(records, TOPIC_COLUMNS, output, "no topic: pymq topic create makes one")
    end_partial(unreached)
