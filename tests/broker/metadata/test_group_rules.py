"""Attributes of consumer groups: signs, limits, and what a change leaves."""

from __future__ import annotations

import pytest

from pymq.broker.metadata.group_rules import with_changed_attributes
from pymq.errors import Refusal
from pymq.model.tables import SubscriptionGroupConfig
from pymq.wire.codes import ResponseCode


def group(**attributes: str) -> SubscriptionGroupConfig:
    return SubscriptionGroupConfig(group_name="g", attributes=attributes)


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, {"+priority.factor": "0"}, {"priority.factor": "0"}),
        ({}, {"priority.factor": "100"}, {"priority.factor": "100"}),
        ({"priority.factor": "5"}, {}, {"priority.factor": "5"}),
        ({"priority.factor": "5"}, {"+priority.factor": "6"}, {"priority.factor": "6"}),
        ({"priority.factor": "5"}, {"-priority.factor": ""}, {}),
        ({}, {"-priority.factor": ""}, {}),
        ({"lite.bind.topic": "T"}, {"lite.bind.topic": "T"}, {"lite.bind.topic": "T"}),
        ({"lite.bind.topic": "T"}, {"+priority.factor": "1"}, {"lite.bind.topic": "T", "priority.factor": "1"}),
    ],
)
def test_a_change_of_attributes(before: dict[str, str], change: dict[str, str], after: dict[str, str]) -> None:
    assert with_changed_attributes(group(**before), group(**change)).attributes == after
    if not before:
        assert with_changed_attributes(None, group(**change)).attributes == after


@pytest.mark.parametrize("value", ["101", "-1", "", "1.5", "\u0663", "9" * 5000])
def test_a_bad_factor_is_refused_with_its_limits(value: str) -> None:
    with pytest.raises(Refusal, match="0 to 100") as refused:
        with_changed_attributes(None, group(**{"+priority.factor": value}))
    assert refused.value.code == ResponseCode.INVALID_PARAMETER and len(str(refused.value)) < 200


@pytest.mark.parametrize("name", ["+nope", "nope", "+lite.bind", "+" + "x" * 9000])
def test_an_unknown_attribute_is_refused_by_name(name: str) -> None:
    with pytest.raises(Refusal, match=r"priority\.factor") as refused:
        with_changed_attributes(None, group(**{name: "1"}))
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("name", "legal", "illegal", "why"),
    [
        ("lite.bind.topic", ("P", "x" * 127), ("", "a b", "x" * 256), "topic"),
        ("lite.sub.model", ("Shared", "Exclusive"), ("", "shared"), "write Shared or Exclusive"),
        ("lite.sub.reset.offset.exclusive", ("true", "false"), ("", "TRUE"), "write true or false"),
        ("lite.sub.reset.offset.unsubscribe", ("true", "false"), ("1",), "write true or false"),
        ("lite.sub.client.quota", ("-1", "0", str(2**63 - 1)), ("-2", "x", str(2**63), "--1", ""), "at least -1"),
        ("lite.sub.client.max.event.cnt", ("10", str(2**63 - 1)), ("9", "-10", "\u0663\u0663"), "at least 10"),
        ("lite.sub.wildcard", ("true",), ("false", ""), "write true, or remove"),
    ],
)
def test_attributes_of_lite_topics(name: str, legal: tuple[str, ...], illegal: tuple[str, ...], why: str) -> None:
    for value in legal:
        assert with_changed_attributes(None, group(**{f"+{name}": value})).attributes == {name: value}
    for value in illegal:
        with pytest.raises(Refusal, match=why) as refused:
            with_changed_attributes(None, group(**{f"+{name}": value}))
        assert refused.value.code == ResponseCode.INVALID_PARAMETER and len(str(refused.value)) < 400
