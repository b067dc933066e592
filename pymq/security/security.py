"""Security: what a secured server has of users and permissions, put together once from its settings."""

from __future__ import annotations

from functools import partial

import msgspec

from pymq.clock import Clock
from pymq.config.security import (
    INIT_USER,
    INNER_CREDENTIALS,
    AuditSettings,
    SecuritySettings,
    WhitelistSettings,
    has_users,
    parse_codes,
)
from pymq.errors import ConfigError, UsageError
from pymq.security.acl_file import USER_TABLE, AclFile, read_user_file
from pymq.security.audit import Audit
from pymq.security.audit_file import AuditFile
from pymq.security.certificate_users import RULES_SETTING, CertificateUsers, parse_rules
from pymq.security.credentials import Credentials
from pymq.security.gatekeeper import Gatekeeper, OpenRequests
from pymq.security.guard import Checks
from pymq.security.identities import User, UserType


class _InnerCredentials(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """RocketMQ's JSON of ``innerClientAuthenticationCredentials``."""

    access_key: str
    secret_key: str
    security_token: str | None = None


class _InitUser(msgspec.Struct, forbid_unknown_fields=True):
    """RocketMQ's JSON of ``initAuthenticationUser``."""

    username: str
    password: str


class Security:
    """The gatekeeper of one server, and the file that it follows."""

    def __init__(self, acl_file: AclFile) -> None:
        """Raise ConfigError for a file that can't be used."""
        self._acl_file = acl_file
        self.gatekeeper = Gatekeeper(acl_file.load())

    def look(self) -> None:
        """Follow the file if it has changed. Call it every :data:`~pymq.security.acl_file.LOOK_PERIOD_MS`."""
        guard = self._acl_file.look()
        if guard is not None:
            self.gatekeeper.replace(guard)


def open_security(settings: SecuritySettings, cluster: str, credentials: Credentials | None) -> Security | None:
    """Return the security of a server that follows a file of users; None when every peer may send every request.

    ``cluster``: the server's, :data:`~pymq.model.access.EVERY_NAME` for a name server. ``credentials``: those of
    servers among each other. Raises ConfigError for a file that can't be used.
    """
    server_user = credentials.server_user() if credentials is not None else None
    if settings.acl_enable:
        return Security(AclFile(settings.plain_acl_file, cluster, server_user))
    if not has_users(settings):
        return None
    if not settings.auth_file:
        raise ConfigError(
            "requests are checked, and no file of users is named: set authFile to a broker's config/auth.json, or a "
            "copy of it"
        )
    return Security(
        AclFile(
            settings.auth_file,
            cluster,
            server_user,
            partial(
                read_user_file, is_optional=bool(settings.init_authentication_user) or settings.auth_file_comes_later
            ),
            form=USER_TABLE,
            first_administrator=partial(first_administrator, settings),
            checks=wanted_checks(settings),
        )
    )


def wanted_checks(settings: SecuritySettings) -> Checks:
    """Return what a server with users of RocketMQ 5.x checks."""
    return Checks(proof=settings.authentication_enabled, rights=settings.authorization_enabled)


def open_requests(settings: WhitelistSettings) -> OpenRequests:
    """Return the requests that the server's white lists open."""
    return OpenRequests(parse_codes(settings.authentication_whitelist), parse_codes(settings.authorization_whitelist))


def open_certificate_users(rules: str, gatekeeper: Gatekeeper | None, clock: Clock) -> None:
    """Have ``gatekeeper`` take connections' certificates for users, as the rules of the setting say.

    Raises ConfigError for rules that can't be used, and for a server that knows no users.
    """
    if not rules:
        return
    if gatekeeper is None:
        raise ConfigError(
            f"{RULES_SETTING} names users, and this server has none: set authenticationEnabled=true and "
            "authorizationEnabled=true, or aclEnable=true"
        )
    try:
        gatekeeper.certificates = CertificateUsers(parse_rules(rules), clock)
    except UsageError as error:
        raise ConfigError(f"{RULES_SETTING}: {error}") from error


def open_audit(settings: AuditSettings, clock: Clock, server: str, cluster: str) -> Audit | None:
    """Return the audit log that ``settings`` ask for; None without a directory.

    ``server``: the server's name in its lines; ``cluster``: as for :func:`open_security`.
    """
    if not settings.audit_log_dir:
        return None
    file = AuditFile(settings.audit_log_dir, settings.audit_log_file_bytes, settings.audit_log_file_count)
    return Audit(file, clock, server, cluster)


def server_credentials(settings: SecuritySettings) -> Credentials | None:
    """Return what a server signs its own requests with; None when none are set. Raises ConfigError."""
    path = settings.inner_credentials_file
    if path:
        try:
            return Credentials.from_file(path)
        except UsageError as error:
            raise ConfigError(f"innerCredentialsFile: {error}") from error
    return _credentials_in(INNER_CREDENTIALS, settings.inner_client_credentials)


def first_administrator(settings: SecuritySettings) -> User | None:
    """Return the user of ``initAuthenticationUser``, of type Super; None when none is set. Raises ConfigError."""
    credentials = _credentials_in(INIT_USER, settings.init_authentication_user)
    return credentials.user(UserType.SUPER) if credentials is not None else None


def _credentials_in(key: str, text: str) -> Credentials | None:
    """Return the credentials that a setting has or refers to. Raises ConfigError, whose text has no secret."""
    if not text:
        return None
    try:
        if not text.startswith("{"):
            return Credentials.find(text)
        if key == INIT_USER:
            user = msgspec.json.decode(text, type=_InitUser)
            return Credentials(user.username, user.password)
        inner = msgspec.json.decode(text, type=_InnerCredentials)
        return Credentials(inner.access_key, inner.secret_key, inner.security_token)
    except (msgspec.DecodeError, ValueError):
        members = "username and password" if key == INIT_USER else "accessKey and secretKey"
        raise ConfigError(f"{key}: the JSON has not the members {members}, each a text: correct it") from None
    except UsageError as error:
        raise ConfigError(f"{key}: {error}") from error
