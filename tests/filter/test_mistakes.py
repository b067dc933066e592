"""Expressions that RocketMQ takes and that can't mean what their author meant."""

from __future__ import annotations

import pytest

from pymq.filter.sql92 import compile_sql


@pytest.mark.parametrize(
    ("text", "column", "word"),
    [
        ("name LIKE 'x%'", 6, "'LIKE' can't follow the property name"),
        ("a = 1 OR name LIKE 'x%'", 15, "'LIKE'"),
        ("NOT name LIKE 'x%'", 10, "'LIKE'"),
        ("x-y = '2'", 2, "'-y' can't follow the property x"),
        ("a = 1 AND x-y = '2'", 12, "can't follow the property x"),
        ("name", 1, "the property name alone is no condition"),
        ("a = 1 AND name", 1, "name alone"),
        ("name AND a = 1", 1, "name alone"),
        ("FALSE OR name", 1, "name alone"),
        ("name OR other", 1, "name alone"),
    ],
)
def test_a_property_alone_is_a_mistake(text: str, column: int, word: str) -> None:
    mistake = compile_sql(text).mistake
    assert mistake is not None and mistake.column == column and word in mistake.reason


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "a = 5 b = 6",
        "a > b + 1",
        "a = 1 OR name",
        "NOT name",
        "a = 1 AND NOT name",
        "FALSE",
        "a IS NOT NULL",
        "a CONTAINS 'x'",
        "a IN ('x') AND (b = 2)",
        "a = name",
    ],
)
def test_what_may_match_is_none(text: str) -> None:
    assert compile_sql(text).mistake is None
