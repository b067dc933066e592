"""Metrics beside a server: the settings of it, and the endpoint that lives as long as the server does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import typer

if TYPE_CHECKING:
    from pymq.metrics.family import Collector

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
    """What a role gives: asked for at each scrape."""

    def collectors(self) -> Sequence[Collector]: ...

    def labels(self) -> Mapping[str, str]: ...


class MetricsPlace(NamedTuple):
    """Where metrics are to be served."""

    host: str
    port: int


class MetricsSettings(Protocol):
    """The keys that a broker's and a name server's configuration share."""

    bind_address: str
    metrics_exporter_type: str
    metrics_prom_exporter_host: str
    metrics_prom_exporter_port: int


def metrics_flags(port: int | None) -> dict[str, Any]:
    """The keys that ``--metrics-port`` stands for; None means not given."""
    from pymq.config.metrics import PROM

    return {"metricsExporterType": None if port is None else PROM, "metricsPromExporterPort": port}


def metrics_place(config: MetricsSettings, default_host: str) -> MetricsPlace | None:
    """Where a configuration wants metrics to be served; None when it does not."""
    from pymq.config.metrics import PROM

    if config.metrics_exporter_type != PROM:
        return None
    return MetricsPlace(config.metrics_prom_exporter_host or default_host, config.metrics_prom_exporter_port)


@asynccontextmanager
async def serving_metrics(place: MetricsPlace | None, view: MetricsView) -> AsyncIterator[str]:
    """Serves them while the ``with`` lasts, and gives their "host:port", empty for no place.

    Raises UsageError when host or port can't be had.
    """
    if place is None:
        yield ""
        return
    from pymq.metrics.endpoint import MetricsEndpoint  # its libraries are only imported when they are needed

    endpoint = MetricsEndpoint(view.collectors, view.labels)
    try:
        yield await endpoint.start(place.host, place.port)
    finally:
        await endpoint.stop()


def metrics_text(address: str) -> str:
    """What a ready line adds."""
    return f"; metrics on http://{address}/metrics" if address else ""


def metrics_member(address: str) -> dict[str, str]:
    """What a ready object adds."""
    return {"metrics": address} if address else {}
