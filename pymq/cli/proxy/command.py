"""``pymq proxy``: serves RocketMQ's 5.x clients, which speak gRPC, in front of a cluster until a signal stops it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from pymq.cli.common.options import DEFAULT_NAMESRV, NamesrvOption, request_credentials, split_addresses
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
from pymq.packages import pip_install

if TYPE_CHECKING:
    from pymq.broker.assembly.broker import Broker
    from pymq.client.tls import Tls
    from pymq.config.tls import TlsConfig
    from pymq.net.client import Sign
    from pymq.net.in_process import Accept
    from pymq.net.limits import ServerLimits
    from pymq.net.memory_budget import MemoryBudget
    from pymq.net.tls import ServerTls
    from pymq.proxy.server import ProxyServer
    from pymq.security.audit import Audit
    from pymq.security.credentials import Credentials
    from pymq.security.gatekeeper import Gatekeeper
    from pymq.security.security import Security

DEFAULT_PORT = 8081
CERTIFICATE_DAYS = 3650
_PORT_PREFIX = "PYMQ_GRPC_PORT"  # of the variables that give the workers of a machine what their ports sign with

GrpcPortOption = Annotated[
    int | None,
    typer.Option(
        "--grpc-port",
        metavar="PORT",
        min=0,
        max=65535,
        help="Serve clients that speak gRPC on this port, 0 for any free one; default none.",
    ),
]
SignatureAgeOption = Annotated[
    int | None,
    typer.Option(
        "--grpc-signature-age",
        metavar="SECONDS",
        min=1,
        help="Refuse gRPC calls signed longer ago, or for later, than this; default: any time will do.",
    ),
]

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
    acl: Annotated[
        str | None,
        typer.Option("--acl", metavar="FILE", help="Check clients by this 4.x ACL file (plain_acl.yml)."),
    ] = None,
    auth_file: Annotated[
        str | None,
        typer.Option("--auth-file", metavar="FILE", help="Check them by a broker's users: its config/auth.json."),
    ] = None,
    signature_age: SignatureAgeOption = None,
    metrics_port: MetricsPortOption = None,
    as_json: JsonOption = False,
    log_level: LogLevelOption = "info",
) -> None:
    """Serve RocketMQ's 5.x clients, which speak gRPC, in front of a cluster of PyMQ or RocketMQ.

    The port takes plain connections and TLS. Its certificate is made at the start, unless PYMQ_TLS_SERVER_CERT_PATH and
    PYMQ_TLS_SERVER_KEY_PATH name one (pymq docs tls).
    """
    from pymq.cli.common.servers import print_warnings, set_up_logging
    from pymq.config import check_exposure
    from pymq.config.load import load_tls_config
    from pymq.config.tls import ENFORCING, REQUIRE
    from pymq.errors import UsageError
    from pymq.net.runtime import run

    set_up_logging(log_level)
    host = host or "127.0.0.1"
    check_library()
    security = _open_security(acl, auth_file)
    if signature_age is not None and security is None:
        raise UsageError("--grpc-signature-age needs --auth-file or --acl: without users no signature is looked at")
    config = load_tls_config(os.environ)
    print_warnings(
        check_exposure(
            "--host",
            host,
            is_secured=security is not None,
            is_encrypted=config.tls_server_mode == ENFORCING,
            proves_clients=config.tls_server_need_client_auth == REQUIRE,
            is_insecure=insecure,
        )
    )
    addresses = split_addresses(namesrv)
    with server_tls(config, is_off=no_tls) as tls:
        place = metrics_place_of_command(host, metrics_port, is_secured=security is not None, is_insecure=insecure)
        run(_serve(addresses, host, port, tls, security, signature_age, place, as_json))


def _open_security(acl: str | None, auth_file: str | None) -> Security | None:
    """Return what checks clients; None when nothing does. Raises ConfigError, UsageError."""
    from pymq.config import load_namesrv_config
    from pymq.errors import UsageError
    from pymq.model.access import EVERY_NAME
    from pymq.security.security import open_security

    if acl and auth_file:
        raise UsageError("--acl and --auth-file exclude each other: give one of them")
    keys = {"aclEnable": "true", "plainAclFile": acl} if acl else {}
    if auth_file:
        keys = {"authenticationEnabled": "true", "authorizationEnabled": "true", "authFile": auth_file}
    return open_security(load_namesrv_config(None, keys), EVERY_NAME, None)


def check_library() -> None:
    """Raise UsageError when the extra is not installed."""
    from pymq.errors import UsageError

    try:
        import google.protobuf
        import hpack
    except ImportError as error:
        raise UsageError(f"gRPC needs the package {error.name}: install it with {pip_install('grpc')}") from None
    del google, hpack


@contextmanager
def server_tls(config: TlsConfig, *, is_off: bool = False) -> Iterator[ServerTls | None]:
    """Yield how the port takes TLS, as the settings say; a certificate that they don't name is made now.

    ``is_off``: plain connections only. Raises ConfigError, UsageError.
    """
    import tempfile
    from datetime import UTC, datetime
    from pathlib import Path

    from pymq.clock import SystemClock
    from pymq.config.tls import DISABLED, ENFORCING
    from pymq.errors import UsageError
    from pymq.net import tls_settings
    from pymq.net.tls import Identity
    from pymq.proxy.rpc.server import ALPN

    if is_off and config.tls_server_mode == ENFORCING:
        raise UsageError("--no-tls and tls.server.mode=enforcing (PYMQ_TLS_SERVER_MODE) exclude each other: keep one")
    if is_off or config.tls_server_mode == DISABLED:
        yield None
        return
    if config.tls_server_cert_path:
        yield tls_settings.server_tls(config, SystemClock(), protocols=ALPN)
        return
    from pymq.offline.certificates import Authority

    with tempfile.TemporaryDirectory(prefix="pymq-") as directory:
        authority = Authority(Path(directory), datetime.now(UTC))
        files = authority.issue("proxy", ["localhost", "127.0.0.1"], days=CERTIFICATE_DAYS)
        made = Identity(str(files.cert_path), str(files.key_path))
        yield tls_settings.server_tls(config, SystemClock(), otherwise=made, protocols=ALPN)


async def _serve(
    namesrv: list[str],
    host: str,
    port: int,
    tls: ServerTls | None,
    security: Security | None,
    signature_age_s: int | None,
    metrics_place: MetricsPlace | None,
    as_json: bool,
) -> None:
    from pymq.clock import SystemClock
    from pymq.net.runtime import StopSignals
    from pymq.net.ticker import Ticker
    from pymq.proxy.metrics import ProxyMetrics
    from pymq.security.acl_file import LOOK_PERIOD_MS
    from pymq.security.sender_limits import SenderLimits

    gatekeeper = security.gatekeeper if security is not None else None
    if gatekeeper is not None:
        gatekeeper.limits = SenderLimits(SystemClock())
    looks = Ticker(lambda: LOOK_PERIOD_MS, security.look) if security is not None else None
    with StopSignals() as signals:
        async with (
            serving_proxy(namesrv, host, port, tls, gatekeeper, signature_age_s=signature_age_s) as server,
            serving_metrics(metrics_place, ProxyMetrics(server)) as metrics,
        ):
            if looks is not None:
                looks.start()
            _print_ready(server.address, ";".join(namesrv), metrics, as_json)
            await signals.wait()
            if looks is not None:
                looks.stop()


@asynccontextmanager
async def serving_proxy(
    namesrv: list[str],
    host: str,
    port: int,
    tls: ServerTls | None,
    gatekeeper: Gatekeeper | None = None,
    audit: Audit | None = None,
    sign: Sign | None = None,
    in_process: Mapping[str, Accept] | None = None,
    outgoing: Tls | None = None,
    signature_age_s: int | None = None,
    limits: ServerLimits | None = None,
    budget: MemoryBudget | None = None,
    is_shared: bool = False,
) -> AsyncIterator[ProxyServer]:
    """Serve while the block runs; yields the server. ``sign``: in place of the credentials of the command's options;
    ``in_process``: brokers of this process, by address; ``outgoing``: TLS of connections to servers, None: the
    environment's; ``signature_age_s``: how far the time that a client signs may be from now; ``limits``: of
    connections; ``budget``: the process's, None: the port has one of its own; ``is_shared``: other workers have the
    same port.

    Raises UsageError when the port is in use.
    """
    from pymq.cli.common.servers import port_problem
    from pymq.client.instance import ClientInstance, ClusterAccess
    from pymq.client.tls import tls_context
    from pymq.net.limits import make_budget
    from pymq.proxy.client_backend import ClientBackend
    from pymq.proxy.server import ProxyServer
    from pymq.proxy.service import ProxyService

    instance = ClientInstance(ClusterAccess(namesrv, request_credentials.get(), outgoing))
    if sign is not None:
        instance.remoting.sign = sign
    instance.remoting.in_process.update(in_process or {})
    backend = ClientBackend(instance, tls_context(outgoing, instance.clock))
    age_ms = None if signature_age_s is None else signature_age_s * 1000
    service = ProxyService(backend, instance.clock, budget or make_budget())
    server = ProxyServer(service, tls, gatekeeper, audit, age_ms, limits)
    instance.start()
    try:
        try:
            await server.start(host, port, is_shared=is_shared)
        except OSError as error:
            raise port_problem(error, host, port) from error
        try:
            yield server
        finally:
            await server.stop()
    finally:
        await backend.close()
        await instance.close()


def _print_ready(address: str, namesrv: str, metrics: str, as_json: bool) -> None:
    if as_json:
        print_json_line({"proxy": address, "namesrv": namesrv, "pid": os.getpid(), **metrics_member(metrics)})
    else:
        text = metrics_text(metrics)
        print(f"proxy ready on {address}, for the cluster of name server {namesrv}{text}", flush=True)


@asynccontextmanager
async def proxy_beside(port: int | None, signature_age_s: int | None, broker: Broker) -> AsyncIterator[str]:
    """Serve gRPC clients in a broker's process while the block runs; yields the address, empty without a port.

    The broker's users and rules, limits, audit log and TLS are those of the port. Raises UsageError.
    """
    from pymq.cli.common.options import split_addresses
    from pymq.errors import UsageError
    from pymq.net.limits import server_limits
    from pymq.net.server import Connection

    if signature_age_s is not None and (port is None or broker.security.gatekeeper is None):
        raise UsageError("--grpc-signature-age needs --grpc-port and a broker with users (authenticationEnabled=true)")
    if port is None:
        yield ""
        return
    check_library()
    security, addresses = broker.security, split_addresses(broker.config.namesrv_addr)
    sign = security.open_port(_port_credentials(os.environ if broker.config.is_worker else port_variables()))
    host = broker.config.bind_address
    accepting: dict[str, Accept] = {broker.address: lambda: Connection(broker.server)}
    with server_tls(broker.config) as tls:
        async with serving_proxy(
            addresses,
            host,
            port,
            tls,
            security.gatekeeper,
            security.audit,
            sign,
            accepting,
            outgoing_tls(broker.config),
            signature_age_s,
            server_limits(broker.config),
            broker.budget,
            broker.config.is_worker,
        ) as server:
            broker.config.add_listener(lambda _: server.rpc.take_limits(server_limits(broker.config)))
            yield server.address


def port_variables() -> dict[str, str]:
    """Return a new name and secret for gRPC ports to sign with, as variables for the workers that share it."""
    import secrets

    name, secret = f"pymq-grpc-port-{secrets.token_hex(8)}", secrets.token_hex(32)
    return {f"{_PORT_PREFIX}_ACCESS_KEY": name, f"{_PORT_PREFIX}_SECRET_KEY": secret}


def _port_credentials(variables: Mapping[str, str]) -> Credentials:
    """Return what a gRPC port signs with. Raises UsageError without the variables."""
    from pymq.security.credentials import Credentials

    found = Credentials.find(f"env:{_PORT_PREFIX}", variables)
    assert found is not None  # a reference is given
    return found


def outgoing_tls(config: TlsConfig) -> Tls | None:
    """Return the TLS of connections to servers as a broker's settings say; None: they say none."""
    from pymq.client.tls import Tls
    from pymq.config.tls import ENFORCING

    if not config.tls_enable and config.tls_server_mode != ENFORCING:
        return None
    return Tls(
        trust_path=config.tls_client_trust_cert_path,
        cert_path=config.tls_client_cert_path,
        key_path=config.tls_client_key_path,
        key_password=config.tls_client_key_password,
        check_server=config.tls_client_auth_server,
    )


def grpc_member(address: str) -> dict[str, str]:
    """Return the address as a member of a ready object; none without one."""
    return {"grpc": address} if address else {}


def grpc_text(address: str) -> str:
    """Return the address as a part of a ready line; empty without one."""
    return f", gRPC on {address}" if address else ""
