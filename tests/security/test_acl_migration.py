"""Accounts of 4.x files as users: equal decisions, the order of files, what is not taken over, what is refused."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from pymq.errors import ConfigError
from pymq.model.access import EVERY_NAME, Action, Resource, ResourceKind
from pymq.model.names import TRACE_TOPIC
from pymq.security import acl_migration
from pymq.security.acl_migration import migrated_policy, migrated_user, read_accounts, with_accounts
from pymq.security.addresses import parse_address
from pymq.security.identities import UserType
from pymq.security.plain_acl import Account
from pymq.security.policies import allows
from pymq.security.signature import Secret
from pymq.security.user_table import UserTable, as_json, from_json
from tests.security.test_plain_acl import ACCOUNTS

HERE = parse_address("10.0.0.1")
NAMES = ("a", EVERY_NAME, TRACE_TOPIC)


def write(path: Path, *names: str, more: str = "", head: str = "", mode: int = 0o600) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    accounts = "".join(f"- {{accessKey: {name}, secretKey: {name}-secret{more}}}\n" for name in names)
    path.write_text(f"{head}accounts:\n{accounts}")
    path.chmod(mode)


@settings(max_examples=60)
@given(ACCOUNTS)
def test_a_migrated_account_may_what_it_could(account: Account) -> None:
    before, after = account.policy(), migrated_policy(account)
    for kind, rules in ((ResourceKind.TOPIC, account.topics), (ResourceKind.GROUP, account.groups)):
        for name, action in itertools.product([*NAMES, *(name for name, _ in rules)], Action):
            resource = Resource(kind, name)
            assert allows(after, resource, action, HERE) == allows(before, resource, action, HERE)
    for level in (after.custom, after.default):
        assert len({entry.resource for entry in level}) == len(level)


@settings(max_examples=50)
@given(ACCOUNTS.filter(lambda account: ":" not in account.access_key and not any(map(str.isspace, account.access_key))))
def test_migrated_users_and_rules_are_the_same_after_a_restart(account: Account) -> None:
    table = with_accounts(UserTable(), [account])
    again = from_json(json.loads(json.dumps(as_json(table))))
    assert as_json(again) == as_json(table)
    assert again.policies.of(account.access_key) == table.policies.of(account.access_key)


def test_an_administrator_becomes_super_but_for_one_that_rules_bind() -> None:
    free = Account("free-admin", Secret("12345678"), "10.0.0.*", is_admin=True)
    bound = Account("bound-admin", Secret("12345678"), is_admin=True, topics=(("t", frozenset({Action.PUB})),))
    assert migrated_user(free).kind is UserType.SUPER and migrated_user(free).trusted_from == ()
    assert migrated_user(bound).kind is UserType.NORMAL


def test_the_file_and_those_below_the_folder_beside_it_are_read(tmp_path: Path) -> None:
    write(tmp_path / "plain_acl.yml", "account1", head="globalWhiteRemoteAddresses: [10.0.0.1]\n")
    write(tmp_path / "acl" / "a.yml", "account1", "account2")
    write(tmp_path / "acl" / "deep" / "b.yaml", "account3", more=", whiteRemoteAddress: 10.0.0.2")
    write(tmp_path / "acl" / "c.txt", "account4")
    found = read_accounts(str(tmp_path / "plain_acl.yml"))
    assert [account.access_key for account in found.accounts] == ["account1", "account2", "account3"]
    for note, words in zip(found.notes, ("globalWhite", "account1 stands in an earlier", "of account3"), strict=True):
        assert words in note
    (tmp_path / "plain_acl.yml").unlink()
    assert len(read_accounts(str(tmp_path / "plain_acl.yml")).accounts) == 3
    # The file may be one of the folder's own.
    assert len(read_accounts(str(tmp_path / "acl" / "a.yml")).accounts) == 2


def test_files_that_can_not_be_used_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plain_acl.yml"
    with pytest.raises(ConfigError, match=r"plainAclFile: .*can't be read: No such file"):
        read_accounts(str(path))
    write(path, "account1", mode=0o644)
    with pytest.raises(ConfigError, match="others than its owner can use it: run chmod 600"):
        read_accounts(str(path))
    write(path, "account1")
    write(tmp_path / "acl" / "a.yml", "short")
    with pytest.raises(ConfigError, match=r"plainAclFile: .*a\.yml: line 2, .*accessKey has 5 characters"):
        read_accounts(str(path))
    monkeypatch.setattr(acl_migration, "FILES_MAX", 0)
    with pytest.raises(ConfigError, match="has 1 ACL files, the limit is 0: join some"):
        read_accounts(str(path))


def test_users_that_are_there_and_the_servers_own_stay_as_they_are() -> None:
    accounts = [Account(name, Secret(f"{name}-secret")) for name in ("account1", "account2", "servers")]
    table = with_accounts(UserTable(), accounts[:1])
    changed = [Account("account1", Secret("another-secret"), default_topic=frozenset({Action.PUB})), *accounts[1:]]
    again = with_accounts(table, changed, reserved="servers")
    assert [user.name for user in again.users] == ["account1", "account2"]
    assert again.users.get("account1") == table.users.get("account1")
    assert again.policies.of("account1") == table.policies.of("account1")


def test_accounts_that_can_not_be_users_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="the account 'a:b:c:d' can't be a user: the username"):
        with_accounts(UserTable(), [Account("a:b:c:d", Secret("12345678"))])
    two = [Account(name, Secret("12345678")) for name in ("account1", "account2")]
    monkeypatch.setattr(acl_migration, "USERS_MAX", 2)
    monkeypatch.setattr(acl_migration, "ENTRIES_MAX", 2)
    assert len(with_accounts(UserTable(), two).users) == 2  # each has the entry for message traces
    for limit, words in (
        ("USERS_MAX", "2 users, the limit"),
        ("ENTRIES_MAX", "2 entries of ACLs, the limit"),
    ):
        with monkeypatch.context() as one_less:
            one_less.setattr(acl_migration, limit, 1)
            with pytest.raises(ConfigError, match=words):
                with_accounts(UserTable(), two)
