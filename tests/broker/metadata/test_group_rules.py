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


@pytest.mark.parametrize("name", ["+nope", "nope", "+lite.bind.topic", "+" + "x" * 9000])
def test_an_unknown_attribute_is_refused_by_name(name: str) -> None:
    with pytest.raises(Refusal, match=r"priority\.factor") as refused:
        with_changed_attributes(None, group(**{name: "1"}))
    assert len(str(refused.value)) < 200
