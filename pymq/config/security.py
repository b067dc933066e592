"""Checks for security settings, and whether other machines can reach a server."""

from __future__ import annotations

import ipaddress
from typing import Protocol

from pymq.errors import ConfigError


class SecuritySettings(Protocol):
    """The settings about security, which brokers and name servers share."""

    @property
    def acl_enable(self) -> bool: ...

    @property
    def plain_acl_file(self) -> str: ...

    @property
    def inner_credentials_file(self) -> str: ...


def check_security(settings: SecuritySettings) -> None:
    """Raises ConfigError for security settings that exclude each other."""
    if settings.acl_enable and not settings.plain_acl_file:
        raise ConfigError("aclEnable=true needs the file of accounts: set plainAclFile=PATH/plain_acl.yml")


def check_exposure(
    what: str,
    address: str,
    *,
    is_secured: bool = False,
    is_encrypted: bool = False,
    proves_clients: bool = False,
    is_insecure: bool = False,
) -> list[str]:
    """Return a warning for a server that listens on ``address``, when other machines can reach it.

    ``what`` names the setting. A host name counts as open: it may stand for any address. ``is_secured``: it checks
    requests; ``is_encrypted``: it takes only TLS; ``proves_clients``: and only clients with a certificate. Raises
    ConfigError when it does none of that and the operator has not accepted it (``is_insecure``).
    """
    if _is_loopback(address) or (is_encrypted and (is_secured or proves_clients)):
        return []
    if is_secured:
        return [
            f"{what} is {address}: requests are checked but not encrypted, every host on their way can read them; "
            "set tls.server.mode=enforcing"
        ]
    open_to = f"{what} is {address}: every host that reaches the port can read, write and administer"
    if is_insecure:
        return [f"{open_to}, there is no authentication; use it only on a network where you trust all hosts"]
    raise ConfigError(
        f"{open_to}: name the users in an ACL file (aclEnable=true, plainAclFile=FILE; a filter server's --acl FILE), "
        "ask for certificates (tls.server.need.client.auth=require, tls.server.mode=enforcing), listen on 127.0.0.1, "
        "or accept it with --insecure (insecure=true)"
    )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
