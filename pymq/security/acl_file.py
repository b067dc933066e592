"""AclFile: the users and policies of a 4.x ACL file, read at the start and again whenever the file has changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pymq.errors import ConfigError, UsageError
from pymq.security.guard import Guard
from pymq.security.identities import User, Users
from pymq.security.plain_acl import parse_plain_acl, users_and_policies
from pymq.security.policies import Policies
from pymq.security.private_file import read_private_file

log = logging.getLogger(__name__)

LOOK_PERIOD_MS: Final = 5000  # between two looks at the file, as RocketMQ's


class AclFile:
    """One file and the guard that it makes."""

    def __init__(
        self, path: str, cluster: str, server_user: User | None, read: Callable[[str], bytes] = read_private_file
    ) -> None:
        """``cluster``: the server's, see :class:`Guard`; ``server_user``: the user of servers, beside the file's."""
        self.path = path
        self._cluster = cluster
        self._server_user = server_user
        self._read = read
        self._seen = b""  # the content at the last look
        self._problem = ""  # that was said last

    def load(self) -> Guard:
        """Return the guard of the file. Raises ConfigError with the file's name, and line and column of a mistake."""
        try:
            self._seen = self._read(self.path)
            return self._guard(self._seen)
        except UsageError as error:
            raise ConfigError(f"plainAclFile: {self._named(error)}") from error

    def look(self) -> Guard | None:
        """Return another guard if the file has changed, None if it has not, or can't be used: the old rules stay."""
        try:
            raw = self._read(self.path)
            if raw == self._seen:
                return None
            self._seen, self._problem = raw, ""
            guard = self._guard(raw)
        except UsageError as error:
            problem = self._named(error)
            if problem != self._problem:
                log.error("the ACL file can't be used now, the old rules stay: %s", problem)
            self._problem = problem
            return None
        log.info("the ACL file %s has changed: it has %d accounts now", self.path, len(guard.users))
        return guard

    def _guard(self, raw: bytes) -> Guard:
        acl = parse_plain_acl(raw)
        for note in acl.notes:
            log.warning("%s: %s", self.path, note)
        users, policies = users_and_policies(acl)
        if self._server_user is not None:
            if any(user.name == self._server_user.name for user in users):
                raise UsageError(
                    f"the account {self._server_user.name} is the servers' own one, in innerCredentialsFile: give one "
                    "of the two another accessKey"
                )
            users.append(self._server_user)
        return Guard(Users(users, acl.trusted_from()), Policies(policies), self._cluster)

    def _named(self, error: UsageError) -> str:
        text = str(error)
        return text if text.startswith(self.path) else f"{self.path}: {text}"
