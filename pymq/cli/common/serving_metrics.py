"""The metrics endpoint of a server: its settings, and a context manager that serves while the server runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol

import typer

if TYPE_CHECKING:
    from pymq.broker.assembly.broker import Broker
    from pymq.config import BrokerConfig, NamesrvConfig
    from pymq.metrics.endpoint import MetricsEndpoint
    from pymq.metrics.family import Collector
    from pymq.net.http import HttpAccess
    from pymq.net.memory_budget import MemoryBudget
    from pymq.net.runtime import StopSignals
    from pymq.net.tls import ServerTls

TOKEN_FILE_VARIABLE = "PYMQ_METRICS_TOKEN_FILE"  # noqa: S105 - no token, a name
ALLOWED_HOSTS_VARIABLE = "PYMQ_METRICS_ALLOWED_HOSTS"
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
    """The address at which to serve metrics, how it takes TLS, and the token that clients show ("" for none).

    ``own_hosts``: other names of the host, see :class:`~pymq.net.http.HttpAccess`.
    """

    host: str
    port: int
    tls: ServerTls | None = None
    token: str = ""
    own_hosts: tuple[str, ...] = ()

    @property
    def is_encrypted(self) -> bool:
        """Return True where clients without TLS are refused."""
        return self.tls is not None and self.tls.is_required

    @property
    def scheme(self) -> str:
        """What scrapers put before the address."""
        return "https" if self.is_encrypted else "http"

    def access(self) -> HttpAccess:
        """Return what the endpoint asks of scrapers."""
        from pymq.net.http import HttpAccess

        return HttpAccess(self.tls, self.token, (self.host, *self.own_hosts))


def metrics_flags(port: int | None) -> dict[str, Any]:
    """Return the keys that ``--metrics-port`` sets; None means not given."""
    from pymq.config.metrics import PROM

    return {"metricsExporterType": None if port is None else PROM, "metricsPromExporterPort": port}


def metrics_place(config: BrokerConfig | NamesrvConfig, default_host: str) -> MetricsPlace | None:
    """Return the address at which a configuration serves metrics, None when it doesn't. Raises ConfigError."""
    from pymq.clock import SystemClock
    from pymq.config.metrics import PROM, parse_hosts
    from pymq.metrics.token import read_token
    from pymq.net.tls_settings import server_tls

    if config.metrics_exporter_type != PROM:
        return None
    host = config.metrics_prom_exporter_host or default_host
    return MetricsPlace(
        host,
        config.metrics_prom_exporter_port,
        server_tls(config, SystemClock()),
        read_token(config.metrics_token_file),
        parse_hosts(config.metrics_allowed_hosts),
    )


def metrics_place_of_command(
    host: str, port: int | None, *, is_secured: bool = False, is_insecure: bool = False
) -> MetricsPlace | None:
    """Return where a command without a configuration file serves metrics; None without a port.

    TLS, token and names are as the environment says, by the variables that servers have, too. ``is_secured``: the
    command checks requests, or signs its own; ``is_insecure``: its ``--insecure``. Raises ConfigError.
    """
    import os

    from pymq.cli.common.servers import print_warnings
    from pymq.clock import SystemClock
    from pymq.config.load import load_tls_config
    from pymq.config.metrics import parse_hosts
    from pymq.config.security import metrics_exposure
    from pymq.config.tls import REQUIRE
    from pymq.metrics.token import read_token
    from pymq.net.tls_settings import server_tls

    if port is None:
        return None
    config = load_tls_config(os.environ)
    token = read_token(os.environ.get(TOKEN_FILE_VARIABLE, ""))
    names = parse_hosts(os.environ.get(ALLOWED_HOSTS_VARIABLE, ""))
    place = MetricsPlace(host, port, server_tls(config, SystemClock()), token, names)
    print_warnings(
        metrics_exposure(
            host,
            has_token=bool(token),
            is_encrypted=place.is_encrypted,
            is_secured=is_secured,
            proves_clients=config.tls_server_need_client_auth == REQUIRE,
            is_insecure=is_insecure,
        )
    )
    return place


@asynccontextmanager
async def serving_metrics(place: MetricsPlace | None, view: MetricsView) -> AsyncIterator[str]:
    """Serve metrics during the ``with`` block and yield "http://host:port", empty if ``place`` is None.

    Raises UsageError when the host or port can't be used.
    """
    if place is None:
        yield ""
        return
    from pymq.metrics.endpoint import MetricsEndpoint  # imports its libraries only when they are needed

    endpoint = MetricsEndpoint(view.collectors, view.labels, place.access(), budget=view.budget)
    try:
        yield f"{place.scheme}://{await endpoint.start(place.host, place.port)}"
    finally:
        await endpoint.stop()


@asynccontextmanager
async def answering_parent(broker: Broker, signals: StopSignals, view: MetricsView) -> AsyncIterator[None]:
    """Tell the process that runs this worker what it asks, during the ``with`` block. Brokers alone do nothing."""
    if not broker.config.is_worker:
        yield
        return
    import asyncio
    import json
    from functools import cache

    from pymq.broker.assembly.left_over import left_over
    from pymq.net.parent_link import LEFT_REQUEST, METRICS_REQUEST, ParentLink

    @cache
    def endpoint() -> MetricsEndpoint:
        from pymq.metrics.endpoint import MetricsEndpoint  # imports its libraries only when they are needed

        return MetricsEndpoint(view.collectors, view.labels, budget=view.budget)

    async def text() -> AsyncIterator[bytes]:
        async for piece in endpoint().text():
            yield piece

    async def left() -> AsyncIterator[bytes]:
        steps = left_over(broker.parts) if broker.parts is not None else None
        while steps is not None:
            try:
                next(steps)
            except StopIteration as end:
                yield json.dumps(end.value).encode()
                return
            await asyncio.sleep(0)
        yield b"null"  # it does not know while it starts

    link = ParentLink({METRICS_REQUEST: text, LEFT_REQUEST: left})
    signals.on_input = link.take
    try:
        yield
    finally:
        signals.on_input = None
        await link.close()


def metrics_text(address: str) -> str:
    """Return the addition to a ready line."""
    return f"; metrics on {address}/metrics" if address else ""


def metrics_member(address: str) -> dict[str, str]:
    """Return the addition to a ready object."""
    return {"metrics": address.partition("://")[2]} if address else {}
