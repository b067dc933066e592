"""TLS of a client's connections: files given by the program, or by the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pymq.clock import Clock
from pymq.errors import ConfigError, UsageError
from pymq.net.tls import Identity, WatchedContext, client_context

ENABLE_VARIABLE = "PYMQ_TLS_ENABLE"


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS for all connections of a client. Paths are of PEM files.

    ``trust_path`` holds the CAs that servers' certificates must come from; without it, the system's CAs count, and the
    host name must be the certificate's. ``cert_path`` and ``key_path`` show a certificate to servers that ask for one.
    ``check_server=False`` takes any server, for tests: a stranger in between can read and change everything.
    """

    trust_path: str = ""
    cert_path: str = ""
    key_path: str = ""
    key_password: str = ""
    check_server: bool = True


def tls_context(tls: Tls | None, clock: Clock) -> WatchedContext | None:
    """Return the TLS of a client; None for plain connections.

    ``tls`` None: the environment's, if PYMQ_TLS_ENABLE is true there. The variables are those of the servers' settings
    ``tls.enable`` and ``tls.client.*``. Raises UsageError for files or values that can't be used.
    """
    try:
        return _of_environment(clock) if tls is None else _of(tls, clock)
    except ConfigError as error:
        raise UsageError(f"TLS: {error}") from None


def _of(tls: Tls, clock: Clock) -> WatchedContext:
    if bool(tls.cert_path) != bool(tls.key_path):
        raise UsageError("Tls has one of cert_path and key_path: a certificate and its private key go together")
    identity = Identity(tls.cert_path, tls.key_path, tls.key_password) if tls.cert_path else None
    return client_context(clock, trust_path=tls.trust_path, identity=identity, is_checked=tls.check_server)


def _of_environment(clock: Clock) -> WatchedContext | None:
    if not os.environ.get(ENABLE_VARIABLE):
        return None
    # Only now: the settings of servers take a while to import.
    from pymq.config.load import load_tls_config  # noqa: PLC0415
    from pymq.net.tls_settings import outgoing_tls  # noqa: PLC0415

    return outgoing_tls(load_tls_config(os.environ), clock)
