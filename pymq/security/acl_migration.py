"""Accounts of RocketMQ 4.x ACL files as users of 5.x: read at a start, and taken where no user has their name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pymq.errors import ConfigError, PymqError, UsageError
from pymq.model.access import ALL_ACTIONS
from pymq.security.identities import User, Users
from pymq.security.plain_acl import Account, PlainAcl, parse_plain_acl
from pymq.security.policies import Effect, Entry, Policies, Policy, ResourcePattern
from pymq.security.private_file import files_below, read_private_file
from pymq.security.user_table import ENTRIES_MAX, USERS_MAX, UserTable

FOLDER: Final = "acl"  # beside the file, with more of its kind
FILES_MAX: Final = 1000
_SUFFIXES: Final = (".yml", ".yaml")


class Accounts(NamedTuple):
    """What the files say. ``notes``: what of them is not taken over, as sentences."""

    accounts: tuple[Account, ...]
    notes: tuple[str, ...] = ()


def read_accounts(path: str) -> Accounts:
    """Return the accounts of the file ``path`` and of all YAML files below the folder ``acl`` beside it.

    An account counts in the first file that has it, ``path`` before the others. The file itself may be missing when the
    folder has some. Raises ConfigError that names the file, and line and column of a mistake.
    """
    folder = os.path.join(os.path.dirname(path), FOLDER)  # noqa: PTH118, PTH120
    others = [file for file in files_below(folder, _SUFFIXES) if file != path]
    if len(others) > FILES_MAX:
        raise ConfigError(f"{folder} has {len(others)} ACL files, the limit is {FILES_MAX}: join some")
    accounts: dict[str, Account] = {}
    notes: list[str] = []
    for file in (path, *others):
        acl = _read(file, is_optional=file == path and bool(others))
        if acl.white_addresses:
            notes.append(f"{file}: globalWhiteRemoteAddresses are not taken over: their senders need users")
        for account in acl.accounts:
            if account.access_key in accounts:
                notes.append(f"{file}: the account {account.access_key} stands in an earlier file, which counts")
                continue
            accounts[account.access_key] = account
            if account.white_address:
                notes.append(f"{file}: whiteRemoteAddress of {account.access_key} is not taken over: it has to sign")
    return Accounts(tuple(accounts.values()), tuple(notes))


def _read(path: str, *, is_optional: bool) -> PlainAcl:
    try:
        raw = read_private_file(path, is_optional=is_optional)
        return parse_plain_acl(raw) if raw or not is_optional else PlainAcl()
    except UsageError as error:
        text = str(error)
        raise ConfigError(f"plainAclFile: {text if text.startswith(path) else f'{path}: {text}'}") from error


def migrated_user(account: Account) -> User:
    """Return the account's user: ``Super`` for an administrator, but for one that permissions of its own bind."""
    user = account.user()
    return User(user.name, user.secret, user.kind)


def migrated_policy(account: Account) -> Policy:
    """Return the account's rules with one entry for a resource in each level, as ACLs of 5.x have them.

    What the default permission allows beyond an account's own one for a topic or group is denied in the default level,
    where the more exact entry goes first. Entries for names that no topic or group can have, and for topics that follow
    their group, had no effect and are left out.
    """
    policy = account.policy()
    custom: dict[ResourcePattern, Entry] = {}
    default = {entry.resource: entry for entry in policy.default}
    for entry in policy.custom:
        if not _is_writable(entry.resource):
            continue
        if entry.effect is Effect.DENY and entry.actions != ALL_ACTIONS:
            default[entry.resource] = entry
        elif (known := custom.get(entry.resource)) is not None and Effect.DENY not in (known.effect, entry.effect):
            custom[entry.resource] = Entry(entry.resource, known.actions | entry.actions, Effect.ALLOW)
        else:
            custom[entry.resource] = entry
    return Policy(tuple(custom.values()), tuple(default.values()))


def _is_writable(pattern: ResourcePattern) -> bool:
    """True when an ACL of 5.x can name these resources."""
    try:
        return ResourcePattern.parse(str(pattern)) == pattern
    except UsageError:
        return False


def with_accounts(table: UserTable, accounts: Iterable[Account], reserved: str = "") -> UserTable:
    """Return ``table`` with users and rules for the accounts whose names no user has, and that are not ``reserved``.

    Raises ConfigError for an account that can't be a user, and beyond a limit of the table.
    """
    users, policies = table.users, dict(table.policies)
    for account in accounts:
        name = account.access_key
        if table.users.get(name) is not None or name == reserved:
            continue
        try:
            users = users.with_user(migrated_user(account))
        except PymqError as error:
            raise ConfigError(f"plainAclFile: the account {name[:60]!r} can't be a user: {error}") from error
        policies[name] = migrated_policy(account)
    _check_limits(users, policies)
    return UserTable(users, Policies(policies))


def _check_limits(users: Users, policies: Mapping[str, Policy]) -> None:
    entry_count = sum(len(policy.custom) + len(policy.default) for policy in policies.values())
    for count, limit, what in ((len(users), USERS_MAX, "users"), (entry_count, ENTRIES_MAX, "entries of ACLs")):
        if count > limit:
            raise ConfigError(f"plainAclFile: with its accounts there are {count} {what}, the limit is {limit}")
