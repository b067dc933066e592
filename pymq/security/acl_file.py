"""AclFile: the users and policies of a file, read at the start and again whenever the file has changed.

The file is RocketMQ's of 4.x (``plain_acl.yml``), or the one in which a broker of PyMQ keeps the users of 5.x.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from pymq.errors import ConfigError, UsageError
from pymq.model import fastjson
from pymq.security.addresses import AddressRange
from pymq.security.guard import BOTH, Checks, Guard
from pymq.security.identities import User, Users
from pymq.security.plain_acl import parse_plain_acl, users_and_policies
from pymq.security.policies import Policies
from pymq.security.private_file import read_private_file
from pymq.security.user_table import from_json

log = logging.getLogger(__name__)

LOOK_PERIOD_MS: Final = 5000  # between two looks at the file, as RocketMQ's
USER_FILE_SIZE_MAX_BYTES: Final = 16 * 1024 * 1024  # a file with as many users and entries as a broker keeps


class Rules(NamedTuple):
    """What a file says. ``notes``: what in it has no effect, or opens more than one may think."""

    users: Sequence[User]
    policies: Policies
    trusted_from: Sequence[AddressRange] = ()
    notes: Sequence[str] = ()


def read_plain_acl(raw: bytes) -> Rules:
    """Return the rules of a 4.x ACL file.

    Raises YamlError with line and column; UsageError for a file that lets nobody in, as one is while it is written.
    """
    acl = parse_plain_acl(raw)
    users, policies = users_and_policies(acl)
    if not users and not acl.trusted_from():
        raise UsageError("the file has no account and no white list, nobody could do anything: add an account")
    return Rules(users, Policies(policies), acl.trusted_from(), acl.notes)


def read_user_table(raw: bytes) -> Rules:
    """Return the rules of a broker's file of users; none of an empty text. Raises UsageError."""
    if len(raw) > USER_FILE_SIZE_MAX_BYTES:
        raise UsageError(f"the file has more than {USER_FILE_SIZE_MAX_BYTES} bytes, the limit: is it a file of users?")
    try:
        content = fastjson.loads(raw) if raw else {}
    except fastjson.JsonError as error:
        raise UsageError(f"the file is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise UsageError("the file is no JSON object: name a broker's config/auth.json, or a copy of it")
    table = from_json(content)
    return Rules(list(table.users), table.policies)


class FileForm(NamedTuple):
    """A form of files of users: the setting that names such a file, and how its content is read."""

    setting: str
    parse: Callable[[bytes], Rules]


PLAIN_ACL: Final = FileForm("plainAclFile", read_plain_acl)
USER_TABLE: Final = FileForm("authFile", read_user_table)


def read_user_file(path: str, *, is_optional: bool) -> bytes:
    """Return the content of a broker's file of users; nothing of one that ``is_optional`` and not there yet."""
    return read_private_file(path, USER_FILE_SIZE_MAX_BYTES, is_optional=is_optional)


class AclFile:
    """One file and the guard that it makes."""

    def __init__(
        self,
        path: str,
        cluster: str,
        server_user: User | None,
        read: Callable[[str], bytes] = read_private_file,
        *,
        form: FileForm = PLAIN_ACL,
        first_administrator: Callable[[], User | None] = lambda: None,
        checks: Checks = BOTH,
    ) -> None:
        """``cluster`` and ``checks``: the server's, see :class:`Guard`.

        ``server_user``: the user of servers, beside the file's.

        ``first_administrator`` is asked for one when the file has none.
        """
        self.path = path
        self._form = form
        self._first_administrator = first_administrator
        self._cluster = cluster
        self._checks = checks
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
            raise ConfigError(f"{self._form.setting}: {self._named(error)}") from error

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
        rules = self._form.parse(raw)
        for note in rules.notes:
            log.warning("%s: %s", self.path, note)
        users = list(rules.users)
        if not any(user.is_administrator for user in users) and (first := self._first_administrator()) is not None:
            users.append(first)
        if self._server_user is not None:
            check_server_name(users, self._server_user)
            users.append(self._server_user)
        return Guard(Users(users, rules.trusted_from), rules.policies, self._cluster, self._checks)

    def _named(self, error: UsageError) -> str:
        text = str(error)
        return text if text.startswith(self.path) else f"{self.path}: {text}"


def check_server_name(users: Sequence[User], server_user: User) -> None:
    """Raise UsageError when one of ``users`` has the name of the servers' own user."""
    if any(user.name == server_user.name for user in users):
        raise UsageError(
            f"the account {server_user.name} is the servers' own one, in innerCredentialsFile: give one of the two "
            "another accessKey"
        )
