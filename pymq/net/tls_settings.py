"""The TLS of a server's ports and of the connections that it opens, from its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pymq.clock import Clock
from pymq.config.tls import DISABLED, ENFORCING, NONE, PERMISSIVE, REQUIRE, TlsConfig
from pymq.net.own_certificate import OwnContext, can_be_made
from pymq.net.tls import Identity, ServerTls, WatchedContext, client_context, server_context


class TlsContexts(NamedTuple):
    """The TLS of a server's ports, and of the connections that it opens; None where they are plain.

    ``own``: of the ports that clients use, where :attr:`ports` is None; its certificate proves nothing.
    """

    ports: ServerTls | None
    outgoing: WatchedContext | None
    own: ServerTls | None = None

    @property
    def client_ports(self) -> ServerTls | None:
        """The TLS of the ports that clients use."""
        return self.ports or self.own

    @classmethod
    def of(cls, config: TlsConfig, clock: Clock) -> TlsContexts:
        """Return both as the settings say. Raises ConfigError."""
        own = ServerTls(OwnContext(clock)) if is_own(config) else None
        return cls(server_tls(config, clock), outgoing_tls(config, clock), own)


def server_tls(
    config: TlsConfig, clock: Clock, *, otherwise: Identity | None = None, protocols: Sequence[str] = ()
) -> ServerTls | None:
    """Return how the ports of a server with this configuration take TLS; None: they don't. Raises ConfigError.

    ``otherwise``: the certificate in place of one that the configuration does not name; ``protocols``: see
    :func:`~pymq.net.tls.server_context`.
    """
    identity = otherwise
    if config.tls_server_cert_path:
        identity = Identity(config.tls_server_cert_path, config.tls_server_key_path, config.tls_server_key_password)
    if config.tls_server_mode == DISABLED or identity is None:
        return None
    auth = config.tls_server_need_client_auth
    context = server_context(
        identity,
        clock,
        trust_path=config.tls_server_trust_cert_path if auth != NONE else "",
        is_client_required=auth == REQUIRE,
        protocols=protocols,
    )
    return ServerTls(
        context,
        is_required=config.tls_server_mode == ENFORCING,
        principal_rules=config.tls_server_principal_mapping_rules,
    )


def is_own(config: TlsConfig) -> bool:
    """True when a server with this configuration makes a certificate of its own, which proves nothing."""
    return (
        config.tls_server_mode == PERMISSIVE
        and config.tls_test_mode_enable
        and not config.tls_server_cert_path
        and config.tls_server_need_client_auth == NONE
        and can_be_made()
    )


def outgoing_tls(config: TlsConfig, clock: Clock) -> WatchedContext | None:
    """Return the TLS of connections that a server with this configuration opens; None: they are plain.

    Raises ConfigError.
    """
    if not config.tls_enable and config.tls_server_mode != ENFORCING:
        return None
    identity = None
    if config.tls_client_cert_path:
        identity = Identity(config.tls_client_cert_path, config.tls_client_key_path, config.tls_client_key_password)
    return client_context(
        clock,
        trust_path=config.tls_client_trust_cert_path,
        identity=identity,
        is_checked=config.tls_client_auth_server,
    )
