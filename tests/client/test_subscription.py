"""Tag expressions."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.client.subscription import SQL92, explained, parse_subscription
from pymq.errors import ExpressionError, RefusedError, UsageError


@pytest.mark.parametrize("text", ["*", "", None, "  ", "A || *"])
def test_the_expression_for_everything(text: str) -> None:
    subscription = parse_subscription("T", text, 1)
    assert subscription.expression == "*"
    assert subscription.accepts("") and subscription.accepts("X")


def test_tags_are_trimmed_and_hashed_as_java_does() -> None:
    subscription = parse_subscription("T", " TagA||TagB ", 7)
    assert subscription.tags == {"TagA", "TagB"}
    assert subscription.tag_codes == [2598919, 2598920]
    assert subscription.version == 7
    assert subscription.accepts("TagA")
    assert not subscription.accepts("TagC") and not subscription.accepts("")


def test_bars_without_a_tag_are_refused() -> None:
    with pytest.raises(UsageError, match="names no tag"):
        parse_subscription("T", "|| ||", 1)


@pytest.mark.parametrize(
    "given", [{"expression": " a > 1 ", "expression_type": SQL92}, {"expression": "*", "sql": "a > 1"}]
)
def test_sql_is_decided_by_the_broker(given: Any) -> None:
    subscription = parse_subscription("T", version=1, **given)
    assert (subscription.expression, subscription.expression_type) == ("a > 1", SQL92)
    assert subscription.accepts("anything")


def test_wrong_sql_is_refused_before_the_request() -> None:
    with pytest.raises(ExpressionError, match="column 5: found the end"):
        parse_subscription("T", "*", 1, sql="a > ")


def test_tags_and_sql_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="not both"):
        parse_subscription("T", "TagA", 1, sql="a > 1")


def test_a_broker_without_sql_is_reported_with_its_setting() -> None:
    subscription = parse_subscription("T", "*", 1, sql="a > 1")
    remark = "The broker does not support consumer to filter message by SQL92"
    error = explained(RefusedError(1, remark, "h:1"), subscription)
    assert error.code == 1 and error.address == "h:1" and error.remark.startswith(remark)
    assert error.remark.endswith("enablePropertyFilter=true in its broker.conf")
    for other in (RefusedError(1, "disk full"), RefusedError(1, f"{remark} (enablePropertyFilter is false)")):
        assert explained(other, subscription) is other
    tags = parse_subscription("T", "A", 1)
    refused = RefusedError(1, remark)
    assert explained(refused, tags) is refused
