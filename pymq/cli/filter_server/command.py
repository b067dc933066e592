"""``pymq filter-server``: runs a filter server for one broker until a signal stops it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.common.live import live
from pymq.cli.common.servers import HostOption, InsecureOption, JsonOption, LogLevelOption
from pymq.cli.common.serving_metrics import (
    MetricsPlace,
    MetricsPortOption,
    metrics_member,
    metrics_place_of_command,
    metrics_text,
    serving_metrics,
)
from pymq.cli.declared import examples, new_app
from pymq.cli.output import print_json_line

if TYPE_CHECKING:
    from pymq.filterserver.server import FilterServerSettings

app = new_app()


@app.command(
    epilog=examples(
        "pymq filter-server --broker 127.0.0.1:10911",
        "pymq filter-server --broker 127.0.0.1:10911 --workers 4 --on-error deliver",
        "pymq filter-server --broker 10.0.0.5:10911 --host 0.0.0.0 --advertise 10.0.0.5 --acl plain_acl.yml",
    )
)
def filter_server(
    broker: Annotated[
        str,
        typer.Option(
            "--broker", metavar="HOST:PORT", help="The broker whose messages it filters.", autocompletion=live("broker")
        ),
    ],
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port to listen on; default any free one.")
    ] = 0,
    host: HostOption = None,
    insecure: InsecureOption = False,
    advertise: Annotated[
        str | None,
        typer.Option(
            "--advertise", metavar="ADDRESS", help="Address that consumers connect to; default the one of --host."
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, max=64, help="Processes that run filters; default one per core."),
    ] = None,
    on_error: Annotated[
        str,
        typer.Option(
            "--on-error",
            metavar="POLICY",
            help="For a message that its filter fails on: skip it, deliver it, or stop the queue there.",
        ),
    ] = "skip",
    acl: Annotated[
        str | None,
        typer.Option("--acl", metavar="FILE", help="Check consumers by this 4.x ACL file (plain_acl.yml)."),
    ] = None,
    auth_file: Annotated[
        str | None,
        typer.Option("--auth-file", metavar="FILE", help="Check them by a broker's users: its config/auth.json."),
    ] = None,
    inner_credentials: Annotated[
        str | None,
        typer.Option(
            "--inner-credentials",
            metavar="FILE",
            help="Sign requests to the broker with the accessKey and secretKey in this file.",
        ),
    ] = None,
    audit_log: Annotated[
        str | None,
        typer.Option("--audit-log", metavar="DIR", help="Keep a JSON line for each refused request in this directory."),
    ] = None,
    metrics_port: MetricsPortOption = None,
    as_json: JsonOption = False,
    log_level: LogLevelOption = "info",
) -> None:
    """Run plugin filters between a broker and its consumers, in separate processes.

    Consumers find the filter server through the route of their topic. TLS comes from the environment (pymq docs tls):
    PYMQ_TLS_ENABLE for the connection to the broker, PYMQ_TLS_SERVER_CERT_PATH and others for consumers.
    """
    from dataclasses import replace

    from pymq.cli.common.servers import print_warnings, set_up_logging
    from pymq.config import check_exposure
    from pymq.config.security import check_security, is_secured
    from pymq.net.runtime import run

    set_up_logging(log_level)
    host = host or "127.0.0.1"
    settings = _settings(broker, host, port, advertise, workers, on_error)
    settings = replace(
        settings,
        acl_enable=bool(acl),
        plain_acl_file=acl or "",
        authentication_enabled=bool(auth_file),
        authorization_enabled=bool(auth_file),
        auth_file=auth_file or "",
        inner_credentials_file=inner_credentials or "",
        audit_log_dir=audit_log or "",
    )
    check_security(settings)
    print_warnings(check_exposure("--host", host, is_secured=is_secured(settings), is_insecure=insecure))
    metrics = metrics_place_of_command(host, metrics_port, is_secured=is_secured(settings), is_insecure=insecure)
    run(_serve(settings, metrics, as_json))


def _settings(
    broker: str, host: str, port: int, advertise: str | None, workers: int | None, on_error: str
) -> FilterServerSettings:
    from pymq.errors import UsageError
    from pymq.filter.running import parse_on_error
    from pymq.filterserver.server import FilterServerSettings
    from pymq.filterserver.workers import WORKER_COUNT_MAX
    from pymq.model.hosts import format_address, parse_address

    try:
        broker = format_address(*parse_address(broker))
    except ValueError as error:
        raise UsageError(f"--broker: {error}") from error
    if host in ("0.0.0.0", "::") and not advertise:  # noqa: S104
        raise UsageError(f"--host {host} is not an address to connect to: give consumers one with --advertise")
    return FilterServerSettings(
        broker=broker,
        host=host,
        port=port,
        advertised_host=advertise or "",
        worker_count=workers or min(os.cpu_count() or 1, WORKER_COUNT_MAX),
        on_error=parse_on_error(on_error),
    )


async def _serve(settings: FilterServerSettings, metrics_place: MetricsPlace | None, as_json: bool) -> None:
    from pymq.net.runtime import StopSignals, begin_serving, load

    load("pymq.filterserver.server", "pymq.filterserver.metrics")
    from pymq.cli.common.servers import port_problem
    from pymq.clock import SystemClock
    from pymq.config.load import load_tls_config
    from pymq.filterserver.metrics import FilterServerMetrics
    from pymq.filterserver.server import FilterServer
    from pymq.net.tls_settings import TlsContexts

    clock = SystemClock()
    tls = TlsContexts.of(load_tls_config(os.environ), clock)
    with StopSignals() as signals:
        server = FilterServer(settings, clock=clock, tls=tls)
        async with serving_metrics(metrics_place, FilterServerMetrics(server)) as metrics:
            try:
                try:
                    await server.start()
                except OSError as error:
                    raise port_problem(error, settings.host, settings.port) from error
                begin_serving(server.server.turns)
                _print_ready(server.address, settings.broker, metrics, as_json)
                await signals.wait()
            finally:
                await server.stop()


def _print_ready(address: str, broker: str, metrics: str, as_json: bool) -> None:
    if as_json:
        print_json_line({"filter_server": address, "broker": broker, "pid": os.getpid(), **metrics_member(metrics)})
    else:
        print(f"filter server of broker {broker} ready on {address}{metrics_text(metrics)}", flush=True)
