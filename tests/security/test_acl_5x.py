"""5.x users and ACLs: requests become policies, policies become answers, and wrong ones get RocketMQ's texts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from pymq.errors import Refusal
from pymq.security.acl_5x import (
    ENTRIES_MAX,
    SOURCES_MAX,
    acl_info,
    changed_user,
    filtered,
    merged,
    new_user,
    subject_name,
    user_info,
    without,
)
from pymq.security.identities import UserType
from pymq.security.policies import Policy
from pymq.security.signature import Secret
from pymq.wire.bodies_auth import AclInfo, UserInfo
from pymq.wire.bodies_client import decode_body, encode_body
from pymq.wire.codes import ResponseCode
from tests.security.strategies import POLICIES

# As mqadmin sends it: createAcl -s User:u -r Topic:orders* -a Pub,Sub -d Allow -i 10.0.0.0/8
BODY = (
    b'{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:orders*",'
    b'"sourceIps":["10.0.0.0/8"]}],"policyType":"Custom"}],"subject":"User:u"}'
)


def acl(*entries: dict[str, object], policy_type: str | None = None) -> AclInfo:
    policy = {"policyType": policy_type, "entries": list(entries)}
    found: AclInfo = decode_body(AclInfo, encode_body({"subject": "User:u", "policies": [policy]}))
    return found


def entry(resource: str | None = "Topic:t", **changes: object) -> dict[str, object]:
    return {"resource": resource, "actions": ["Pub"], "decision": "Allow", **changes}


def lines(policy: Policy) -> list[str]:
    return [str(one) for _, entries in policy.levels for one in entries]


def refusal(info: AclInfo) -> str:
    with pytest.raises(Refusal) as caught:
        merged(Policy(), info)
    assert caught.value.code == ResponseCode.NO_PERMISSION
    return caught.value.remark


def test_a_request_of_mqadmin_becomes_a_policy() -> None:
    policy = merged(Policy(), decode_body(AclInfo, BODY))
    assert lines(policy) == ["Allow Pub, Sub on Topic:orders* from 10.0.0.0/8"]
    assert decode_body(AclInfo, encode_body(acl_info("u", policy))) == decode_body(AclInfo, BODY)


@settings(max_examples=60)
@given(POLICIES)
def test_an_answer_sent_back_makes_the_same_policy(policy: Policy) -> None:
    unique = Policy(*(tuple({one.resource: one for one in entries}.values()) for _, entries in policy.levels))
    info: AclInfo = decode_body(AclInfo, encode_body(acl_info("u", unique)))
    if info.policies:
        assert merged(Policy(), info) == unique
    else:
        assert unique == Policy()


def test_names_count_in_any_case_and_are_shown_in_one() -> None:
    policy = merged(Policy(), acl(entry("topic:T", actions=["pub", "GET"], decision="DENY"), policy_type="default"))
    assert (lines(policy), len(policy.default)) == (["Deny Pub, Get on Topic:T"], 1)


def test_an_entry_replaces_the_one_of_its_resource_and_others_stay() -> None:
    first = merged(Policy(), acl(entry("Topic:a"), entry("Topic:b")))
    second = merged(first, acl(entry("Topic:a", actions=["Sub"]), entry("Topic:c"), entry("Topic:c", decision="Deny")))
    assert lines(second) == ["Allow Pub on Topic:b", "Allow Sub on Topic:a", "Deny Pub on Topic:c"]
    third = merged(second, acl(entry("Topic:a", actions=["All"]), policy_type="Default"))
    assert lines(third) == [*lines(second), "Allow All on Topic:a"]


def test_deletion_of_a_resource_of_a_level_and_of_all() -> None:
    policy = merged(merged(Policy(), acl(entry("Topic:a"), entry("*"))), acl(entry("Topic:a"), policy_type="Default"))
    assert lines(without(policy, resource="topic:a")) == ["Allow Pub on *"]
    assert lines(without(policy, resource="Topic:a", policy_type="Custom")) == [
        "Allow Pub on *",
        "Allow Pub on Topic:a",
    ]
    assert lines(without(policy, policy_type="Default")) == ["Allow Pub on Topic:a", "Allow Pub on *"]
    assert without(policy) == Policy()
    with pytest.raises(Refusal, match="policy type"):
        without(policy, policy_type="Other")


@pytest.mark.parametrize(
    ("info", "remark"),
    [
        (AclInfo(subject="User:u"), "The policies is empty"),
        (acl(), "The policy entries is empty"),
        (acl(entry(None)), "The resource is null."),
        (acl(entry("Topic")), "The resource is null. 'Topic' is no resource"),
        (acl(entry("Topic:%DLQ%g")), "name the group"),
        (acl(entry(actions=[])), "The actions is empty."),
        (acl(entry(actions=None)), "The actions is empty."),
        (acl(entry(actions=["Any"])), "The actions can not be Any."),
        (acl(entry(actions=["Read"])), "'Read' is no action"),
        (acl(entry(decision=None)), "The decision is null or illegal."),
        (acl(entry(decision="Maybe")), "The decision is null or illegal. 'Maybe'"),
        (acl(entry(sourceIps=["10.0.0"])), "The source ip is invalid."),
        (acl(entry(), policy_type="Other"), "The policy type is illegal."),
    ],
)
def test_what_is_wrong_is_refused_with_the_text_of_rocketmq(info: AclInfo, remark: str) -> None:
    assert remark in refusal(info)


def test_an_acl_has_limits() -> None:
    full = merged(Policy(), acl(*(entry(f"Topic:t{number}") for number in range(ENTRIES_MAX))))
    with pytest.raises(Refusal, match=f"the limit is {ENTRIES_MAX}"):
        merged(full, acl(entry("Topic:one-more")))
    merged(Policy(), acl(entry(sourceIps=["10.0.0.1"] * SOURCES_MAX)))
    assert f"the limit is {SOURCES_MAX}" in refusal(acl(entry(sourceIps=["10.0.0.1"] * (SOURCES_MAX + 1))))


@pytest.mark.parametrize("subject", [None, "", "u", "User:", "Group:u"])
def test_a_subject_is_a_user(subject: str | None) -> None:
    assert subject_name("User:u") == subject_name("user:u") == "u"
    with pytest.raises(Refusal, match="subject"):
        subject_name(subject)


def test_acls_are_filtered_by_a_part_of_the_resource() -> None:
    info = acl_info("u", merged(Policy(), acl(entry("Topic:orders"), entry("Group:g"))))
    found = filtered(info, "ord")
    assert found is not None and [one.resource for part in found.policies or () for one in part.entries or ()] == [
        "Topic:orders"
    ]
    assert filtered(info, "other") is None and filtered(info, None) == info


def test_users_are_made_changed_and_shown() -> None:
    user = new_user("u", UserInfo(password="secret-1"))
    assert (user.kind, user.is_enabled, user.secret) == (UserType.NORMAL, True, Secret("secret-1"))
    changed = changed_user(user, UserInfo(user_type="super", user_status="disable"))
    assert (changed.kind, changed.is_enabled, changed.secret) == (UserType.SUPER, False, user.secret)
    assert changed_user(changed, UserInfo(password="secret-2")).secret == Secret("secret-2")
    assert encode_body(user_info(changed, with_secret=True)) == (
        b'{"username":"u","password":"secret-1","userType":"Super","userStatus":"disable"}'
    )
    assert b"secret-1" not in encode_body(user_info(changed, with_secret=False))


def test_a_user_that_is_not_usable_is_refused() -> None:
    for name, info, code, remark in (
        ("", UserInfo(password="x"), ResponseCode.INVALID_PARAMETER, "username is blank"),
        ("u", UserInfo(), ResponseCode.NO_PERMISSION, "password can not be blank"),
        ("u", UserInfo(password="x", user_type="Inner"), ResponseCode.NO_PERMISSION, "'Inner' is not one of"),
        ("u", UserInfo(password="x", user_status="on"), ResponseCode.NO_PERMISSION, "'on' is not one of"),
    ):
        with pytest.raises(Refusal, match=remark) as caught:
            new_user(name, info)
        assert caught.value.code == code
