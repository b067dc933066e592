"""``pymq config``: show, diff, set, unset, check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.confirm import confirm
from pymq.cli.common.live import live
from pymq.cli.common.options import (
    BrokersOption,
    ConfirmOption,
    DryRunOption,
    OutputOption,
    parse_pairs,
)
from pymq.cli.common.session import Session, end_partial
from pymq.cli.declared import examples, new_app
from pymq.cli.output import Column, OutputFormat, print_listing, print_note
from pymq.errors import EXIT_USAGE

if TYPE_CHECKING:
    from pymq.operations.settings.changes import Wanted
    from pymq.operations.settings.servers import Targets

app = new_app("Show, compare, change and check the settings of brokers and name servers.")

ClusterOption = Annotated[
    list[str] | None,
    typer.Option(
        "-c",
        "--cluster",
        metavar="CLUSTER",
        help="The brokers of this cluster; repeatable.",
        autocompletion=live("cluster"),
    ),
]
NamesrvServerOption = Annotated[
    bool, typer.Option("--namesrv-server", help="The name servers of --namesrv, not brokers.")
]
SlavesOption = Annotated[
    bool, typer.Option("--slaves", help="Slaves, too: a name or a cluster means its masters alone.")
]

ORIGINS = {
    "env": "environment",
    "flag": "command line",
    "runtime": "run time",
    "kept": "run time, kept",
}
ORIGIN_COLUMN = Column("origin", show=lambda origin: ORIGINS.get(origin, origin or "-"))
CHANGE_COLUMNS = [Column("server"), Column("key"), Column("before"), Column("value")]


@app.command(
    epilog=examples(
        "pymq config show --broker broker-a",
        "pymq config show flush --origin --broker 127.0.0.1:10911",
        "pymq config show --changed --cluster DefaultCluster",
        "pymq config show --namesrv-server --json",
    ),
    watched=True,
)
def show(
    session: Session,
    text: Annotated[
        str, typer.Argument(metavar="[TEXT]", help="Only keys that contain this text.", autocompletion=live("setting"))
    ] = "",
    origin: Annotated[
        bool,
        typer.Option(
            "--origin",
            help="Add where each value came from, and whether it may change at run time.",
        ),
    ] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only values that are not the default.")] = False,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
    namesrv_server: NamesrvServerOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show the settings of running servers: by default of all brokers.

    Origins are default, file, environment, command line, run time (until a restart) and run time, kept. Apache RocketMQ
    tells no origins.
    """
    from pymq.operations.settings import changes as work

    targets = _targets(broker, cluster, namesrv_server, slaves=True)
    found = session.ask(lambda admin: work.show(admin, targets, text, changed=changed))
    found.raise_if_all_failed()
    columns = [Column("server")] if len({record["address"] for record in found.records}) > 1 else []
    columns.append(Column("key"))
    if origin:
        columns += [ORIGIN_COLUMN, Column("changeable", "AT RUN TIME")]
    what = "no value is set" if changed else f"no key contains {text!r}"
    print_listing(found.records, [*columns, Column("value")], output, what)
    end_partial(found.unreached)


@app.command(
    epilog=examples(
        "pymq config diff --broker broker-a",
        "pymq config diff --broker broker-a --broker broker-b",
        "pymq config diff --cluster DefaultCluster --slaves",
        "pymq config diff --broker broker-a --file conf/broker.conf",
    ),
    watched=True,
)
def diff(
    session: Session,
    file: Annotated[
        str, typer.Option("--file", metavar="FILE", help="Compare with what this file says, and defaults.")
    ] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Between servers: also names, ids, addresses, ports and directories.")
    ] = False,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
    slaves: SlavesOption = False,
    namesrv_server: NamesrvServerOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Show which settings differ: between several servers, of one server from the defaults, or of each from a file."""
    from pymq.operations.settings import changes as work

    targets = _targets(broker, cluster, namesrv_server, slaves=slaves)
    found = session.ask(lambda admin: work.diff(admin, targets, file, everything=everything))
    found.raise_if_all_failed()
    columns = [Column("key"), Column("server"), ORIGIN_COLUMN, Column("value")]
    if any("other" in record for record in found.records):
        columns.append(Column("other", "FILE" if file else "DEFAULT"))
    print_listing(found.records, columns, output, "no setting differs")
    end_partial(found.unreached)


@app.command(
    "set",
    epilog=examples(
        "pymq config set maxMessageSize=8MB --broker broker-a",
        "pymq config set flushDiskType=SYNC_FLUSH --cluster DefaultCluster --slaves --persist",
        "pymq config set fileReservedTime=48 --broker broker-a --if 72",
        "pymq config set brokerPermission=4 --broker 127.0.0.1:10911 --dry-run",
    ),
)
def set_values(
    session: Session,
    changes: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE…", help="Settings to change.", autocompletion=live("setting="))
    ],
    persist: Annotated[bool, typer.Option("--persist", help="Keep the change for the next start.")] = False,
    only_if: Annotated[
        str | None, typer.Option("--if", metavar="VALUE", help="Change the key only if this is its value now.")
    ] = None,
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
    slaves: SlavesOption = False,
    namesrv_server: NamesrvServerOption = False,
    dry_run: DryRunOption = False,
    yes: ConfirmOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Change settings of running servers, and show their values before and after.

    A change lasts until the server stops, or with --persist until `pymq config unset`. Each server takes all changes or
    none, and none if another administrator changed its settings meanwhile. All servers are asked first: an unknown key,
    or one that can't change at run time, changes nothing anywhere. A change by which more segments would be deleted
    asks for confirmation.
    """
    from pymq.errors import UsageError
    from pymq.operations.settings.changes import Wanted

    values = parse_pairs(changes, "the setting")
    if only_if is not None and len(values) != 1:
        raise UsageError(f"--if is about one setting, {len(values)} are given: change them one by one")
    wanted = Wanted(values, is_kept=persist, only_if=only_if)
    _change(wanted, _targets(broker, cluster, namesrv_server, slaves=slaves), dry_run, yes, output, session)


@app.command(
    epilog=examples("pymq config unset maxMessageSize --broker broker-a", "pymq config unset flushDiskType -b broker-a")
)
def unset(
    session: Session,
    keys: Annotated[
        list[str],
        typer.Argument(metavar="KEY…", help="Keys whose change is taken back.", autocompletion=live("setting")),
    ],
    broker: BrokersOption = None,
    cluster: ClusterOption = None,
    slaves: SlavesOption = False,
    namesrv_server: NamesrvServerOption = False,
    dry_run: DryRunOption = False,
    yes: ConfirmOption = False,
    output: OutputOption = OutputFormat.table,
) -> None:
    """Take back changes made at run time, kept ones too: the keys get the values that they have without them."""
    from pymq.operations.settings.changes import Wanted

    wanted = Wanted({}, forget=tuple(dict.fromkeys(keys)))
    _change(wanted, _targets(broker, cluster, namesrv_server, slaves=slaves), dry_run, yes, output, session)


@app.command(
    epilog=examples(
        "pymq config check conf/broker.conf",
        "pymq config check --role namesrv /etc/pymq/namesrv.conf",
        "pymq config check *.conf",
    )
)
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="Configuration files.")],
    role: Annotated[
        str, typer.Option("--role", metavar="broker|namesrv", help="Whose file it is; default: what its keys say.")
    ] = "",
    output: OutputOption = OutputFormat.table,
) -> int:
    """Check files without a server: unknown keys with the nearest known one, bad values, values that conflict.

    Exit code 2 says that a file has errors. Notes, such as keys of RocketMQ without effect, don't count.
    """
    from pymq.operations.settings import file as work

    found = [finding for file in files for finding in work.check(file, role)]
    columns = [Column("file"), Column("line", right=True), Column("level"), Column("text")]
    print_listing(found, columns, output, f"{len(files)} {'file' if len(files) == 1 else 'files'} without a mistake")
    return EXIT_USAGE if any(finding["level"] == "error" for finding in found) else 0


def _targets(brokers: list[str] | None, clusters: list[str] | None, namesrv_server: bool, *, slaves: bool) -> Targets:
    from pymq.errors import UsageError
    from pymq.operations.settings.servers import Targets

    if namesrv_server and (brokers or clusters):
        raise UsageError("--namesrv-server and --broker or --cluster exclude each other: give one of them")
    return Targets(tuple(brokers or ()), tuple(clusters or ()), is_namesrv=namesrv_server, slaves=slaves)


def _change(wanted: Wanted, targets: Targets, dry_run: bool, yes: bool, output: OutputFormat, session: Session) -> None:
    from pymq.errors import UsageError
    from pymq.operations.settings import changes as work

    if targets.is_empty:
        raise UsageError("no server is named: give --broker NAME, --cluster NAME or --namesrv-server")
    if dry_run:
        records: list[dict[str, Any]] = session.ask(lambda admin: work.preview(admin, targets, wanted))
        print_listing(records, CHANGE_COLUMNS, output)
        print_note("nothing is changed: --dry-run")
        return
    if not yes and (question := session.ask(lambda admin: work.what_goes(admin, targets, wanted))):
        confirm(f"{question}. Change it?", unasked=f"{question}; nothing is changed: give --yes to confirm")
    found = session.ask(lambda admin: work.change(admin, targets, wanted))
    found.raise_if_all_failed()
    print_listing(found.records, CHANGE_COLUMNS, output)
    for note in found.notes:
        print_note(note)
    found.raise_if_some_failed()
