"""The metrics endpoint of a server: its settings, and a context manager that serves while the server runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import typer

if TYPE_CHECKING:
    from pymq.config import BrokerConfig, NamesrvConfig
    from pymq.metrics.family import Collector
    from pymq.net.memory_budget import MemoryBudget
    from pymq.net.tls import ServerTls

TOKEN_LENGTH_MAX = 1024
TOKEN_FILE_VARIABLE = "PYMQ_METRICS_TOKEN_FILE"  # noqa: S105 - no token, a name
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Serve metrics to Prometheus on this port, 0 for any free one; default none.",
    ),
]


class MetricsView(Protocol):
    """The metrics of a server, read at each scrape."""

    def collectors(self) -> Sequence[Collector]: ...

    def labels(self) -> Mapping[str, str]: ...

    @property
    def budget(self) -> MemoryBudget | None: ...


class MetricsPlace(NamedTuple):
    """The address at which to serve metrics, how it takes TLS, and the token that clients show ("" for none)."""

    host: str
    port: int
    tls: ServerTls | None = None
    token: str = ""

    @property
    def is_encrypted(self) -> bool:
        """Return True where clients without TLS are refused."""
        return self.tls is not None and self.tls.is_required

    @property
    def scheme(self) -> str:
        """What scrapers put before the address."""
        return "https" if self.is_encrypted else "http"


def metrics_flags(port: int | None) -> dict[str, Any]:
    """Returns the keys that ``--metrics-port`` sets; None means not given."""
    from pymq.config.metrics import PROM

    return {"metricsExporterType": None if port is None else PROM, "metricsPromExporterPort": port}


def metrics_place(config: BrokerConfig | NamesrvConfig, default_host: str) -> MetricsPlace | None:
    """Returns the address at which a configuration serves metrics, None when it doesn't."""
    from pymq.clock import SystemClock
    from pymq.config.metrics import PROM
    from pymq.net.tls_settings import server_tls

    if config.metrics_exporter_type != PROM:
        return None
    host = config.metrics_prom_exporter_host or default_host
    return _place(
        host, config.metrics_prom_exporter_port, server_tls(config, SystemClock()), _token_in(config.metrics_token_file)
    )


def metrics_place_of_command(host: str, port: int | None) -> MetricsPlace | None:
    """Return where a command without a configuration file serves metrics; None without a port.

    TLS and token are as the environment says, by the variables that servers have, too. Raises ConfigError.
    """
    import os

    from pymq.clock import SystemClock
    from pymq.config.load import load_tls_config
    from pymq.net.tls_settings import server_tls

    if port is None:
        return None
    tls = server_tls(load_tls_config(os.environ), SystemClock())
    return _place(host, port, tls, _token_in(os.environ.get(TOKEN_FILE_VARIABLE, "")))


def _place(host: str, port: int, tls: ServerTls | None, token: str) -> MetricsPlace:
    """Return the address, and warn when hosts that were not meant to read the metrics can."""
    from pymq.cli.servers import print_warnings
    from pymq.config.security import metrics_exposure

    place = MetricsPlace(host, port, tls, token)
    print_warnings(metrics_exposure(host, has_token=bool(token), is_encrypted=place.is_encrypted))
    return place


def _token_in(path: str) -> str:
    """Return the token in a file; "" without a file. Raises ConfigError."""
    from pymq.errors import ConfigError, UsageError
    from pymq.security.private_file import read_private_file

    if not path:
        return ""
    try:
        token = read_private_file(path).decode("latin-1").strip()
    except UsageError as error:
        raise ConfigError(f"metricsTokenFile: {error}") from None
    if not 1 <= len(token) <= TOKEN_LENGTH_MAX or not all("!" <= each <= "~" for each in token):
        raise ConfigError(f"metricsTokenFile {path}: write 1 to {TOKEN_LENGTH_MAX} characters of ASCII without blanks")
    return token


@asynccontextmanager
async def serving_metrics(place: MetricsPlace | None, view: MetricsView) -> AsyncIterator[str]:
    """Serves metrics during the ``with`` block and yields "http://host:port", empty if ``place`` is None.

    Raises UsageError when the host or port can't be used.
    """
    if place is None:
        yield ""
        return
    from pymq.metrics.endpoint import MetricsEndpoint  # imports its libraries only when they are needed

    endpoint = MetricsEndpoint(view.collectors, view.labels, budget=view.budget, tls=place.tls, token=place.token)
    try:
        yield f"{place.scheme}://{await endpoint.start(place.host, place.port)}"
    finally:
        await endpoint.stop()


def metrics_text(address: str) -> str:
    """Returns the addition to a ready line."""
    return f"; metrics on {address}/metrics" if address else ""


def metrics_member(address: str) -> dict[str, str]:
    """Returns the addition to a ready object."""
    return {"metrics": address.partition("://")[2]} if address else {}
