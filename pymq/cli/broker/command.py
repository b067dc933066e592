"""``pymq broker``: runs a broker until a signal stops it; its sub-commands work on running brokers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.servers import (
    HostOption,
    InsecureOption,
    JsonOption,
    LogLevelOption,
    SetOption,
    WorkersOption,
    fast_port_member,
    fast_port_text,
    tls_member,
    tls_text,
)
from pymq.cli.common.serving_metrics import (
    MetricsPortOption,
    metrics_flags,
    metrics_member,
    metrics_place,
    metrics_text,
    serving_metrics,
)
from pymq.cli.declared import examples
from pymq.cli.lazy import CommandTable, LazyGroup
from pymq.cli.output import print_json_line
from pymq.cli.proxy.command import GrpcPortOption, SignatureAgeOption, grpc_member, grpc_text, proxy_beside

if TYPE_CHECKING:
    from pymq.config import BrokerConfig

COMMANDS: CommandTable = {
    "status": ("pymq.cli.broker.status", "Show a broker's role, log, slaves and lag."),
    "promote": ("pymq.cli.broker.promote", "Make a slave the master of its group."),
    "drain": ("pymq.cli.broker.drain", "Take a broker out of service for producers."),
    "undrain": ("pymq.cli.broker.undrain", "Give a broker its write permission back."),
    "rejoin": ("pymq.cli.broker.rejoin", "Let a slave truncate its log to follow its master."),
}


class BrokerGroup(LazyGroup):
    """The sub-commands for running brokers; without one the group runs a broker."""

    table = COMMANDS


app = typer.Typer(cls=BrokerGroup, rich_markup_mode=None, add_completion=False)


@app.callback(
    invoke_without_command=True,
    epilog=examples(
        "pymq broker --id 0",
        "pymq broker --id 0 --name broker-b --port 10921 --namesrv 127.0.0.1:9876 --store /var/lib/pymq/b",
        "pymq broker --id 1 --full-sync",
        "pymq broker --group shard-a --node n0 --peers n0=10.0.0.1:10911,n1=10.0.0.2:10911,n2=10.0.0.3:10911",
        "pymq broker --workers 4 --store /var/lib/pymq/a",
        "pymq broker -c conf/broker.conf --set flushDiskType=SYNC_FLUSH --metrics-port 5557",
    ),
)
def broker(
    context: typer.Context,
    broker_id: Annotated[
        int | None, typer.Option("--id", metavar="N", min=0, help="0 is the master, others are slaves; default 0.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="Broker name; default broker-a.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="NAME", help="Cluster name; default DefaultCluster.", autocompletion=live("cluster")
        ),
    ] = None,
    namesrv: Annotated[
        str | None,
        typer.Option(
            "--namesrv",
            metavar="HOST:PORT;…",
            help="Name servers to register at; default NAMESRV_ADDR or 127.0.0.1:9876.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="Port to listen on, 0 for any free; default 10911."
        ),
    ] = None,
    host: HostOption = None,
    insecure: InsecureOption = False,
    store: Annotated[
        str | None, typer.Option("--store", metavar="DIR", help="Data directory; default ~/.pymq/NAME-ID.")
    ] = None,
    full_sync: Annotated[
        bool | None,
        typer.Option("--full-sync", help="A new slave copies its master's whole log, not only its last segment."),
    ] = None,
    workers: WorkersOption = None,
    grpc_port: GrpcPortOption = None,
    grpc_signature_age: SignatureAgeOption = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            metavar="NAME",
            help="Belong to this Raft group; also the broker name.",
            autocompletion=live("group"),
        ),
    ] = None,
    node: Annotated[str | None, typer.Option("--node", metavar="ID", help="Own id in --peers, for example n0.")] = None,
    peers: Annotated[
        str | None,
        typer.Option("--peers", metavar="ID=HOST:PORT,…", help="All members of the Raft group, the same on each."),
    ] = None,
    metrics_port: MetricsPortOption = None,
    config_file: Annotated[
        str | None, typer.Option("-c", "--config", metavar="FILE", help="A broker.conf with RocketMQ's keys.")
    ] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    log_level: LogLevelOption = "info",
) -> None:
    """Run a broker. Flags override --set, then come environment variables (PYMQ_LISTEN_PORT, …), file and defaults."""
    if context.invoked_subcommand is not None:
        return
    from pymq.cli.broker.machine import CommandLine, begin_fork_server, is_machine, serve_machine
    from pymq.cli.common.servers import build_broker_config, given_pairs, name_worker, set_up_logging
    from pymq.net.runtime import run

    set_up_logging(log_level)
    flags = {
        "brokerId": broker_id,
        "brokerName": name or group,
        "brokerClusterName": cluster,
        "namesrvAddr": namesrv,
        "listenPort": port,
        "bindAddress": host,
        "insecure": insecure or None,
        "storePathRootDir": store,
        "haFullSync": full_sync,
        "workers": workers,
        **metrics_flags(metrics_port),
    }
    if group or node or peers:
        flags = raft_flags(group, node, peers) | {key: value for key, value in flags.items() if value is not None}
    config = build_broker_config(config_file, settings, flags)
    if is_machine(config):
        line = CommandLine(config_file, given_pairs(settings, flags), log_level, grpc_port, grpc_signature_age)
        run(serve_machine(config, line, begin_fork_server(), as_json))
        return
    if config.is_worker:
        name_worker(config.broker_name)
    run(_serve(config, grpc_port, grpc_signature_age, as_json))


def raft_flags(group: str | None, node: str | None, peers: str | None) -> dict[str, object]:
    """Return the settings of ``--group``, ``--node`` and ``--peers``: also the port and the id that follow from them.

    Raises ConfigError.
    """
    from pymq.broker.raft.members import parse_peers, peers_of_flag

    flags: dict[str, object] = {"enableDLegerCommitLog": True, "dLegerGroup": group, "dLegerSelfId": node}
    if peers:
        flags["dLegerPeers"] = text = peers_of_flag(peers)
        for member in parse_peers(text):
            if member.node == node:
                flags |= {"listenPort": member.port, "brokerId": member.broker_id}
    return flags


async def _serve(config: BrokerConfig, grpc_port: int | None, grpc_signature_age: int | None, as_json: bool) -> None:
    from pymq.net.runtime import StopSignals, begin_serving, load

    load("pymq.broker.assembly.broker", "pymq.broker.metrics.collector")
    from pymq.broker.metrics.collector import BrokerMetrics
    from pymq.cli.common.servers import make_broker, serve_until_stopped, start_broker
    from pymq.cli.common.serving_metrics import answering_parent
    from pymq.net.service_manager import notify

    with StopSignals() as signals:
        broker = make_broker(config)
        view = BrokerMetrics(broker)
        async with (
            answering_parent(broker, signals, view),
            serving_metrics(metrics_place(config, config.broker_ip1), view) as metrics,
        ):
            await start_broker(broker, signals)
            try:
                async with proxy_beside(grpc_port, grpc_signature_age, broker) as grpc:
                    begin_serving(broker.server.turns)
                    _print_ready(config, broker.address, metrics, grpc, as_json)
                    notify("READY=1")
                    await serve_until_stopped(broker, signals)
            finally:
                await broker.stop()


def _print_ready(config: BrokerConfig, address: str, metrics: str, grpc: str, as_json: bool) -> None:
    where = config.store_path_root_dir
    if as_json:
        ready = {"broker": address, "namesrv": config.namesrv_addr, "store": where, "pid": os.getpid()}
        ready |= tls_member(config)
        print_json_line({**ready, **fast_port_member(config), **metrics_member(metrics), **grpc_member(grpc)})
        return
    name = f"broker {config.broker_name} (id {config.broker_id}, cluster {config.broker_cluster_name})"
    namesrv = config.namesrv_addr or "none"
    place = f"{address}{fast_port_text(config)}"
    more = f"{metrics_text(metrics)}{grpc_text(grpc)}{tls_text(config)}"
    print(f"{name} ready on {place}; name server {namesrv}; data in {where}{more}", flush=True)
