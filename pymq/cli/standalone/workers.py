"""``pymq standalone --workers``: a name server in the process that runs the workers."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import suppress
from typing import Any

from pymq.cli.broker.machine import CommandLine, Machine, running_workers
from pymq.cli.common.servers import make_namesrv, start_namesrv, tls_member, tls_text
from pymq.cli.common.serving_metrics import metrics_member, metrics_text
from pymq.cli.console.beside import console_beside, console_member, console_text
from pymq.cli.output import print_json_line
from pymq.cli.proxy.command import grpc_member, grpc_text
from pymq.config import BrokerConfig, NamesrvConfig
from pymq.config.security import AUTH_FILE_NAME, has_users, is_secured
from pymq.errors import StoppedError
from pymq.net.fork_server import BegunServer
from pymq.net.runtime import StopSignals
from pymq.security.credentials import Credentials
from pymq.security.security import server_credentials
from pymq.store.disk.fs import RealFiles
from pymq.store.disk.workers_file import is_store, planned_layout, read_layout

INNER_CREDENTIALS_KEY = "innerClientAuthenticationCredentials"
_PREFIX = "PYMQ_STANDALONE_INNER"  # of the variables that give the workers a secret of this process


async def serve_workers(
    namesrv_config: NamesrvConfig,
    config: BrokerConfig,
    line: CommandLine,
    forks: BegunServer | None,
    console_port: int | None,
    as_json: bool,
) -> None:
    """Run a name server and the workers until a signal comes. Raises UsageError, ConfigError, StoreError."""
    credentials, given, environ = _credentials(config)
    if has_users(config):
        namesrv_config.auth_file = _first_directory(config) + f"/config/{AUTH_FILE_NAME}"
    with StopSignals() as signals, suppress(StoppedError):
        namesrv = make_namesrv(namesrv_config, None, credentials)
        await start_namesrv(namesrv)
        try:
            config.namesrv_addr = namesrv.address
            own = line._replace(given=dict(line.given) | given | {"namesrvAddr": namesrv.address})
            async with (
                running_workers(config, own, signals, forks, os.environ | environ) as machine,
                console_beside(console_port, namesrv.address) as console,
            ):
                _print_ready(machine, console, as_json)
                await signals.wait()
        finally:
            await namesrv.stop()


def _first_directory(config: BrokerConfig) -> str:
    """Return the data directory of worker 0, also before the first start."""
    files, root = RealFiles(), config.store_path_root_dir
    layout = read_layout(files, root) or planned_layout(None, config.broker_name, 1, is_store=is_store(files, root))
    return layout.workers[0].directory(root)


def _credentials(config: BrokerConfig) -> tuple[Credentials | None, dict[str, str], dict[str, str]]:
    """Return what all servers sign with, and the settings and variables by which the workers get it.

    It is a secret of this process, unless the settings have one.
    """
    if not is_secured(config):
        return None, {}, {}
    given = server_credentials(config)
    if given is not None:
        return given, {}, {}
    secret = secrets.token_hex(32)
    variables = {f"{_PREFIX}_ACCESS_KEY": "pymq-standalone", f"{_PREFIX}_SECRET_KEY": secret}
    return Credentials("pymq-standalone", secret), {INNER_CREDENTIALS_KEY: f"env:{_PREFIX}"}, variables


def _print_ready(machine: Machine, console: str, as_json: bool) -> None:
    config, rows = machine.config, machine.rows()
    first = next(row["broker"] for row in rows if row["broker"])
    if as_json:
        ready: dict[str, Any] = {"namesrv": config.namesrv_addr, "broker": first, "store": config.store_path_root_dir}
        ready |= {"pid": os.getpid(), "machine": machine.layout.machine, "workers": rows, **tls_member(config)}
        print_json_line(ready | metrics_member(machine.metrics) | grpc_member(machine.grpc) | console_member(console))
        return
    text = f"ready: name server {config.namesrv_addr}, {machine.up_count} of {len(rows)} workers, data in "
    text += f"{config.store_path_root_dir}{metrics_text(machine.metrics)}{grpc_text(machine.grpc)}"
    print(text + console_text(console) + tls_text(config))
    for row in rows:
        print(f"  {row['name']} (pid {row['pid']}) on {row['broker'] or row['state']}")
    sys.stdout.flush()
