"""Conditions on JSON bodies and on properties."""

from __future__ import annotations

import pytest

from pymq.errors import UsageError
from pymq.operations.message.fields import Condition, Projection, PropertyCondition, parse_path

BODY = b'{"price": 5, "user": {"name": "Bob", "ok": true}, "tags": ["a", "b"], "note": null}'


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("price = 5", True), ("price=5.0", True), ("price >= 6", False), ("price < 6", True), ("price = Bob", False),
        ("user.name = Bob", True), ("user.name ~ ^B", True), ("user.ok = true", True), ("user.ok = 1", False),
        ("tags[1] = b", True), ("tags[2] = c", False), ("note = null", True), ("user", True), ("none", False),
        ("none != x", True), ("none = x", False), ("user.name > Anna", True),
    ],
)  # fmt: skip
def test_a_condition_compares_a_field(text: str, holds: bool) -> None:
    assert Condition(text).holds(BODY) is holds


def test_a_body_that_is_no_json_fulfils_nothing() -> None:
    assert not Condition("a != 1").holds(b"no json") and not Condition("a").holds(b"[" * 100_000)


@pytest.mark.parametrize("text", ["", "a..[", "[x]", "a ~ ("])
def test_a_wrong_condition_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Condition(text)


def test_a_condition_with_a_regular_expression_says_so() -> None:
    assert Condition("a ~ x").is_pattern and not Condition("a = x").is_pattern


def test_a_path_has_names_and_numbers() -> None:
    assert parse_path("user.tags[0].x") == ("user", "tags", 0, "x")


def test_a_projection_keeps_the_fields_that_are_there() -> None:
    assert Projection(["price", "user.name", "none"]).apply(BODY) == b'{"price":5,"user.name":"Bob"}'
    assert Projection(["price"]).apply(b"text") == b"text"


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("color", True),
        ("color=red", True),
        (" color = red ", True),
        ("color=blue", False),
        ("size", False),
        ("empty=", False),
    ],
)
def test_a_condition_on_a_property_is_its_name_or_its_value(text: str, holds: bool) -> None:
    assert PropertyCondition(text).holds({"color": "red"}) is holds


@pytest.mark.parametrize("text", ["", "=red", "  "])
def test_a_condition_without_a_property_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no property"):
        PropertyCondition(text)
