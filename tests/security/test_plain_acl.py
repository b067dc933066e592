"""4.x ACL files: their meaning, their errors with line and column, and what they can't do to a server."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.model.access import EVERY_NAME, Action, Resource, ResourceKind, topic_need
from pymq.security.addresses import parse_address
from pymq.security.identities import Identity, User, Users, UserType
from pymq.security.plain_acl import (
    ACCOUNTS_MAX,
    KEY_LENGTH_MIN,
    Account,
    PlainAcl,
    format_plain_acl,
    parse_plain_acl,
    users_and_policies,
)
from pymq.security.policies import Policies
from pymq.security.signature import Secret
from pymq.security.yaml_tree import DEPTH_MAX, FILE_SIZE_MAX_BYTES, YamlError

HERE = parse_address("10.0.0.1")
FILE = b"""\
# as RocketMQ 4.9 ships it
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*

accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  # the group should convert to retry topic
  - groupA=DENY
  - groupB=PUB|SUB
  - groupC=SUB

- accessKey: rocketmq2
  secretKey: 12345678
  whiteRemoteAddress: 192.168.1.*
  # if it is admin, it could access all resources
  admin: true
dataVersion:
- counter: 1
  timestamp: 1700000000000
"""
PERMISSIONS = st.frozensets(st.sampled_from([Action.PUB, Action.SUB]))
KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Zs"]), min_size=7, max_size=12).filter(
    lambda text: text == text.strip()
)
RULES = st.dictionaries(st.text("ab%_-|", min_size=1, max_size=5), PERMISSIONS, max_size=3).map(
    lambda rules: tuple(rules.items())
)
WHITE = st.sampled_from(["", "10.0.0.1", "10.0.*.*", "10.0.0.{1,2}", "fe80::*"])
ACCOUNTS = st.builds(Account, KEYS, KEYS.map(Secret), WHITE, st.booleans(), PERMISSIONS, PERMISSIONS, RULES, RULES)
FILES = st.builds(
    PlainAcl,
    st.lists(WHITE.filter(bool), max_size=2).map(tuple),
    st.lists(ACCOUNTS, max_size=2, unique_by=lambda account: account.access_key).map(tuple),
)


def error(text: str | bytes) -> YamlError:
    with pytest.raises(YamlError) as caught:
        parse_plain_acl(text.encode() if isinstance(text, str) else text)
    return caught.value


def may(acl: PlainAcl, name: str, action: Action, kind: ResourceKind, resource: str) -> bool:
    users, policies = users_and_policies(acl)
    user = Users(users).get(name)
    assert user is not None
    need = topic_need(resource, action)._replace(resource=Resource(kind, resource))
    return Policies(policies).refused_need(Identity(user), [need], HERE) is None


def one_account(*lines: str) -> PlainAcl:
    head = "accounts:\n- accessKey: account1\n  secretKey: 12345678\n"
    return parse_plain_acl((head + "".join(f"  {line}\n" for line in lines)).encode())


def test_the_file_of_rocketmq_is_read() -> None:
    acl = parse_plain_acl(FILE)
    first, second = acl.accounts
    assert acl.white_addresses == ("10.10.103.*", "192.168.0.*") and acl.notes == ()
    assert (first.access_key, first.secret, first.is_admin) == ("RocketMQ", Secret("12345678"), False)
    assert (second.is_admin, second.white_address, second.topics) == (True, "192.168.1.*", ())
    assert second.user().kind is UserType.SUPER and first.user().kind is UserType.NORMAL
    assert second.user().trusted_from[0].contains(parse_address("192.168.1.7"))


@pytest.mark.parametrize(
    ("action", "topic", "is_allowed"),
    [
        (Action.PUB, "topicA", False),
        (Action.PUB, "topicB", True),
        (Action.SUB, "topicB", True),
        (Action.PUB, "topicC", False),
        (Action.SUB, "topicC", True),
        (Action.SUB, "topicD", False),
        (Action.CREATE, "topicB", False),
        (Action.PUB, "RMQ_SYS_TRACE_TOPIC", True),
        (Action.SUB, "RMQ_SYS_TRACE_TOPIC", False),
    ],
)
def test_permissions_for_topics(action: Action, topic: str, is_allowed: bool) -> None:
    assert may(parse_plain_acl(FILE), "RocketMQ", action, ResourceKind.TOPIC, topic) == is_allowed


@pytest.mark.parametrize(("group", "is_allowed"), [("groupA", False), ("groupB", True), ("groupZ", True)])
def test_permissions_for_groups(group: str, is_allowed: bool) -> None:
    assert may(parse_plain_acl(FILE), "RocketMQ", Action.SUB, ResourceKind.GROUP, group) == is_allowed


def test_an_own_permission_replaces_the_default_one() -> None:
    acl = one_account("defaultTopicPerm: PUB|SUB", "topicPerms: [t=PUB]")
    topics = ResourceKind.TOPIC
    assert may(acl, "account1", Action.SUB, topics, "other") and may(acl, "account1", Action.PUB, topics, "t")
    assert not may(acl, "account1", Action.SUB, topics, "t")


def test_a_name_with_a_star_is_that_name() -> None:
    acl = one_account("topicPerms: ['t*=PUB', '*=PUB']")
    for name in ("tx", EVERY_NAME):
        assert not may(acl, "account1", Action.PUB, ResourceKind.TOPIC, name)


def test_an_administrator_with_rules_of_its_own_is_bound_to_them() -> None:
    acl = one_account("admin: true", "topicPerms: [t=PUB]")
    assert acl.accounts[0].user().kind is UserType.NORMAL
    assert may(acl, "account1", Action.CREATE, ResourceKind.TOPIC, "u")
    assert may(acl, "account1", Action.UPDATE, ResourceKind.CLUSTER, "c")
    assert not may(acl, "account1", Action.PUB, ResourceKind.TOPIC, "u")


def test_an_account_without_admin_administers_nothing() -> None:
    acl = one_account("defaultTopicPerm: PUB|SUB", "defaultGroupPerm: PUB|SUB")
    for kind in ResourceKind:
        for action in Action:
            expected = kind in (ResourceKind.TOPIC, ResourceKind.GROUP) and action in (Action.PUB, Action.SUB)
            assert may(acl, "account1", action, kind, "x") == expected


@settings(max_examples=60)
@given(FILES)
def test_a_file_prints_as_it_is_parsed(acl: PlainAcl) -> None:
    again = parse_plain_acl(format_plain_acl(acl).encode())
    assert (again.white_addresses, again.accounts) == (acl.white_addresses, acl.accounts)


@settings(max_examples=100)
@given(st.binary(max_size=60) | st.text("-:[]{}&*!|>'\"# \nab=", max_size=60).map(str.encode))
def test_no_bytes_raise_anything_but_the_files_error(raw: bytes) -> None:
    for text in (raw, b"accounts:\n" + raw, b"accounts:\n- accessKey: " + raw):
        try:
            parse_plain_acl(text)
        except YamlError:
            pass


@pytest.mark.parametrize(
    ("text", "line", "column", "why"),
    [
        ("accounts:\n- accessKey: [a\n", 3, 1, "did not find"),
        ("- a\n", 1, 1, "no mapping"),
        ("accounts: {a: b}\n", 1, 11, "a list is wanted"),
        ("accounts:\n- RocketMQ\n", 2, 3, "an account is a mapping"),
        ("accounts:\n- accessKey: RocketMQ\n", 2, 3, "no secretKey"),
        ("accounts:\n- secretKey: 12345678\n", 2, 3, "no accessKey"),
        ("accounts:\n- accessKey: RocketMQ\n  secretKey: 123456\n", 3, 14, "has 6 characters, the least is 7"),
        ("accounts:\n- accessKey: RocketMQ\n  secretKey: ~\n", 3, 14, "has 0 characters"),
        ("accounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n  admin: maybe\n", 4, 10, "true or false"),
        ("accounts:\n- accessKey: RocketMQ\n  accessKey: RocketMQ\n", 3, 3, "and in line 2"),
        ("globalWhiteRemoteAddresses:\n- 10.1.1\n", 2, 3, "3 parts instead of 4"),
        ("globalWhiteRemoteAddresses: [[a]]\n", 1, 30, "is a text"),
        ("a: &x 1\n", 1, 4, "anchors and aliases"),
        ("a: *x\n", 1, 4, "anchors and aliases"),
        ("a: !!python/object/apply:os.system [ls]\n", 1, 4, "the tag"),
        ("a: 1\n---\nb: 2\n", 2, 1, "second document"),
        ("[a]: 1\n", 1, 1, "a key must be a text"),
        ("a: " + "[" * DEPTH_MAX, 1, 3 + DEPTH_MAX, "levels are nested"),
    ],
)
def test_an_error_has_line_and_column(text: str, line: int, column: int, why: str) -> None:
    found = error(text)
    assert tuple(found.place) == (line, column) and why in found.why
    assert str(found).startswith(f"line {line}, column {column}: ")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("topicPerms: [t=READ]", "'t=READ' in topicPerms"),
        ("topicPerms: [t]", "no name=permission"),
        ("topicPerms: ['=PUB']", "no name=permission"),
        ("groupPerms: [g=SUB, g=PUB]", "names 'g' twice"),
        ("defaultTopicPerm: ALL", "defaultTopicPerm is 'ALL'"),
        ("defaultGroupPerm: [SUB]", "is a text"),
        ("whiteRemoteAddress: 10.0.0.0/8", "no address pattern"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(line: str, why: str) -> None:
    with pytest.raises(YamlError, match=r"line 4, column \d+") as caught:
        one_account(line)
    assert why in caught.value.why


def test_two_accounts_of_a_key_are_refused() -> None:
    account = "- accessKey: RocketMQ\n  secretKey: 12345678\n"
    assert "two accounts" in error(f"accounts:\n{account}{account}").why


def test_no_error_shows_a_secret() -> None:
    short = "x" * (KEY_LENGTH_MIN - 1)
    assert short not in str(error(f"accounts:\n- accessKey: RocketMQ\n  secretKey: {short}\n"))
    acl = parse_plain_acl(FILE)
    assert "12345678" not in repr(acl)


def test_what_has_no_effect_and_what_opens_everything_is_noted() -> None:
    acl = parse_plain_acl(
        b"globalWhiteRemoteAddresses: ['*']\nacounts: []\naccounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n"
        b"  whiteRemoteAddress: '*'\n  topicPerm: [a=PUB]\n  topicPerms: ['%RETRY%g=SUB']\n"
    )
    assert [note.partition(": ")[0] for note in acl.notes] == [
        "line 2, column 1",
        "line 1, column 30",
        "line 7, column 3",
        "line 6, column 23",
        "line 8, column 16",
    ]
    assert [
        word for word in ("acounts", "topicPerm'", "without a signature", "group g") if word not in str(acl.notes)
    ] == []


def test_sizes_have_limits() -> None:
    assert "the limit is" in error(b"#" * (FILE_SIZE_MAX_BYTES + 1)).why
    assert parse_plain_acl(b"#" * FILE_SIZE_MAX_BYTES) == PlainAcl()
    assert "accounts, the limit is" in error("accounts:\n" + "- a\n" * (ACCOUNTS_MAX + 1)).why
    assert "levels are nested" in error(b"[" * FILE_SIZE_MAX_BYTES).why


def test_text_that_is_not_utf8_has_a_place() -> None:
    assert error(b"a: 1\nb: \xff\n").place == (2, 4)


def test_an_empty_file_allows_nothing() -> None:
    assert parse_plain_acl(b"") == PlainAcl() == parse_plain_acl(b"accounts:\nglobalWhiteRemoteAddresses:\n")
    users, policies = users_and_policies(PlainAcl())
    assert Users(users).get("a") is None and policies == {}
    assert User("a", Secret("x")).kind is UserType.NORMAL
