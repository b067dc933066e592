"""JSONPath queries compared with a plain walk, for a subset of the language, and hostile queries."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymq_filter_jsonpath import EXPRESSION_LENGTH_MAX, JsonPathFilter

from pymq.errors import ExpressionError, FilterError
from pymq.filter.messages import FilterMessage
from pymq.filter.registry import installed_filters

NAMES = ["a", "b", "c"]
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=12,
)
# (text of the query, step of the oracle)
STEPS = [(f".{name}", name) for name in NAMES] + [("[0]", 0), ("[-1]", -1), ("[*]", "*"), ("..a", "..a")]


def judged(expression: str, document: Any) -> Any:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return JsonPathFilter().compile(expression).match([FilterMessage(body=body)])[0]


def children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.values()]
    return value if isinstance(value, list) else []


def walk(values: list[Any], step: Any) -> list[Any]:
    """Return the values after one step of the oracle."""
    if step == "*":
        return [child for value in values for child in children(value)]
    if step == "..a":
        below = list(values)
        for value in below:
            below += children(value)
        return walk(below, "a")
    if isinstance(step, int):
        return [value[step] for value in values if isinstance(value, list) and value]
    return [value[step] for value in values if isinstance(value, dict) and step in value]


def test_the_filter_is_installed_under_its_name() -> None:
    assert isinstance(installed_filters().find("jsonpath"), JsonPathFilter)


@settings(deadline=None)
@given(DOCUMENTS, st.lists(st.sampled_from(STEPS), max_size=4))
def test_results_equal_those_of_a_plain_walk(document: Any, steps: list[tuple[str, Any]]) -> None:
    values = [document]
    for _, step in steps:
        values = walk(values, step)
    assert judged("$" + "".join(text for text, _ in steps), document) is bool(values)


@settings(deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional={"p": st.integers(-9, 9) | st.none()})), st.integers(-9, 9))
def test_conditions(items: list[dict[str, int | None]], limit: int) -> None:
    expected = any((price := one.get("p")) is not None and price > limit for one in items)
    assert judged(f"$.items[?@.p > {limit}]", {"items": items}) is expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("?@.total > 100", True),
        ("?@.total > 100 && @.country == 'DE'", True),
        ("?@.total > 900 || @.country == 'FR'", False),
        ("?@.items[?@.price > 5]", True),
        ("$.nothing", False),
        ("$.none", True),
        ("$['country']", True),
        ("?count(@.items[*]) == 2", True),
        ("?length(@.country) == 3", False),
    ],
)
def test_examples(expression: str, expected: bool) -> None:
    order = {"total": 150, "country": "DE", "none": None, "items": [{"price": 3}, {"price": 9}]}
    assert judged(expression, order) is expected


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b"[1] 2"])
def test_a_body_that_is_not_json_is_an_error_of_its_message(body: bytes) -> None:
    assert isinstance(judged("$.a", body), FilterError)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "a",
        "$.",
        "$[",
        "?",
        "$[?@.a = 1]",
        "$[?search(@.a, 'x')]",
        "$[?match(@.a, '(a+)+')]",
        "$[?(" + "(" * 2000,
        "$" + "[?@" * 1300,
        "$[?" + "!" * 4000 + "@.a]",
        "$[?@.a == " + "9" * 4000 + "]",
        "$[?@.a == 1e999999]",
    ],
)
def test_wrong_and_hostile_expressions_are_refused(expression: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        JsonPathFilter().compile(expression)
    assert caught.value.column >= 1 and "\n" not in str(caught.value)


def test_the_longest_expression() -> None:
    assert judged("$." + "a" * (EXPRESSION_LENGTH_MAX - 2), {}) is False
    with pytest.raises(ExpressionError, match="4097 characters, the limit is 4096"):
        JsonPathFilter().compile("$." + "a" * (EXPRESSION_LENGTH_MAX - 1))


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "expression",
    ["$" + "..*" * 10, "$" + "[0,0]" * 40, "$..[?$..a]", "$[?@.a[?@.b[?$..c]]]", "$" + "..[0,0]" * 8],
)
def test_exploding_queries_are_stopped_before_they_run(expression: str) -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep, deep] if len(json.dumps(deep)) < 20_000 else [deep, 1]
    outcome = judged(expression, deep)
    assert isinstance(outcome, FilterError) and "the limit is 1000000" in str(outcome)


def test_quoted_names_cost_nothing() -> None:
    assert judged("$['..,,?$,,,,,,,,,,,,,,,,,,,,,,']", {"a": 1}) is False


@pytest.mark.timeout(60)
def test_a_deep_body() -> None:
    outcome = judged("$..a", b"[" * 900 + b"]" * 900)
    assert outcome is False or isinstance(outcome, FilterError)
