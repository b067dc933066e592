"""Tag expressions."""

from __future__ import annotations

import pytest

from pymq.client.subscription import SQL92, parse_subscription
from pymq.errors import UsageError


@pytest.mark.parametrize("text", ["*", "", None, "  ", "A || *"])
def test_everything(text):
    subscription = parse_subscription("T", text, 1)
    assert subscription.expression == "*"
    assert subscription.accepts("") and subscription.accepts("X")


def test_tags_are_trimmed_and_hashed_as_java_does():
    subscription = parse_subscription("T", " TagA||TagB ", 7)
    assert subscription.tags == {"TagA", "TagB"}
    assert subscription.tag_codes == [2598919, 2598920]
    assert subscription.version == 7
    assert subscription.accepts("TagA")
    assert not subscription.accepts("TagC") and not subscription.accepts("")


def test_bars_without_a_tag_are_refused():
    with pytest.raises(UsageError, match="names no tag"):
        parse_subscription("T", "|| ||", 1)


def test_sql_is_kept_as_it_is_and_decided_by_the_broker():
    subscription = parse_subscription("T", "a > 1", 1, SQL92)
    assert (subscription.expression, subscription.expression_type) == ("a > 1", SQL92)
    assert subscription.accepts("anything")
