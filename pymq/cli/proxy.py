"""``pymq proxy``: serves RocketMQ's 5.x clients, which speak gRPC, in front of a cluster until a signal stops it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.lazy import examples, new_app
from pymq.cli.options import DEFAULT_NAMESRV, NamesrvOption, request_credentials, split_addresses
from pymq.cli.output import print_json_line
from pymq.cli.servers import HostOption, InsecureOption, JsonOption, LogLevelOption

if TYPE_CHECKING:
    from pymq.net.tls import ServerTls

DEFAULT_PORT = 8081
CERTIFICATE_DAYS = 3650

app = new_app()


@app.command(
    epilog=examples(
        "pymq proxy",
        "pymq proxy --namesrv 10.0.0.5:9876 --host 0.0.0.0 --insecure",
        "pymq proxy --port 0 --no-tls --json",
    )
)
def proxy(
    namesrv: NamesrvOption = DEFAULT_NAMESRV,
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="Port to listen on, 0 for any free one.")
    ] = DEFAULT_PORT,
    host: HostOption = None,
    insecure: InsecureOption = False,
    no_tls: Annotated[bool, typer.Option("--no-tls", help="Take plain connections only.")] = False,
    as_json: JsonOption = False,
    log_level: LogLevelOption = "info",
) -> None:
    """Serve RocketMQ's 5.x clients, which speak gRPC, in front of a cluster of PyMQ or RocketMQ.

    The port takes plain connections and TLS. Its certificate is made at the start, unless PYMQ_TLS_SERVER_CERT_PATH and
    PYMQ_TLS_SERVER_KEY_PATH name one (docs/tls.md).
    """
    from pymq.cli.servers import print_warnings, set_up_logging
    from pymq.config import check_exposure
    from pymq.net.runtime import run

    set_up_logging(log_level)
    host = host or "127.0.0.1"
    print_warnings(check_exposure("--host", host, is_secured=False, is_insecure=insecure))
    addresses = split_addresses(namesrv)
    check_library()
    with server_tls(is_off=no_tls) as tls:
        run(_serve(addresses, host, port, tls, as_json))


def check_library() -> None:
    """Raises UsageError when the extra is not installed."""
    from pymq.errors import UsageError

    try:
        import grpc
        import grpc_health
        import grpc_reflection
    except ImportError as error:
        raise UsageError(
            f"gRPC needs the package {error.name}: install it with pip install 'pymq-toolkit[grpc]'"
        ) from None
    del grpc, grpc_health, grpc_reflection


@contextmanager
def server_tls(*, is_off: bool) -> Iterator[ServerTls | None]:
    """Yields how the port takes TLS: with the certificate of the environment, else with one made now."""
    import tempfile
    from datetime import UTC, datetime
    from pathlib import Path

    from pymq.clock import SystemClock
    from pymq.config.load import load_tls_config
    from pymq.net.tls import Identity, ServerTls, server_context
    from pymq.proxy.front import ALPN

    clock = SystemClock()
    config = load_tls_config(os.environ)
    if is_off:
        yield None
        return
    if config.tls_server_cert_path:
        identity = Identity(config.tls_server_cert_path, config.tls_server_key_path, config.tls_server_key_password)
        yield ServerTls(server_context(identity, clock, protocols=ALPN))
        return
    from pymq.offline.certificates import Authority

    with tempfile.TemporaryDirectory(prefix="pymq-") as directory:
        authority = Authority(Path(directory), datetime.now(UTC))
        files = authority.issue("proxy", ["localhost", "127.0.0.1"], days=CERTIFICATE_DAYS)
        yield ServerTls(server_context(Identity(str(files.cert_path), str(files.key_path)), clock, protocols=ALPN))


async def _serve(namesrv: list[str], host: str, port: int, tls: ServerTls | None, as_json: bool) -> None:
    from pymq.net.runtime import StopSignals

    with StopSignals() as signals:
        async with serving_proxy(namesrv, host, port, tls) as address:
            _print_ready(address, ";".join(namesrv), as_json)
            await signals.wait()


@asynccontextmanager
async def serving_proxy(namesrv: list[str], host: str, port: int, tls: ServerTls | None) -> AsyncIterator[str]:
    """Serves while the block runs; yields the address. Raises UsageError when the port is in use."""
    from pymq.cli.servers import port_problem
    from pymq.client.instance import ClientInstance
    from pymq.client.tls import tls_context
    from pymq.model.hosts import format_address
    from pymq.proxy.client_backend import ClientBackend
    from pymq.proxy.server import ProxyServer
    from pymq.proxy.service import ProxyService

    instance = ClientInstance(namesrv, credentials=request_credentials.get())
    backend = ClientBackend(instance, tls_context(None, instance.clock))
    server = ProxyServer(ProxyService(backend, instance.clock), tls)
    instance.start()
    try:
        try:
            bound = await server.start(host, port)
        except OSError as error:
            raise port_problem(error, host, port) from error
        try:
            yield format_address(host, bound)
        finally:
            await server.stop()
    finally:
        await backend.close()
        await instance.close()


def _print_ready(address: str, namesrv: str, as_json: bool) -> None:
    if as_json:
        print_json_line({"proxy": address, "namesrv": namesrv, "pid": os.getpid()})
    else:
        print(f"proxy ready on {address}, for the cluster of name server {namesrv}", flush=True)
