"""Every key of TLS, the same for name servers and brokers. RocketMQ has them as system properties of Java."""

# One key per row reads best as a table.
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass

from pymq.config.base import ORIGIN_DEFAULT, Config, format_value, setting
from pymq.errors import ConfigError

DISABLED, PERMISSIVE, ENFORCING = "disabled", "permissive", "enforcing"  # tls.server.mode
NONE, OPTIONAL, REQUIRE = "none", "optional", "require"  # tls.server.need.client.auth
CONFIG_FILE = "tls.config.file"
KEY_PREFIX = "tls."


@dataclass
class TlsConfig(Config):
    """The TLS keys of a server: ``tls.server.*`` for its own ports, ``tls.client.*`` for connections that it opens."""

    # fmt: off
    tls_server_mode: str = setting("tls.server.mode", PERMISSIVE, "`permissive` takes TLS and plain connections on every port, `enforcing` only TLS, `disabled` only plain ones. Without a certificate, `permissive` takes TLS if `tls.test.mode.enable` says so.", choices=(DISABLED, PERMISSIVE, ENFORCING))
    tls_test_mode_enable: bool = setting("tls.test.mode.enable", True, "With `permissive` and no certificate, make one that proves nothing, for clients that want TLS; needs the package `cryptography` ([TLS](tls.md)). A certificate that is given counts (in RocketMQ only with false).")
    tls_server_cert_path: str = setting("tls.server.certPath", "", "PEM file of the server's certificate, followed by those that lead to the CA.")
    tls_server_key_path: str = setting("tls.server.keyPath", "", "PEM file of the certificate's private key.")
    tls_server_key_password: str = setting("tls.server.keyPassword", "", "Password of that file; empty: it is not encrypted.", is_secret=True)
    tls_server_need_client_auth: str = setting("tls.server.need.client.auth", NONE, "Ask clients for a certificate: `none`, `optional` or `require`.", choices=(NONE, OPTIONAL, REQUIRE))
    tls_server_trust_cert_path: str = setting("tls.server.trustCertPath", "", "PEM file of the CAs that clients' certificates must come from.")
    tls_server_principal_mapping_rules: str = setting("tls.server.principalMappingRules", "", "Which user a client's certificate stands for, by its subject: rules as Kafka's `ssl.principal.mapping.rules`. Empty: none ([TLS](tls.md#certificates-as-users)).")
    tls_enable: bool = setting("tls.enable", False, "Use TLS for connections that this server opens: to name servers, to a master. Always true with `enforcing`.")
    tls_client_auth_server: bool = setting("tls.client.authServer", True, "Refuse servers without a certificate from a trusted CA (RocketMQ's default is false).")
    tls_client_trust_cert_path: str = setting("tls.client.trustCertPath", "", "PEM file of the CAs that servers' certificates must come from; empty: the system's CAs, with a check of the host name.")
    tls_client_cert_path: str = setting("tls.client.certPath", "", "PEM file of the certificate that this server shows to others.")
    tls_client_key_path: str = setting("tls.client.keyPath", "", "PEM file of that certificate's private key.")
    tls_client_key_password: str = setting("tls.client.keyPassword", "", "Password of that file.", is_secret=True)
    tls_config_file: str = setting(CONFIG_FILE, "", "Properties file with `tls.*` keys, as RocketMQ reads one. Its values count before those of the configuration file.")
    # fmt: on


def check_tls(config: TlsConfig) -> None:
    """Raise ConfigError for TLS keys that lack another one."""
    pairs = (
        ("tls.server.certPath", config.tls_server_cert_path, "tls.server.keyPath", config.tls_server_key_path),
        ("tls.client.certPath", config.tls_client_cert_path, "tls.client.keyPath", config.tls_client_key_path),
    )
    for cert_key, cert_path, key_key, key_path in pairs:
        if bool(cert_path) != bool(key_path):
            given, missing = (cert_key, key_key) if cert_path else (key_key, cert_key)
            raise ConfigError(f"{given} is set and {missing} is not: a certificate and its private key go together")
    if config.tls_server_mode == ENFORCING and not config.tls_server_cert_path:
        raise ConfigError(
            "tls.server.mode=enforcing needs a certificate: set tls.server.certPath and tls.server.keyPath "
            "(pymq auth cert makes them)"
        )
    if config.tls_server_need_client_auth != NONE and not config.tls_server_trust_cert_path:
        raise ConfigError(
            f"tls.server.need.client.auth={config.tls_server_need_client_auth} needs the CAs of the clients: set "
            "tls.server.trustCertPath"
        )
    if config.tls_server_principal_mapping_rules and config.tls_server_need_client_auth == NONE:
        raise ConfigError(
            "tls.server.principalMappingRules is for certificates, which this server does not ask for: set "
            "tls.server.need.client.auth=optional or require"
        )


def given_tls_keys(config: TlsConfig) -> dict[str, str]:
    """Return the TLS keys that were set, with their values, for another server of the same process."""
    keys = [name for name in config.settings() if name.startswith(KEY_PREFIX)]
    return {name: format_value(config.get(name)) for name in keys if config.origin(name) != ORIGIN_DEFAULT}
