"""``pymq exporter``: the command."""

from __future__ import annotations

from typing import Annotated

import typer

from pymq.cli.common.options import request_credentials, split_addresses
from pymq.cli.common.servers import HostOption, JsonOption, LogLevelOption
from pymq.cli.common.serving_metrics import metrics_place_of_command
from pymq.cli.common.session import Session
from pymq.cli.declared import examples, new_app
from pymq.cli.exporter.names import Names

app = new_app()
PORT_DEFAULT = 5557  # of Apache's rocketmq-exporter and of brokers
INTERVAL_DEFAULT_S = 15.0


@app.command(
    epilog=examples(
        "pymq exporter --namesrv 10.0.0.1:9876",
        "pymq exporter --names exporter --port 5557 --host 0.0.0.0    (for boards of rocketmq-exporter)",
    )
)
def exporter(
    session: Session,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port to listen on, 0 for any free one.")
    ] = PORT_DEFAULT,
    host: HostOption = None,
    names: Annotated[
        Names, typer.Option("--names", help="Names of the metrics: PyMQ's, those of rocketmq-exporter, or both.")
    ] = Names.pymq,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=1, help="Pause between two collections.")
    ] = INTERVAL_DEFAULT_S,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long to wait for each answer.")
    ] = 5.0,
    as_json: JsonOption = False,
    log_level: LogLevelOption = "info",
) -> None:
    """Serve metrics of a whole cluster, PyMQ's or Apache's, to Prometheus.

    Asks name servers and brokers in the background; a scrape shows the newest answers, so it costs brokers nothing.
    """
    from pymq.cli.common.servers import set_up_logging
    from pymq.cli.exporter.serve import serve
    from pymq.net.runtime import run

    set_up_logging(log_level)
    is_secured = request_credentials.get() is not None  # what it shows is not for everybody
    place = metrics_place_of_command(host or "127.0.0.1", port, is_secured=is_secured)
    run(serve(split_addresses(session.namesrv), place, names, interval, timeout, as_json))
