"""The decision: equal to a naive reference, the same as its explanation, and the rules one by one."""

from __future__ import annotations

import ipaddress
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.model.access import ALL_ACTIONS, EVERY_NAME, Action, Need, Resource, ResourceKind, topic_need
from pymq.security.addresses import Address, parse_address, parse_block
from pymq.security.identities import Identity, User, UserType
from pymq.security.policies import (
    Effect,
    Entry,
    Policies,
    Policy,
    ResourcePattern,
    action_texts,
    allows,
    explain,
    is_peer,
    parse_actions,
)
from pymq.security.signature import Secret
from tests.security.strategies import ACTIONS, ADDRESSES, ENTRIES, PATTERN_TEXTS, POLICIES, RESOURCES

HERE = parse_address("10.0.0.1")
TOPIC = Resource(ResourceKind.TOPIC, "orders")


def entry(resource: str, actions: str = "All", effect: Effect = Effect.ALLOW, sources: str = "") -> Entry:
    blocks = tuple(parse_block(text) for text in sources.split())
    return Entry(ResourcePattern.parse(resource), parse_actions(actions.split()), effect, blocks)


def deny(resource: str, actions: str = "All", sources: str = "") -> Entry:
    return entry(resource, actions, Effect.DENY, sources)


def custom(*entries: Entry) -> Policy:
    return Policy(entries)


def naive(policy: Policy, resource: Resource, action: Action, address: Address) -> bool:
    """The rules of docs/security-design.md in the most literal form, over texts."""
    for entries in (policy.custom, policy.default):
        found = []
        for one in entries:
            pattern = str(one.resource)
            wanted = pattern if ":" in pattern else f"{resource.kind.value}:*"
            kind, _, name = wanted.partition(":")
            covers_all = name == "*"
            same_name = covers_all if resource.name == EVERY_NAME else fnmatchcase(resource.name, name)
            networks = [ipaddress.ip_network(block.text) for block in one.sources]
            from_here = not networks or any(address in network for network in networks)
            if kind == resource.kind.value and same_name and action in one.actions and from_here:
                # Of a literal all characters are exact, of a prefix those before the star, "*" comes last.
                exact = -1 if pattern == "*" else len(name) - 1 if name.endswith("*") else 1000
                found.append((-exact, one.effect is Effect.ALLOW))
        if found:
            return sorted(found)[0][1]
    return False


@settings(max_examples=150)
@given(POLICIES, RESOURCES, ACTIONS, ADDRESSES)
def test_the_decision_is_that_of_the_naive_reference(
    policy: Policy, resource: Resource, action: Action, address: Address
) -> None:
    expected = naive(policy, resource, action, address)
    assert allows(policy, resource, action, address) == expected
    explanation = explain(policy, resource, action, address)
    assert explanation.is_allowed == expected
    applying = [step for step in explanation.steps if step.mismatch is None]
    assert bool(applying) == ("no entry" not in explanation.why)


@settings(max_examples=50)
@given(POLICIES, RESOURCES, ACTIONS, ADDRESSES, st.randoms(use_true_random=False))
def test_the_order_of_entries_does_not_matter(
    policy: Policy, resource: Resource, action: Action, address: Address, random: object
) -> None:
    entries, defaults = list(policy.custom), list(policy.default)
    random.shuffle(entries)  # type: ignore[attr-defined]
    random.shuffle(defaults)  # type: ignore[attr-defined]
    shuffled = Policy(tuple(entries), tuple(defaults))
    assert allows(policy, resource, action, address) == allows(shuffled, resource, action, address)


@settings(max_examples=50)
@given(POLICIES, ENTRIES, RESOURCES, ACTIONS, ADDRESSES)
def test_one_more_denying_entry_never_allows_what_its_level_did_not(
    policy: Policy, more: Entry, resource: Resource, action: Action, address: Address
) -> None:
    denying = Entry(more.resource, more.actions, Effect.DENY, more.sources)
    stricter = Policy((*policy.custom, denying), policy.default)
    assert not allows(stricter, resource, action, address) or allows(policy, resource, action, address)


@settings(max_examples=60)
@given(PATTERN_TEXTS)
def test_a_pattern_prints_as_it_is_parsed(text: str) -> None:
    pattern = ResourcePattern.parse(text)
    assert str(pattern) == text and ResourcePattern.parse(str(pattern)) == pattern


@settings(max_examples=60)
@given(st.frozensets(ACTIONS, min_size=1))
def test_actions_print_as_they_are_parsed(actions: frozenset[Action]) -> None:
    assert parse_actions(action_texts(actions)) == actions
    assert parse_actions(text.upper() for text in action_texts(actions)) == actions


@pytest.mark.parametrize(
    ("policy", "is_allowed"),
    [
        (custom(), False),
        (custom(entry("Topic:orders", "Pub")), True),
        (custom(entry("Topic:ord*", "Pub")), True),
        (custom(entry("Topic:*", "Pub")), True),
        (custom(entry("*", "Pub")), True),
        (custom(entry("topic:orders", "pub")), True),
        (custom(entry("Topic:Orders", "Pub")), False),
        (custom(entry("Topic:order", "Pub")), False),
        (custom(entry("Group:orders", "Pub")), False),
        (custom(entry("Topic:orders", "Sub")), False),
        (custom(entry("Topic:orders", "Pub", sources="10.0.0.0/8")), True),
        (custom(entry("Topic:orders", "Pub", sources="10.0.1.0/24 fe80::/16")), False),
        (custom(deny("Topic:orders"), entry("Topic:*")), False),
        (custom(entry("Topic:orders"), deny("Topic:*")), True),
        (custom(entry("Topic:orders"), deny("Topic:ord*")), True),
        (custom(entry("Topic:orders"), deny("*")), True),
        (custom(entry("Topic:orders", "Pub"), deny("Topic:orders", "Pub Sub")), False),
        (custom(entry("Topic:orders", "Sub"), deny("Topic:*")), False),
        (custom(entry("Topic:orders", "Pub", sources="10.0.1.0/24"), deny("Topic:*")), False),
        (custom(entry("Topic:orde*"), deny("Topic:ord*")), True),
        (custom(entry("Topic:ord*"), deny("Topic:orde*")), False),
        (custom(entry("Topic:ord*"), deny("Topic:*")), True),
        (custom(entry("Topic:*"), deny("Topic:ord*")), False),
        (custom(entry("Topic:*"), deny("*")), True),
        (custom(entry("*"), deny("Topic:*")), False),
        (Policy((deny("*"),), (entry("Topic:orders"),)), False),
        (custom(entry("Topic:*"), deny("Topic:orders", sources="10.0.1.0/24")), True),
        (Policy((), (entry("Topic:*"),)), True),
        (Policy((entry("Topic:orders", "Pub"),), (deny("Topic:*"),)), True),
        (Policy((deny("Topic:orders"),), (entry("Topic:*"),)), False),
        (Policy((deny("Topic:orders", "Sub"),), (entry("Topic:*"),)), True),
    ],
)
def test_each_rule(policy: Policy, is_allowed: bool) -> None:
    assert allows(policy, TOPIC, Action.PUB, HERE) == is_allowed


def test_all_of_a_kind_needs_an_entry_for_all() -> None:
    every = Resource(ResourceKind.TOPIC, EVERY_NAME)
    assert not allows(custom(entry("Topic:o*")), every, Action.LIST, HERE)
    assert allows(custom(entry("Topic:*")), every, Action.LIST, HERE)


@pytest.mark.parametrize("text", ["", "Topic", "Topic:", "Queue:a", "Topic:a*b", "**", "Topic:" + "a" * 256, ":a"])
def test_what_is_no_resource_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no resource"):
        ResourcePattern.parse(text)


@pytest.mark.parametrize("text", ["Topic:%RETRY%g", "Topic:%DLQ%g", "Topic:%DLQ%*", "Topic:%*", "Topic:%RE*"])
def test_an_entry_for_a_topic_that_follows_its_group_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="name the group"):
        ResourcePattern.parse(text)
    ResourcePattern.parse("Topic:a%RETRY%g")


@pytest.mark.parametrize("actions", [[], ["Read"], ["Any"], [""]])
def test_what_is_no_action_is_refused(actions: list[str]) -> None:
    with pytest.raises(UsageError, match="action"):
        parse_actions(actions)


def identity(kind: UserType = UserType.NORMAL, *, is_trusted: bool = False) -> Identity:
    return Identity(User("u", Secret("12345678"), kind), is_trusted)


def test_every_need_must_be_allowed_by_one_of_its_actions() -> None:
    policies = Policies({"u": custom(entry("Topic:orders", "Sub"), entry("Group:g", "Get"))})
    read = topic_need("orders", Action.SUB, Action.GET)
    group = topic_need("%RETRY%g", Action.SUB)
    assert policies.refused_need(identity(), [read], HERE) is None
    assert policies.refused_need(identity(), [read, group], HERE) == group
    assert policies.refused_need(identity(), [], HERE) is None
    denied = Policies({"u": custom(entry("Topic:orders", "Get"), deny("Topic:*", "Sub"))})
    assert denied.refused_need(identity(), [read], HERE) is None


def test_super_users_and_white_lists_pass_every_check() -> None:
    need = Need(TOPIC, (Action.DELETE,))
    nothing = Policies()
    assert nothing.refused_need(identity(), [need], HERE) == need
    for passing in (identity(UserType.SUPER), identity(is_trusted=True), Identity(None, is_trusted=True)):
        assert nothing.refused_need(passing, [need], HERE) is None
        assert nothing.explain(passing, TOPIC, Action.DELETE, HERE).is_allowed


def test_an_inner_user_reads_and_copies_but_does_not_send_or_administer() -> None:
    inner = identity(UserType.INNER)
    policies = Policies({"u": custom(entry("*"))})
    group = Resource(ResourceKind.GROUP, "g")
    cluster = Resource(ResourceKind.CLUSTER, "c")
    for need in (
        Need(TOPIC, (Action.SUB,)),
        Need(group, (Action.SUB, Action.UPDATE)),
        Need(cluster, (Action.GET,)),
        Need(TOPIC, (Action.GET,)),
    ):
        assert policies.refused_need(inner, [need], HERE) is None
    for need in (
        Need(TOPIC, (Action.PUB, Action.CREATE, Action.DELETE)),
        Need(group, (Action.CREATE, Action.UPDATE, Action.DELETE)),
        Need(cluster, (Action.UPDATE, Action.DELETE)),
    ):
        assert policies.refused_need(inner, [need], HERE) == need


def test_only_servers_and_administrators_are_peers() -> None:
    assert is_peer(identity(UserType.INNER)) and is_peer(identity(UserType.SUPER))
    assert not is_peer(identity()) and not is_peer(identity(is_trusted=True))
    assert not is_peer(Identity(None, is_trusted=True))


def test_an_explanation_names_every_rule_and_the_one_that_decides() -> None:
    policy = Policy(
        (entry("Topic:a"), entry("Topic:*", "Pub"), deny("Topic:ord*", sources="10.0.0.0/8"), entry("*", "Get")),
        (entry("*"),),
    )
    found = explain(policy, TOPIC, Action.PUB, HERE)
    assert (found.is_allowed, found.why) == (False, "Custom entry: Deny All on Topic:ord* from 10.0.0.0/8")
    assert [str(step) for step in found.steps] == [
        "Custom: Allow All on Topic:a: another resource",
        "Custom: Allow Pub on Topic:*: a more exact resource goes first",
        "Custom: Deny All on Topic:ord* from 10.0.0.0/8: applies",
        "Custom: Allow Get on *: another action",
    ]
    elsewhere = explain(policy, TOPIC, Action.PUB, parse_address("192.168.0.1"))
    assert (elsewhere.is_allowed, elsewhere.why) == (True, "Custom entry: Allow Pub on Topic:*")
    assert str(elsewhere.steps[2]).endswith("another address")
    assert explain(Policy(), TOPIC, Action.PUB, HERE).why.startswith("no entry applies")


def test_a_table_of_policies_changes_by_another_table() -> None:
    before = Policies()
    after = before.with_policy("u", custom(entry("*")))
    assert (len(before), len(after), after.of("u").custom[0].actions) == (0, 1, ALL_ACTIONS)
    assert dict(after.with_policy("u", Policy())) == {}
