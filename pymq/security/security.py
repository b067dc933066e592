"""Security: what a secured server has of users and permissions, put together once from its settings."""

from __future__ import annotations

from pymq.config.security import SecuritySettings
from pymq.errors import ConfigError, UsageError
from pymq.security.acl_file import AclFile
from pymq.security.credentials import Credentials
from pymq.security.gatekeeper import Gatekeeper


class Security:
    """The gatekeeper of one server, and the file that it follows."""

    def __init__(self, acl_file: AclFile) -> None:
        """Raises ConfigError for a file that can't be used."""
        self._acl_file = acl_file
        self.gatekeeper = Gatekeeper(acl_file.load())

    def look(self) -> None:
        """Follows the file if it has changed. Call it every :data:`~pymq.security.acl_file.LOOK_PERIOD_MS`."""
        guard = self._acl_file.look()
        if guard is not None:
            self.gatekeeper.replace(guard)


def open_security(settings: SecuritySettings, cluster: str, credentials: Credentials | None) -> Security | None:
    """Return the security that ``settings`` ask for; None when every peer may send every request.

    ``cluster``: the server's, :data:`~pymq.model.access.EVERY_NAME` for a name server. ``credentials``: those of
    servers among each other. Raises ConfigError for a file that can't be used.
    """
    if not settings.acl_enable:
        return None
    server_user = credentials.server_user() if credentials is not None else None
    return Security(AclFile(settings.plain_acl_file, cluster, server_user))


def server_credentials(settings: SecuritySettings) -> Credentials | None:
    """Return what a server signs its own requests with; None when no file is set. Raises ConfigError."""
    path = settings.inner_credentials_file
    if not path:
        return None
    try:
        return Credentials.from_file(path)
    except UsageError as error:
        raise ConfigError(f"innerCredentialsFile: {error}") from error
