"""``pymq broker config``: the settings of brokers that run, shown or changed."""

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
    broker: Annotated[str, typer.Argument(metavar="NAME|HOST:PORT", help="A broker's name, or one's address.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="What to change; without any, all are shown.")
    ] = None,
    key: Annotated[str, typer.Option("--key", metavar="TEXT", help="Show only keys with this in their name.")] = "",
    output: OutputOption = OutputFormat.table,
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
) -> None:
    """Show the settings of running brokers, or change some until they stop.

    NAME changes its master, HOST:PORT any one broker. docs/configuration.md says which keys change at run time; keep a
    change in the broker's file or flags as well. It takes all of the changes or none; exit code 5: it took none.
    """
    from pymq.cli import broker_config_work as work

    wanted = parse_pairs(changes or [], "the setting")

    records = with_admin(namesrv, lambda admin: work.apply(admin, broker, wanted, key))
    print_listing(records, COLUMNS, output, f"no key has {key!r} in its name")
