"""``pymq console``: the command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.common.options import DEFAULT_NAMESRV, NamesrvOption, split_addresses
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
    from collections.abc import Iterable, Mapping

    from pymq.console.settings import ConsoleSettings
    from pymq.net.tls import ServerTls
    from pymq.security.credentials import Credentials

app = new_app()
DEFAULT_PORT = 8082
DEFAULT_CONTEXT = "default"


@app.command(
    epilog=examples(
        "pymq console",
        "pymq console --namesrv 10.0.0.5:9876 --port 0 --json",
        "pymq console --with prod --with test    (contexts of pymq context)",
        "pymq console --no-bodies",
        "pymq console --allow-changes --audit /var/log/pymq",
        "pymq console --schemas ./schemas       (orders.avsc, sales.shop.Order.desc)",
        "pymq console --behind-proxy --public-url https://mq.example.org",
    )
)
def console(
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
    more: Annotated[
        list[str] | None, typer.Option("--with", metavar="CONTEXT", help="A context that pages can show; repeatable.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port to listen on, 0 for any free one.")
    ] = DEFAULT_PORT,
    host: HostOption = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="Browsers come through a proxy, to the --public-url.")
    ] = False,
    public_url: Annotated[
        str, typer.Option("--public-url", metavar="URL", help="Where browsers reach the console, such as https://HOST.")
    ] = "",
    no_bodies: Annotated[
        bool, typer.Option("--no-bodies", help="Show no bodies and no properties of messages, and no tail.")
    ] = False,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Pages may change clusters, as far as each person may.")
    ] = False,
    audit: Annotated[
        str, typer.Option("--audit", metavar="DIR", help="Where a line for each attempt to change something goes.")
    ] = "",
    schemas: Annotated[
        Path | None,
        typer.Option(
            "--schemas",
            metavar="DIR",
            help="Schemas of bodies by topic: TOPIC.avsc (Avro), TOPIC.TYPE.desc (Protobuf).",
        ),
    ] = None,
    memory_budget: Annotated[
        str,
        typer.Option(
            "--memory-budget",
            metavar="SIZE",
            help="Most memory for charts, kept answers and live pages; at most a quarter of the machine's.",
        ),
    ] = "256MB",
    insecure: InsecureOption = False,
    metrics_port: MetricsPortOption = None,
    as_json: JsonOption = False,
    log_level: LogLevelOption = "info",
) -> None:
    """Serve pages about clusters, PyMQ's and RocketMQ's, to browsers.

    Without other options, this machine alone reaches them. Where a cluster checks users, people log in with their
    access key and secret, and see what the cluster shows to them. The console's own requests, for the charts of the
    last hour, are signed with the context's credentials, else with those of PYMQ_CREDENTIALS_FILE or PYMQ_ACCESS_KEY.
    """
    from pymq.cli.common.context_file import broker_names, load_contexts
    from pymq.cli.common.servers import print_warnings, set_up_logging
    from pymq.console.memory import MemoryBudget
    from pymq.console.settings import ConsoleSettings
    from pymq.errors import UsageError
    from pymq.net.runtime import run
    from pymq.units import parse_size_bytes

    set_up_logging(log_level)
    if behind_proxy != bool(public_url):
        raise UsageError("--behind-proxy and --public-url go together: give both, or neither")
    contexts = {DEFAULT_CONTEXT: tuple(split_addresses(namesrv))}
    references: dict[str, str] = {}
    brokers: dict[str, tuple[str, ...]] = {}
    if more:
        known = load_contexts(os.environ)
        contexts = {name: tuple(split_addresses(known.find(name))) for name in more}
        references = known.credentials
        brokers = {name: tuple(broker_names(text)) for name, text in known.brokers.items()}
    settings = ConsoleSettings(
        contexts,
        host or "127.0.0.1",
        port,
        public_url,
        insecure,
        allow_changes=allow_changes,
        audit_directory=audit,
        shows_bodies=not no_bodies,
        schemas=schemas,
        credentials=own_credentials(contexts, references, os.environ),
        brokers=brokers,
        memory=MemoryBudget.of_machine(parse_size_bytes(memory_budget)),
    )
    tls = _tls()
    print_warnings(settings.check(has_tls=tls is not None))
    place = metrics_place_of_command(settings.host, metrics_port, is_secured=True, is_insecure=insecure)
    run(_serve(settings, tls, place, as_json))


def own_credentials(
    contexts: Iterable[str], references: Mapping[str, str], env: Mapping[str, str]
) -> dict[str, Credentials]:
    """Return what the console's own requests are signed with, by context: as commands with ``--context`` sign.

    ``references``: to credentials, by context. Raises UsageError.
    """
    from pymq.security.credentials import Credentials

    found = {name: Credentials.find(references.get(name, ""), env) for name in contexts}
    return {name: one for name, one in found.items() if one is not None}


def _tls() -> ServerTls | None:
    """Return the TLS of the certificate that the environment names, None without one. Raises ConfigError."""
    from pymq.clock import SystemClock
    from pymq.config.load import load_tls_config
    from pymq.net.tls_settings import server_tls

    config = load_tls_config(os.environ)
    return server_tls(config, SystemClock()) if config.tls_server_cert_path else None


async def _serve(settings: ConsoleSettings, tls: ServerTls | None, place: MetricsPlace | None, as_json: bool) -> None:
    from pymq.cli.common.servers import port_problem
    from pymq.clock import SystemClock
    from pymq.console.serve import running
    from pymq.net.runtime import StopSignals

    with StopSignals() as signals:
        try:
            async with (
                running(settings, SystemClock(), tls=None if tls is None else tls.context) as console,
                serving_metrics(place, console) as metrics,
            ):
                if as_json:
                    ready = {"console": console.url, "contexts": list(settings.contexts), "pid": os.getpid()}
                    print_json_line(ready | metrics_member(metrics))
                else:
                    print(f"console ready on {console.url}{metrics_text(metrics)}", flush=True)
                await signals.wait()
        except OSError as error:
            raise port_problem(error, settings.host, settings.port) from error
