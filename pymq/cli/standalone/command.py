"""``pymq standalone``: a name server and a broker in one process and one event loop; with ``--shards`` Raft groups."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from pymq.cli.console.beside import ConsolePortOption, console_beside, console_member, console_text
from pymq.cli.declared import examples, new_app
from pymq.cli.output import print_json_line
from pymq.cli.proxy.command import GrpcPortOption, SignatureAgeOption, grpc_member, grpc_text, proxy_beside

if TYPE_CHECKING:
    from pymq.broker.assembly.broker import Broker
    from pymq.config import BrokerConfig, NamesrvConfig
    from pymq.security.credentials import Credentials

DEFAULT_DIRECTORY = "~/.pymq/standalone"
SHARDS_DIRECTORY = "~/.pymq/shards"
SHARDS_MAX = 8
REPLICAS_DEFAULT, REPLICAS_MIN, REPLICAS_MAX = 3, 2, 9
DEFAULT_PORT = 10911
# A desktop's disk is often fuller than a server's, so the limit is the number of free bytes and not a share.
DEFAULT_SETTINGS = {
    "diskSpaceWarningLevelRatio": "0",
    "diskSpaceCleanForciblyRatio": "0",
    "diskFreeBytesMin": "268435456",
}

app = new_app()


@app.command(
    epilog=examples(
        "pymq standalone",
        "pymq standalone --console-port 8082",
        "pymq standalone --dir ./data --namesrv-port 0 --port 0 --json",
        "pymq standalone --ephemeral --set autoCreateTopicEnable=false",
        "pymq standalone --shards 2 --replicas 3",
        "pymq standalone --workers auto",
    )
)
def standalone(
    directory: Annotated[
        str | None, typer.Option("--dir", metavar="DIR", help=f"Data directory; default {DEFAULT_DIRECTORY}.")
    ] = None,
    namesrv_port: Annotated[
        int,
        typer.Option(
            "--namesrv-port", metavar="PORT", min=0, max=65535, help="Port of the name server, 0 for any free."
        ),
    ] = 9876,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="Port of the broker, 0 for any free; default 10911."
        ),
    ] = None,
    host: HostOption = None,
    insecure: InsecureOption = False,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Store data in a directory that is removed at the end.")
    ] = False,
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards", metavar="N", min=1, max=SHARDS_MAX, help="Run N Raft groups, each broker in its own process."
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas", metavar="N", min=REPLICAS_MIN, max=REPLICAS_MAX, help="Brokers in each of them; default 3."
        ),
    ] = None,
    workers: WorkersOption = None,
    grpc_port: GrpcPortOption = None,
    grpc_signature_age: SignatureAgeOption = None,
    console_port: ConsolePortOption = None,
    metrics_port: MetricsPortOption = None,
    config_file: Annotated[
        str | None, typer.Option("-c", "--config", metavar="FILE", help="A broker.conf with RocketMQ's keys.")
    ] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    log_level: LogLevelOption = "warning",
) -> None:
    """Run a name server and a broker in one process: all that clients need.

    With --shards it runs groups of brokers that elect their leader themselves, for trying fail-over. All listen on
    127.0.0.1; data, settings and logs are in one directory, by default ~/.pymq/shards.
    """
    import shutil
    import tempfile

    from pymq.cli.broker.machine import CommandLine, begin_fork_server, is_machine
    from pymq.cli.common.servers import build_broker_config, given_pairs, set_up_logging
    from pymq.config import load_namesrv_config
    from pymq.config.base import ORIGIN_DEFAULT
    from pymq.errors import UsageError
    from pymq.net.runtime import run

    if ephemeral and directory is not None:
        raise UsageError("--ephemeral and --dir exclude each other: give one of them")
    set_up_logging(log_level)
    if shards is not None or replicas is not None:
        refused = {"--host": host, "--insecure": insecure, "--metrics-port": metrics_port, "--config": config_file}
        refused |= {
            "--workers": workers,
            "--grpc-port": grpc_port is not None,
            "--grpc-signature-age": grpc_signature_age is not None,
        }
        _run_shards(
            refused,
            directory=directory,
            is_ephemeral=ephemeral,
            shards=shards or 1,
            replicas=replicas or REPLICAS_DEFAULT,
            namesrv_port=namesrv_port,
            console_port=console_port,
            port=DEFAULT_PORT if port is None else port,
            settings=settings or [],
            as_json=as_json,
        )
        return
    store = tempfile.mkdtemp(prefix="pymq-") if ephemeral else directory or DEFAULT_DIRECTORY
    try:
        # The broker's only name server is the one started below, whose port is not known yet.
        flags: dict[str, Any] = {"listenPort": port, "bindAddress": host, "storePathRootDir": store, "namesrvAddr": ""}
        flags |= {"insecure": insecure or None, "workers": workers, **metrics_flags(metrics_port)}
        defaults = {} if config_file is not None else DEFAULT_SETTINGS
        broker_config = build_broker_config(config_file, settings, flags, defaults)
        namesrv_config = load_namesrv_config(None, _shared_settings(broker_config) | {"listenPort": str(namesrv_port)})
        namesrv_config.init_authentication_user = broker_config.init_authentication_user
        namesrv_config.auth_file_comes_later = True
        if is_machine(broker_config):
            forks = begin_fork_server()
            from pymq.cli.standalone.workers import serve_workers

            given = given_pairs(settings, {key: value for key, value in flags.items() if key != "storePathRootDir"})
            given = {
                key: value for key, value in defaults.items() if broker_config.origin(key) == ORIGIN_DEFAULT
            } | given
            line = CommandLine(config_file, given, log_level, grpc_port, grpc_signature_age)
            run(serve_workers(namesrv_config, broker_config, line, forks, console_port, as_json))
            return
        run(_serve(namesrv_config, broker_config, grpc_port, grpc_signature_age, console_port, as_json))
    finally:
        if ephemeral:
            shutil.rmtree(store, ignore_errors=True)


def _run_shards(
    refused: Mapping[str, Any], *, directory: str | None, is_ephemeral: bool, settings: list[str], **more: Any
) -> None:
    """Run Raft groups until a signal comes. ``refused``: options that are for one broker alone. Raises UsageError."""
    import shutil
    import tempfile
    from pathlib import Path

    from pymq.cli.common.options import parse_pairs
    from pymq.cli.standalone.shards import serve_shards
    from pymq.errors import UsageError
    from pymq.net.runtime import run

    given = [option for option, value in refused.items() if value]
    if given:
        raise UsageError(f"{given[0]} is for a single broker: with --shards, use --set KEY=VALUE")
    pairs = parse_pairs(settings, "--set")
    root = Path(tempfile.mkdtemp(prefix="pymq-") if is_ephemeral else directory or SHARDS_DIRECTORY)
    root = root.expanduser().absolute()
    root.mkdir(parents=True, exist_ok=True)
    try:
        run(serve_shards(directory=root, settings=DEFAULT_SETTINGS | pairs, **more))
    finally:
        if is_ephemeral:
            shutil.rmtree(root, ignore_errors=True)


async def _serve(
    namesrv_config: NamesrvConfig,
    broker_config: BrokerConfig,
    grpc_port: int | None,
    grpc_signature_age: int | None,
    console_port: int | None,
    as_json: bool,
) -> None:
    from pymq.net.runtime import StopSignals, begin_serving, load

    load("pymq.broker.assembly.broker", "pymq.broker.metrics.collector", "pymq.namesrv.server")
    from pymq.broker.metrics.collector import BrokerMetrics
    from pymq.cli.common.servers import make_broker, make_namesrv, serve_until_stopped, start_broker, start_namesrv

    with StopSignals() as signals:
        credentials = _credentials(broker_config)
        broker = make_broker(broker_config, credentials)
        namesrv = make_namesrv(namesrv_config, broker.budget, credentials)
        if namesrv.security is not None:
            broker.security.add_users_listener(namesrv.security.look)
        place = metrics_place(broker_config, broker_config.broker_ip1)
        async with serving_metrics(place, BrokerMetrics(broker)) as metrics:
            await start_namesrv(namesrv)
            try:
                broker_config.namesrv_addr = namesrv.address
                await start_broker(broker, signals)
                try:
                    async with (
                        proxy_beside(grpc_port, grpc_signature_age, broker) as grpc,
                        console_beside(console_port, namesrv.address) as console,
                    ):
                        begin_serving(broker.server.turns)  # one is enough for the loop of both
                        _print_ready(namesrv.address, broker, metrics, grpc, console, as_json)
                        await serve_until_stopped(broker, signals)
                finally:
                    await broker.stop()
            finally:
                await namesrv.stop()


def _shared_settings(config: BrokerConfig) -> dict[str, str]:
    """Return the broker's settings that its name server shares."""
    from pymq.config.base import format_value
    from pymq.config.security import has_users
    from pymq.config.tls import given_tls_keys

    keys = ["bindAddress", "insecure", "aclEnable", "plainAclFile", "authenticationEnabled", "authorizationEnabled"]
    keys += ["authenticationWhitelist", "authorizationWhitelist"]
    shared = {key: format_value(config.get(key)) for key in keys} | given_tls_keys(config)
    return shared | ({"authFile": config.auth_file} if has_users(config) else {})


def _credentials(config: BrokerConfig) -> Credentials | None:
    """Return what both servers sign with: a secret of this process, unless the settings have one."""
    import secrets

    from pymq.config.security import is_secured
    from pymq.security.credentials import Credentials
    from pymq.security.security import server_credentials

    if not is_secured(config):
        return None
    return server_credentials(config) or Credentials("pymq-standalone", secrets.token_hex(32))


def _print_ready(namesrv: str, broker: Broker, metrics: str, grpc: str, console: str, as_json: bool) -> None:
    store = broker.config.store_path_root_dir
    if as_json:
        ready: dict[str, Any] = {"namesrv": namesrv, "broker": broker.address, "store": store, "pid": os.getpid()}
        ready |= tls_member(broker.config)
        ready |= fast_port_member(broker.config) | metrics_member(metrics) | grpc_member(grpc) | console_member(console)
        print_json_line(ready)
    else:
        place = f"{broker.address}{fast_port_text(broker.config)}"
        text = f"ready: name server {namesrv}, broker {place}, data in {store}{metrics_text(metrics)}{grpc_text(grpc)}"
        text += console_text(console) + tls_text(broker.config)
        print(text, flush=True)
