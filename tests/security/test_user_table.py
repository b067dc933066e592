"""The table of 5.x users: who may change what, the last administrator, limits, and the file's form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pymq.errors import Refusal, UsageError
from pymq.security import user_table
from pymq.security.identities import User, UserType
from pymq.security.policies import NO_POLICY, Effect
from pymq.security.signature import Secret
from pymq.security.user_table import UserTable, as_json, from_json
from pymq.wire.bodies_auth import AclEntryInfo, AclInfo, PolicyInfo, UserInfo
from pymq.wire.codes import ResponseCode

ROOT = User("root", Secret("root-secret"), UserType.SUPER)
CLERK = User("clerk", Secret("clerk-secret"))


def acl(resource: str = "Topic:orders", decision: str = "Allow", level: str | None = None) -> AclInfo:
    entry = AclEntryInfo(resource=resource, actions=["Pub"], source_ips=["10.0.0.0/8"], decision=decision)
    return AclInfo(policies=[PolicyInfo(policy_type=level, entries=[entry])])


def with_root() -> UserTable:
    root = UserInfo(password="root-secret", user_type="super")
    return UserTable().with_new_user("root", root, ROOT).with_new_user("clerk", UserInfo(password="clerk-secret"), ROOT)


def refused(change: Any, *arguments: Any) -> tuple[int, str]:
    with pytest.raises(Refusal) as caught:
        change(*arguments)
    return caught.value.code, caught.value.remark


def test_users_are_made_changed_and_deleted() -> None:
    table = with_root()
    assert {user.name: user.kind for user in table.users} == {"root": UserType.SUPER, "clerk": UserType.NORMAL}
    table = table.with_acl("clerk", acl()).with_changed_user("clerk", UserInfo(user_status="disable"), CLERK)
    clerk = table.users.get("clerk")
    assert clerk is not None and not clerk.is_enabled and clerk.secret == Secret("clerk-secret")
    table = table.without_user("clerk", CLERK)
    assert table.users.get("clerk") is None and table.policies.of("clerk") == NO_POLICY
    assert table.without_user("clerk", CLERK) == table or len(table.users) == 1


def test_what_a_request_has_wrong_is_refused_with_rocketmqs_text() -> None:
    table = with_root()
    code = ResponseCode.NO_PERMISSION
    new = UserInfo(password="p")
    for found, text in (
        (refused(table.with_new_user, "clerk", new, ROOT), "The user is existed"),
        (refused(table.with_new_user, "x", UserInfo(), ROOT), "password can not be blank"),
        (refused(table.with_changed_user, "x", new, ROOT), "The user is not exist"),
        (refused(table.with_acl, "x", acl()), "The subject of User:x is not exist."),
        (refused(table.without_acl, "clerk", None, None), "The acl is not exist"),
    ):
        assert found[0] == code and found[1].startswith(text)


def test_only_a_super_user_changes_super_users() -> None:
    table = with_root()
    code, remark = refused(table.with_new_user, "x", UserInfo(password="p", user_type="Super"), CLERK)
    assert code == ResponseCode.SYSTEM_ERROR and "User:clerk is not of type Super" in remark
    for found in (
        refused(table.with_changed_user, "root", UserInfo(password="stolen"), CLERK),
        refused(table.with_changed_user, "clerk", UserInfo(user_type="Super"), CLERK),
        refused(table.without_user, "root", CLERK),
    ):
        assert found[0] == ResponseCode.NO_PERMISSION and "ask a user of type Super" in found[1]


@pytest.mark.parametrize("change", ["delete", "disable", "demote"])
def test_the_last_enabled_administrator_stays(change: str) -> None:
    table = with_root().with_new_user("off", UserInfo(password="p", user_type="Super"), ROOT)
    table = table.with_changed_user("off", UserInfo(user_status="disable"), ROOT)

    def apply(to: UserTable) -> UserTable:
        if change == "delete":
            return to.without_user("root", ROOT)
        info = UserInfo(user_status="disable") if change == "disable" else UserInfo(user_type="Normal")
        return to.with_changed_user("root", info, ROOT)

    assert "no enabled user of type Super" in refused(apply, table)[1]
    assert apply(table.with_changed_user("off", UserInfo(user_status="enable"), ROOT)).has_administrator


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_table, "USERS_MAX", 2)
    monkeypatch.setattr(user_table, "ENTRIES_MAX", 2)
    table = with_root()
    assert "2 users, which is the limit" in refused(table.with_new_user, "x", UserInfo(password="p"), ROOT)[1]
    table = table.with_acl("clerk", acl("Topic:a")).with_acl("root", acl("Topic:b"))
    assert "3 entries, the limit is 2" in refused(table.with_acl, "clerk", acl("Topic:c"))[1]


def test_the_file_gives_the_same_table_back() -> None:
    table = with_root().with_acl("clerk", acl()).with_acl("clerk", acl("*", "Deny", "Default"))
    read = from_json(json.loads(json.dumps(as_json(table))))
    assert list(read.users) == list(table.users)
    assert read.policies.of("clerk") == table.policies.of("clerk")
    assert read.policies.of("clerk").default[0].effect is Effect.DENY


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"users": [1]}, "the member users is no JSON object"),
        ({"users": {"u": {"password": 1}}}, "the user 'u' can't be used"),
        ({"users": {"u": {}}}, "password can not be blank"),
        ({"users": {}, "acls": {"u": {"policies": [{"entries": [{"resource": "Tpic:x"}]}]}}}, "the ACL of user 'u'"),
    ],
)
def test_a_file_of_which_a_part_can_not_be_used_is_refused_whole(content: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        from_json(content)
