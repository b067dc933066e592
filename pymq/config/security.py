"""Checks for security settings, and whether other machines can reach a server."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Final, Protocol

from pymq.config.base import ORIGIN_FILE, ORIGIN_FLAG, Config
from pymq.errors import ConfigError
from pymq.file_modes import is_open_to_others

AUTHENTICATION, AUTHORIZATION = "authenticationEnabled", "authorizationEnabled"
AUTHENTICATION_WHITELIST, AUTHORIZATION_WHITELIST = "authenticationWhitelist", "authorizationWhitelist"
CODE_LIST: Final = (r"(?:\s*\d{1,9}\s*(?:,\s*\d{1,9}\s*)*)?", "request codes separated by commas, for example 105,106")
# Requests that change nothing and tell a stranger no more than addresses: CHECK_CLIENT_CONFIG, GET_ROUTEINFO_BY_TOPIC,
# GET_BROKER_CLUSTER_INFO.
HARMLESS_CODES: Final = frozenset({46, 105, 106})
AUTH_FILE_NAME: Final = "auth.json"  # in a store's directory config/
INIT_USER: Final = "initAuthenticationUser"
# Of the audit log, unless it is set.
AUDIT_LOG_FILE_BYTES: Final = 10 * 1024 * 1024
AUDIT_LOG_FILE_COUNT: Final = 10
INNER_CREDENTIALS: Final = "innerClientAuthenticationCredentials"


class SecuritySettings(Protocol):
    """The settings about security, which brokers and name servers share."""

    @property
    def acl_enable(self) -> bool: ...

    @property
    def plain_acl_file(self) -> str: ...

    @property
    def inner_credentials_file(self) -> str: ...

    @property
    def authentication_enabled(self) -> bool: ...

    @property
    def authorization_enabled(self) -> bool: ...

    @property
    def init_authentication_user(self) -> str: ...

    @property
    def inner_client_credentials(self) -> str: ...

    @property
    def auth_file(self) -> str: ...

    @property
    def auth_file_comes_later(self) -> bool:
        """True when the broker that makes the file starts after this server, in the same process."""
        ...


class WhitelistSettings(SecuritySettings, Protocol):
    """The settings about requests that are open, which brokers and name servers share."""

    @property
    def authentication_whitelist(self) -> str: ...

    @property
    def authorization_whitelist(self) -> str: ...


def has_users(settings: SecuritySettings) -> bool:
    """True for a server that has users of RocketMQ 5.x."""
    return settings.authentication_enabled or settings.authorization_enabled


def is_secured(settings: SecuritySettings) -> bool:
    """True for a server that checks who sends each request, or what the sender may do; most check both."""
    return settings.acl_enable or has_users(settings)


def missing_half(settings: SecuritySettings) -> str:
    """Return what a server with one switch alone leaves open, as a sentence; empty for any other server."""
    if settings.authentication_enabled == settings.authorization_enabled:
        return ""
    if settings.authentication_enabled:
        return f"{AUTHENTICATION}=true without {AUTHORIZATION}=true: every user may do everything"
    return (
        f"{AUTHORIZATION}=true without {AUTHENTICATION}=true: nothing proves a user, so every peer may do what the "
        "user may whose name it gives"
    )


def parse_codes(text: str) -> frozenset[int]:
    """Return the request codes of a white list. ``text`` must match :data:`CODE_LIST`."""
    return frozenset(int(code) for code in text.split(",") if code.strip())


def whitelist_warnings(settings: WhitelistSettings) -> list[str]:
    """Return a sentence for each way in which the white lists open more, or less, than one may think."""
    unproven, free = parse_codes(settings.authentication_whitelist), parse_codes(settings.authorization_whitelist)
    if not (unproven or free):
        return []
    if not has_users(settings):
        return [f"{AUTHENTICATION_WHITELIST} and {AUTHORIZATION_WHITELIST} have no effect: {AUTHENTICATION} is off"]
    warnings = []
    if opened := _listed((unproven & free) - HARMLESS_CODES):
        warnings.append(
            f"{AUTHENTICATION_WHITELIST} and {AUTHORIZATION_WHITELIST} both name {opened}: every host that reaches the "
            "port may send these requests without a user"
        )
    if opened := _listed(free - unproven - HARMLESS_CODES):
        warnings.append(
            f"{AUTHORIZATION_WHITELIST} names {opened}: every user may send these requests, whatever its rules"
        )
    if settings.authorization_enabled and (useless := _listed(unproven - free)):
        warnings.append(
            f"{AUTHENTICATION_WHITELIST} names {useless}, and {AUTHORIZATION_WHITELIST} does not: without a user these "
            "requests are refused all the same, but for requests that need no right"
        )
    return warnings


def _listed(codes: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(codes)))


class AuditSettings(Protocol):
    """The settings of the audit log, which brokers and name servers share."""

    @property
    def audit_log_dir(self) -> str: ...

    @property
    def audit_log_file_bytes(self) -> int: ...

    @property
    def audit_log_file_count(self) -> int: ...


class SenderSettings(Protocol):
    """The limits of users and addresses, which brokers and name servers share; 0 is no limit."""

    @property
    def address_requests_per_second_max(self) -> int: ...

    @property
    def address_bytes_per_second_max(self) -> int: ...

    @property
    def user_requests_per_second_max(self) -> int: ...

    @property
    def user_bytes_per_second_max(self) -> int: ...

    @property
    def user_connection_count_max(self) -> int: ...


def check_security(settings: SecuritySettings) -> None:
    """Raise ConfigError for security settings that exclude each other."""
    if settings.acl_enable and not settings.plain_acl_file:
        raise ConfigError("aclEnable=true needs the file of accounts: set plainAclFile=PATH/plain_acl.yml")
    if settings.acl_enable and has_users(settings):
        key = AUTHENTICATION if settings.authentication_enabled else AUTHORIZATION
        raise ConfigError(f"aclEnable=true and {key}=true are two sources of users: keep the one that you manage")
    if settings.inner_credentials_file and settings.inner_client_credentials:
        raise ConfigError(f"innerCredentialsFile and {INNER_CREDENTIALS} are the same thing twice: keep one")


def check_where_secrets_are(config: Config, path: str | None) -> None:
    """Raise ConfigError for a secret that others can see: on a command line, or in the open file ``path``.

    A value that refers to a file or to variables holds no secret.
    """
    for key in (INIT_USER, INNER_CREDENTIALS):
        if not str(config.get(key)).lstrip().startswith("{"):
            continue
        if config.origin(key) == ORIGIN_FLAG:
            raise ConfigError(
                f"{key} has a secret on the command line, where other users see it: write {key}=file:PATH, and change "
                "the secret"
            )
        if path is not None and config.origin(key) == ORIGIN_FILE and is_open_to_others(Path(path).stat().st_mode):
            raise ConfigError(
                f"{path} holds a secret ({key}) and others than its owner can use it: run chmod 600 {path}, or write "
                f"{key}=file:PATH"
            )


def check_exposure(
    what: str,
    address: str,
    *,
    is_secured: bool = False,
    is_encrypted: bool = False,
    proves_clients: bool = False,
    is_insecure: bool = False,
    missing: str = "",
) -> list[str]:
    """Return a warning for a server that listens on ``address``, when other machines can reach it.

    ``what`` names the setting. A host name counts as open: it may stand for any address. ``is_secured``: it checks
    requests; ``is_encrypted``: it takes only TLS; ``proves_clients``: and only clients with a certificate. ``missing``:
    see :func:`missing_half`; half a check counts as none. Raises ConfigError when it does none of that and the operator
    has not accepted it (``is_insecure``).
    """
    warnings = [missing] if missing else []
    if is_loopback(address) or (is_encrypted and ((is_secured and not missing) or proves_clients)):
        return warnings
    if missing and not is_insecure:
        raise ConfigError(
            f"{what} is {address}, and {missing}: set both, listen on 127.0.0.1, or accept it with --insecure"
        )
    if is_secured and not missing:
        return [
            f"{what} is {address}: requests are checked but not encrypted, every host on their way can read them; "
            "set tls.server.mode=enforcing"
        ]
    open_to = f"{what} is {address}: every host that reaches the port can read, write and administer"
    if is_insecure:
        why = "requests are checked by half" if missing else "there is no authentication"
        return [*warnings, f"{open_to}, {why}; use it only on a network where you trust all hosts"]
    raise ConfigError(
        f"{open_to}: make users (pymq auth init DIR prints the settings), name them in an ACL file (aclEnable=true, "
        "plainAclFile=FILE; a filter server's --acl FILE), ask for certificates (tls.server.need.client.auth=require, "
        "tls.server.mode=enforcing), listen on 127.0.0.1, "
        "or accept it with --insecure (insecure=true)"
    )


def metrics_exposure(
    address: str,
    *,
    has_token: bool,
    is_encrypted: bool,
    is_secured: bool = False,
    proves_clients: bool = False,
    is_insecure: bool = False,
) -> list[str]:
    """Return a warning for metrics served on ``address``, when hosts that were not meant to read them can.

    The parameters are those of :func:`check_exposure`. Raises ConfigError where a server checks requests, and its
    metrics are open to other machines.
    """
    if is_loopback(address) or (is_encrypted and (has_token or proves_clients)):
        return []
    if has_token:
        return [
            f"metrics on {address}: their token is not encrypted, every host on its way can read it; "
            "set tls.server.mode=enforcing"
        ]
    open_to = (
        f"metrics on {address}: every host that reaches the port can read them, with the names of topics and groups"
    )
    advice = "name a file with a token (metricsTokenFile, or PYMQ_METRICS_TOKEN_FILE)"
    if is_secured and not is_insecure:
        raise ConfigError(
            f"{open_to}, while requests are checked: {advice}, serve them on 127.0.0.1 (metricsPromExporterHost; a "
            "command's --host), or, of a server, accept it with --insecure (insecure=true)"
        )
    return [f"{open_to}; {advice}"]


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone: ``localhost``, or an address of loopback. Other names are not."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
