"""Parts of all server commands: configuration from flags, logging, starting a server, and waiting for its end."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pymq.cli.common.options import parse_pairs
from pymq.cli.output import print_note

if TYPE_CHECKING:
    from pymq.broker.assembly.broker import Broker
    from pymq.config import BrokerConfig, NamesrvConfig
    from pymq.config.runtime import Keeper
    from pymq.config.tls import TlsConfig
    from pymq.namesrv.server import NameServer
    from pymq.net.memory_budget import MemoryBudget
    from pymq.net.runtime import StopSignals
    from pymq.security.credentials import Credentials

COMMAND_NAME_LENGTH = 15  # that Linux keeps; of long names the end differs
HostOption = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; default 127.0.0.1.")
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure", help="Let other machines reach a server that checks no request.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the configuration; repeatable.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the ready message as one JSON object.")]
WorkersOption = Annotated[
    str | None,
    typer.Option(
        "--workers", metavar="N", help="Run N brokers side by side, a process each; auto: one for each core but one."
    ),
]
LogLevelOption = Annotated[
    str, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error; logs go to stderr.")
]


def build_namesrv_config(path: str | None, settings: Sequence[str] | None, flags: Mapping[str, Any]) -> NamesrvConfig:
    """Build a configuration from a file, ``--set`` pairs and flags, which win. Raises ConfigError.

    ``flags``: by key; None means not given.
    """
    from pymq.config import load_namesrv_config

    config = load_namesrv_config(path, given_pairs(settings, flags), env=os.environ)
    print_warnings(config.warnings)
    return config


def build_broker_config(
    path: str | None,
    settings: Sequence[str] | None,
    flags: Mapping[str, Any],
    defaults: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """Do the same as :func:`build_namesrv_config` for a broker, with an absolute store path.

    ``defaults`` replace those of the keys they name.
    """
    from pymq.config import load_broker_config

    config = load_broker_config(path, given_pairs(settings, flags), env=os.environ, defaults=defaults)
    config.store_path_root_dir = os.path.abspath(os.path.expanduser(config.store_path_root_dir))  # noqa: PTH100, PTH111
    if not config.is_worker:  # its machine has printed them
        print_warnings(config.warnings)
    return config


def given_pairs(settings: Sequence[str] | None, flags: Mapping[str, Any]) -> dict[str, str]:
    """Return what the command line sets, by key: ``--set`` pairs and flags, which win. Raises UsageError."""
    result = parse_pairs(settings or (), "--set")
    result.update({key: str(value) for key, value in flags.items() if value is not None})
    return result


def print_warnings(warnings: Sequence[str]) -> None:
    """Print warnings about a configuration to stderr."""
    for warning in warnings:
        print_note(f"pymq: warning: {warning}")


def set_up_logging(level: str) -> None:
    """Log to stderr from ``level`` up, within limits. Raises UsageError for an unknown level."""
    from pymq.clock import SystemClock
    from pymq.errors import UsageError
    from pymq.log_limit import LogLimit

    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise UsageError(f"{level!r} is not a log level: use debug, info, warning or error")
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(LogLimit(SystemClock()))
    # Does nothing when the process has handlers, as under a test runner: then the log is not ours to limit.
    logging.basicConfig(handlers=[handler], level=number, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")


def name_worker(name: str) -> None:
    """Begin each line of this process's log with ``name``, and have ``top`` and ``ps -c`` show it, where they can."""
    from contextlib import suppress
    from pathlib import Path

    with suppress(OSError):
        Path("/proc/self/comm").write_text(name[-COMMAND_NAME_LENGTH:], encoding="utf-8")
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)-7s {name} %(name)s: %(message)s"))


def make_namesrv(
    config: NamesrvConfig, budget: MemoryBudget | None = None, credentials: Credentials | None = None
) -> NameServer:
    """Return a name server with this machine's clock, for :func:`start_namesrv`.

    ``budget`` and ``credentials``: the process's, when it has another role too. Raises ConfigError.
    """
    from pymq.clock import SystemClock
    from pymq.namesrv.server import NameServer

    _make_own_users(config)
    keeper = _keeper(config.runtime_settings_path)
    return NameServer(clock=SystemClock(), config=config, budget=budget, keeper=keeper, credentials=credentials)


def _make_own_users(config: NamesrvConfig) -> None:
    """Give a name server that checks requests, and has no authFile, one of its own with the first user in it.

    Raises ConfigError, StoreError for a file that can't be used.
    """
    from pathlib import Path

    from pymq.config.security import AUTH_FILE_NAME, has_users
    from pymq.errors import ConfigError, UsageError
    from pymq.offline.auth_files import make_first_user
    from pymq.security.security import first_administrator
    from pymq.store.disk.fs import RealFiles

    if not has_users(config) or config.auth_file:
        return
    first = first_administrator(config)
    path = str(Path.home() / ".pymq" / f"namesrv-{config.listen_port}" / AUTH_FILE_NAME)
    if first is None and not Path(path).exists():
        raise ConfigError(
            "requests are checked, and this name server has no users: set initAuthenticationUser, which makes the "
            f"first one in {path}, or set authFile to a broker's config/auth.json or a copy of it"
        )
    try:
        if first is not None and make_first_user(RealFiles(), path, first):
            print_note(f"pymq: made the user {first.name} of type Super in {path}")
    except UsageError as error:
        raise ConfigError(f"{path}: {error}") from error
    config.auth_file = path
    print_warnings(
        [f"this name server knows the users in {path} alone: set authFile to a broker's config/auth.json for its users"]
    )


def _keeper(path: str) -> Keeper | None:
    """Return what saves a name server's kept settings in a file; None for an empty path."""
    if not path:
        return None
    from pymq.broker.metadata.table_saver import TableSaver
    from pymq.config.runtime import MEMBER
    from pymq.store.disk.fs import RealFiles, make_directory
    from pymq.store.disk.json_table import JsonTable

    files, path = RealFiles(), os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111
    make_directory(files, os.path.dirname(path))  # noqa: PTH120
    return TableSaver(JsonTable(files, path, MEMBER))


async def start_namesrv(server: NameServer) -> None:
    """Return once the name server listens. Raises UsageError when the port is in use."""
    config = server.config
    try:
        await server.start()
    except OSError as error:
        raise port_problem(error, config.bind_address, config.listen_port) from error


def make_broker(config: BrokerConfig, credentials: Credentials | None = None) -> Broker:
    """Return a broker with this machine's clock and files, for :func:`start_broker`. Raises ConfigError.

    ``credentials``: those of servers, in place of innerCredentialsFile.
    """
    import random

    from pymq.broker.assembly.broker import Broker
    from pymq.clock import GuardedClock
    from pymq.config.base import add_derived
    from pymq.config.security import is_secured
    from pymq.store.disk.fs import RealFiles

    if is_secured(config):
        add_derived(config, "auditLogDir", f"{config.store_path_root_dir}/audit")
    # Of the system: what proves the servers' credential must not be guessed from what was drawn before.
    rng = random.SystemRandom()
    return Broker(config, clock=GuardedClock(), files=RealFiles(), rng=rng, credentials=credentials)


async def start_broker(broker: Broker, signals: StopSignals) -> None:
    """Return once the broker has recovered its store and listens; stop it when an error is raised.

    Raises UsageError when the port is in use, StoppedError when a signal ends the start.
    """
    config = broker.config
    try:
        await signals.unless_stopped(broker.start(lambda: signals.came))
    except BaseException as error:
        await broker.stop()
        if isinstance(error, OSError):
            raise port_problem(error, config.bind_address, config.listen_port) from error
        raise


def fast_port_member(config: BrokerConfig) -> dict[str, int]:
    """Return the second port as a member of a ready object; none when the broker has none."""
    return {"fast_port": config.fast_listen_port} if config.fast_listen_port > 0 else {}


def fast_port_text(config: BrokerConfig) -> str:
    """Return the second port as a part of a ready line; empty when the broker has none."""
    return f" and port {config.fast_listen_port}" if config.fast_listen_port > 0 else ""


def tls_member(config: TlsConfig) -> dict[str, str]:
    """Return which TLS the ports take, as a member of a ready object.

    ``own`` is that of a certificate that proves nothing, ``given`` that of the settings' certificate.
    """
    from pymq.config.tls import DISABLED
    from pymq.net.tls_settings import is_own

    if is_own(config):
        return {"tls": "own"}
    return {"tls": "given" if config.tls_server_cert_path and config.tls_server_mode != DISABLED else "off"}


def tls_text(config: TlsConfig) -> str:
    """Return a part of a ready line for a certificate that proves nothing; empty for others and for none."""
    return "; TLS with a certificate that proves nothing" if tls_member(config)["tls"] == "own" else ""


async def serve_until_stopped(broker: Broker, signals: StopSignals) -> None:
    """Return at the first signal. Raises the error of a failed role change, which ends the broker."""
    from contextlib import suppress

    from pymq.errors import StoppedError

    with suppress(StoppedError):
        await signals.unless_stopped(broker.wait_failed())


def port_problem(error: OSError, host: str, port: int) -> Exception:
    import errno

    from pymq.errors import UsageError

    if error.errno == errno.EADDRINUSE:
        return UsageError(f"{host}:{port} is in use by another process: choose another port, or 0 for any free one")
    if error.errno == errno.EADDRNOTAVAIL:
        return UsageError(f"{host} is not an address of this machine: choose another one to listen on")
    return error
