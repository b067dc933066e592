"""``pymq broker config``: shows or changes the settings of running brokers."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.lazy import examples, new_app
from pymq.cli.options import DEFAULT_NAMESRV, NamesrvOption, OutputOption, parse_pairs
from pymq.cli.output import Column, OutputFormat, print_listing
from pymq.cli.session import with_admin

app = new_app()

COLUMNS = [Column("broker"), Column("broker_id", "ID", right=True), Column("address"), Column("key"), Column("value")]


@app.command(
    epilog=examples(
        "pymq broker config broker-a",
        "pymq broker config broker-a --key inSyncReplicas",
        "pymq broker config broker-a brokerRole=SYNC_MASTER",
        "pymq broker config 127.0.0.1:10911 enableAutoInSyncReplicas=true minInSyncReplicas=1",
    )
)
def config(
    broker: Annotated[str, typer.Argument(metavar="NAME|HOST:PORT", help="The name or the address of a broker.")],
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]…", help="Settings to change; none: list all."),
    ] = None,
    key: Annotated[str, typer.Option("--key", metavar="TEXT", help="Show only keys that contain this text.")] = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask for confirmation.")] = False,
    output: OutputOption = OutputFormat.table,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Show the settings of running brokers, or change some until the broker stops.

    NAME changes the master of that name, HOST:PORT the broker there. docs/configuration.md lists the keys that change
    at run time; write a change into the broker's file or flags as well. A broker applies all changes or, with exit code
    5, none. A change by which more segments would be deleted asks for confirmation.
    """
    from pymq.cli import broker_config_work as work

    new_values = parse_pairs(changes or [], "the setting")
    if new_values.keys() & work.DELETING_KEYS and not yes:
        question = with_admin(namesrv, lambda admin: work.what_goes(admin, broker, new_values))
        if question:
            _confirm(question)

    records = with_admin(namesrv, lambda admin: work.apply(admin, broker, new_values, key))
    print_listing(records, COLUMNS, output, f"no key contains {key!r}")


def _confirm(question: str) -> None:
    import sys

    from pymq.errors import UsageError

    if not sys.stdin.isatty():
        raise UsageError(f"{question}; nothing is changed: give --yes to confirm")
    typer.confirm(f"{question}. Change it?", abort=True, err=True)
