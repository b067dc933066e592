"""UserTable: users and policies that operators change by requests, each change checked; and its JSON form on disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from pymq.errors import PymqError, Refusal, UsageError
from pymq.security.acl_5x import acl_info, changed_user, merged, new_user, user_info, without
from pymq.security.identities import User, Users, UserType
from pymq.security.policies import NO_POLICY, Policies, Policy
from pymq.wire.bodies_auth import AclInfo, UserInfo
from pymq.wire.codes import ResponseCode

USERS_MAX: Final = 10_000
ENTRIES_MAX: Final = 20_000  # of all ACLs together
USERS, ACLS = "users", "acls"  # the file's members


class Asker(Protocol):
    """Who asks for a change: a user, or the proven sender of a request."""

    @property
    def name(self) -> str: ...

    @property
    def is_administrator(self) -> bool: ...


class UserTable(NamedTuple):
    """The users and policies of one moment. A change makes another table, or raises Refusal.

    A method takes ``by`` whom the change is asked for: only administrators change users of type Super.
    """

    users: Users = Users()
    policies: Policies = Policies()

    @property
    def has_administrator(self) -> bool:
        """True when an enabled user of type Super is there."""
        return any(user.is_administrator for user in self.users)

    def with_new_user(self, name: str, info: UserInfo, by: Asker) -> UserTable:
        """Return the table after AUTH_CREATE_USER (3001)."""
        if self.users.get(name) is not None:
            raise _refused(f"The user is existed: {name}, update it or choose another name")
        if len(self.users) >= USERS_MAX:
            raise _refused(f"there are {USERS_MAX} users, which is the limit: delete those that are not needed")
        user = new_user(name, info)
        if user.kind is UserType.SUPER and not by.is_administrator:
            raise Refusal(ResponseCode.SYSTEM_ERROR, _only_super(by, f"make the user {name} of type Super"))
        return self._replace(users=self.users.with_user(user))

    def with_changed_user(self, name: str, info: UserInfo, by: Asker) -> UserTable:
        """Return the table after AUTH_UPDATE_USER (3002)."""
        user = self.users.get(name)
        if user is None:
            raise _refused(f"The user is not exist: {name[:60]}, create it first")
        changed = changed_user(user, info)
        if UserType.SUPER in (user.kind, changed.kind):
            self._check_super(by, f"change the user {name} of type Super, or make it one")
        return self._replace(users=self.users.with_user(changed))

    def without_user(self, name: str, by: Asker) -> UserTable:
        """Return the table after AUTH_DELETE_USER (3003): the user's ACL goes too. A missing user is no error."""
        user = self.users.get(name)
        if user is not None and user.kind is UserType.SUPER:
            self._check_super(by, f"delete the user {name} of type Super")
        return UserTable(self.users.without_user(name), self.policies.with_policy(name, NO_POLICY))

    def with_acl(self, name: str, info: AclInfo) -> UserTable:
        """Return the table after AUTH_CREATE_ACL (3006) or AUTH_UPDATE_ACL (3007) for a user's name."""
        self._check_subject(name)
        policies = self.policies.with_policy(name, merged(self.policies.of(name), info))
        count = sum(len(policy.custom) + len(policy.default) for _, policy in policies)
        if count > ENTRIES_MAX:
            raise _refused(f"all ACLs would have {count} entries, the limit is {ENTRIES_MAX}: use prefixes")
        return self._replace(policies=policies)

    def without_acl(self, name: str, policy_type: str | None, resource: str | None) -> UserTable:
        """Return the table after AUTH_DELETE_ACL (3008)."""
        self._check_subject(name)
        policy = self.policies.of(name)
        if policy == NO_POLICY:
            raise _refused(f"The acl is not exist: User:{name} has none")
        return self._replace(
            policies=self.policies.with_policy(name, without(policy, policy_type=policy_type, resource=resource))
        )

    def _check_subject(self, name: str) -> None:
        if self.users.get(name) is None:
            raise _refused(f"The subject of User:{name[:60]} is not exist. Create the user first")

    def _check_super(self, by: Asker, what: str) -> None:
        if not by.is_administrator:
            raise _refused(_only_super(by, what))


def as_json(table: UserTable) -> dict[str, Any]:
    """Return the content of the file, secrets included."""
    users = {user.name: msgspec.to_builtins(user_info(user, with_secret=True)) for user in table.users}
    acls = {name: msgspec.to_builtins(acl_info(name, policy)) for name, policy in table.policies}
    return {USERS: users, ACLS: acls}


def from_json(content: Mapping[str, Any]) -> UserTable:
    """Return the table in a file's content.

    Raises UsageError that names the user of an entry which can't be used: without it, a rule that denies would be gone.
    """
    users: list[User] = []
    policies: dict[str, Policy] = {}
    for name, entry in _members(content, USERS):
        try:
            users.append(new_user(name, msgspec.convert(entry, UserInfo)))
        except (PymqError, msgspec.ValidationError) as error:
            raise UsageError(f"the user {name!r} can't be used: {_text(error)}") from error
    for name, entry in _members(content, ACLS):
        try:
            policies[name] = merged(NO_POLICY, msgspec.convert(entry, AclInfo))
        except (PymqError, msgspec.ValidationError) as error:
            raise UsageError(f"the ACL of user {name!r} can't be used: {_text(error)}") from error
    return UserTable(Users(users), Policies(policies))


def _members(content: Mapping[str, Any], member: str) -> list[tuple[str, Any]]:
    found = content.get(member) or {}
    if not isinstance(found, dict):
        raise UsageError(f"the member {member} is no JSON object: put back a copy of the file")
    return [(str(name), entry) for name, entry in found.items()]


def _text(error: Exception) -> str:
    return error.remark if isinstance(error, Refusal) else str(error)


def _only_super(by: Asker, what: str) -> str:
    return f"User:{by.name} is not of type Super and can't {what}: ask a user of type Super"


def _refused(remark: str) -> Refusal:
    return Refusal(ResponseCode.NO_PERMISSION, remark)
