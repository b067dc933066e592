"""``pymq namesrv``: runs a name server until a signal stops it; its sub-commands work on running name servers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.common.servers import (
    HostOption,
    InsecureOption,
    JsonOption,
    LogLevelOption,
    SetOption,
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
from pymq.cli.declared import examples
from pymq.cli.lazy import CommandTable, LazyGroup
from pymq.cli.output import print_json_line

if TYPE_CHECKING:
    from pymq.config import NamesrvConfig

COMMANDS: CommandTable = {
    "status": ("pymq.cli.namesrv.status", "Show every name server, and where their views differ."),
    "kv": ("pymq.cli.namesrv.kv", "List, get, set and delete the values that name servers keep."),
}


class NamesrvGroup(LazyGroup):
    """The sub-commands for running name servers; without one the group runs a name server."""

    table = COMMANDS


app = typer.Typer(cls=NamesrvGroup, rich_markup_mode=None, add_completion=False)


@app.callback(
    invoke_without_command=True,
    epilog=examples(
        "pymq namesrv",
        "pymq namesrv --host 0.0.0.0 --port 9876 --set aclEnable=true --set plainAclFile=/etc/pymq/plain_acl.yml",
        "pymq namesrv -c conf/namesrv.conf --set scanNotActiveBrokerInterval=2000",
    ),
)
def namesrv(
    context: typer.Context,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="PORT", min=0, max=65535, help="Port to listen on, 0 for any free; default 9876."
        ),
    ] = None,
    host: HostOption = None,
    insecure: InsecureOption = False,
    console_port: ConsolePortOption = None,
    metrics_port: MetricsPortOption = None,
    config_file: Annotated[
        str | None, typer.Option("-c", "--config", metavar="FILE", help="A namesrv.conf with RocketMQ's keys.")
    ] = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
    log_level: LogLevelOption = "info",
) -> None:
    """Run a name server. It stores nothing on disk but kept settings: brokers register with it every 30 seconds.

    Flags override --set, then come environment variables (PYMQ_LISTEN_PORT, …), the file and the defaults.
    """
    if context.invoked_subcommand is not None:
        return
    from pymq.cli.common.servers import build_namesrv_config, set_up_logging
    from pymq.net.runtime import run

    set_up_logging(log_level)
    flags = {"listenPort": port, "bindAddress": host, "insecure": insecure or None, **metrics_flags(metrics_port)}
    run(_serve(build_namesrv_config(config_file, settings, flags), console_port, as_json))


async def _serve(config: NamesrvConfig, console_port: int | None, as_json: bool) -> None:
    from pymq.net.runtime import StopSignals, begin_serving, load

    load("pymq.namesrv.server", "pymq.namesrv.metrics")
    from pymq.cli.common.servers import make_namesrv, start_namesrv
    from pymq.namesrv.metrics import NamesrvMetrics

    with StopSignals() as signals:
        server = make_namesrv(config)
        async with serving_metrics(metrics_place(config, config.bind_address), NamesrvMetrics(server)) as metrics:
            await start_namesrv(server)
            try:
                async with console_beside(console_port, server.address) as console:
                    begin_serving(server.server.turns)
                    _print_ready(config, server.address, metrics, console, as_json)
                    await signals.wait()
            finally:
                await server.stop()


def _print_ready(config: NamesrvConfig, address: str, metrics: str, console: str, as_json: bool) -> None:
    if as_json:
        ready = {"namesrv": address, "pid": os.getpid(), **tls_member(config)}
        print_json_line(ready | metrics_member(metrics) | console_member(console))
    else:
        print(
            f"name server ready on {address}{metrics_text(metrics)}{console_text(console)}{tls_text(config)}",
            flush=True,
        )
