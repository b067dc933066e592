"""Tags and SQL92 as plugins."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import ExpressionError, FilterError
from pymq.filter.builtin import Sql92Filter, TagFilter
from pymq.filter.messages import FilterMessage
from pymq.filter.sql92 import compile_sql

TAGS = ["", "a", "b", "aa", "a b"]


def tagged(tag: str) -> FilterMessage:
    return FilterMessage(properties={"TAGS": tag})


@pytest.mark.parametrize(
    ("expression", "matched"),
    [("*", TAGS), ("", TAGS), ("a", ["a"]), (" a || aa ", ["a", "aa"]), ("a||*", TAGS), ("a b", ["a b"]), ("A", [])],
)
def test_tags(expression: str, matched: list[str]) -> None:
    outcomes = TagFilter().compile(expression).match([tagged(tag) for tag in TAGS])
    assert [tag for tag, outcome in zip(TAGS, outcomes, strict=True) if outcome] == matched


def test_bars_without_a_tag_are_refused() -> None:
    with pytest.raises(ExpressionError, match="names no tag"):
        TagFilter().compile("||")


@settings(deadline=None)  # the first example imports the parser
@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "1", "7", "x"]))))
def test_sql92_results_equal_the_brokers(all_properties: list[dict[str, str]]) -> None:
    text = "a > 5 AND b IS NOT NULL OR c = 'x'"
    outcomes = Sql92Filter().compile(text).match([FilterMessage(properties=one) for one in all_properties])
    for properties, outcome in zip(all_properties, outcomes, strict=True):
        try:
            assert outcome is compile_sql(text).evaluate(properties)
        except ValueError as error:
            assert isinstance(outcome, FilterError) and str(error) in str(outcome)


def test_wrong_sql92_names_its_column() -> None:
    with pytest.raises(ExpressionError, match="column 4"):
        Sql92Filter().compile("a >")
