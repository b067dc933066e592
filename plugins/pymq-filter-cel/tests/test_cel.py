"""CEL conditions on bodies and properties compared with plain Python, and hostile expressions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymq_filter_cel import EXPRESSION_LENGTH_MAX, MACROS_MAX, PLUSES_MAX, CelFilter

from pymq.errors import ExpressionError, FilterError
from pymq.filter.messages import FilterMessage
from pymq.filter.registry import installed_filters


def judged(expression: str, body: Any = None, **properties: str) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return CelFilter().compile(expression).match([FilterMessage(topic="orders", body=raw, properties=properties)])[0]


def test_the_filter_is_installed_under_its_name() -> None:
    assert isinstance(installed_filters().find("cel"), CelFilter)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("body.total > 100", True),
        ("body.total > 100.5 && props.country == 'DE'", True),
        ("props.country in ['FR', 'IT']", False),
        ("tags == 'paid' && keys == 'k1' && topic == 'orders'", True),
        ("body.items.exists(i, i.price > 5.0)", True),
        ("body.items.all(i, i.price > 5.0)", False),
        ("body.items.filter(i, i.price > 5.0).size() == 1", True),
        ("body.missing > 1", None),
        ("props.missing == 'x'", None),
        ("has(body.missing)", False),
        ("body.name.startsWith('A') || false", True),
        ("body.name.matches('^A(da|lan)$')", True),
        ("body.none == null", True),
    ],
)
def test_examples(expression: str, expected: bool | None) -> None:
    body = {"total": 150, "name": "Ada", "none": None, "items": [{"price": 3.5}, {"price": 9.0}]}
    assert judged(expression, body, TAGS="paid", KEYS="k1", country="DE") is expected


@settings(deadline=None)
@given(st.integers(-99, 99), st.sampled_from("xyz"), st.integers(-99, 99))
def test_results_equal_those_of_python(number: int, text: str, limit: int) -> None:
    expression = f"(body.n >= {limit} && body.n != 7) || body.t in ['x', 'y'] && !(body.n + 1 < {limit})"
    expected = (number >= limit and number != 7) or (text in "xy" and not number + 1 < limit)
    assert judged(expression, {"n": number, "t": text}) is expected


@pytest.mark.parametrize(
    ("expression", "body", "text"),
    [
        ("body.a > 1", {"a": "x"}, "No such overload"),
        ("1 / body.a == 1", {"a": 0}, "division by zero"),
        ("body.a + 1 > 0", {"a": 2**63 - 1}, "overflow"),
        ("body.a", {"a": 5}, "the expression returns int, not true or false"),
        ("unknown > 1", {}, "Undefined variable"),
        ("body.a > 1", b"{", "the body is not JSON"),
        ("body.a.matches('(')", {"a": "x"}, ""),
    ],
)
def test_errors_belong_to_their_message(expression: str, body: Any, text: str) -> None:
    outcome = judged(expression, body)
    assert isinstance(outcome, FilterError) and text in str(outcome)


def test_an_unused_body_is_not_read() -> None:
    assert judged("props.a == '1'", b"no json", a="1") is True


@pytest.mark.parametrize(
    "expression",
    ["", "body.a +", "body.a = 1", "'open", "a ? b", "(" * 4000, "[" * 4000, "{1:" * 1000, "true?true:" * 400, "@"],
)
def test_wrong_and_hostile_expressions_are_refused(expression: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        CelFilter().compile(expression)
    assert caught.value.column >= 1 and "\n" not in str(caught.value)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("expression", ["!" * 4000 + "true", "true" + "||false" * 580, "-" * 3990 + "1 == 1"])
def test_long_chains_are_harmless(expression: str) -> None:
    assert judged(expression) is True


def test_limits_of_an_expression() -> None:
    judged("true" + " " * (EXPRESSION_LENGTH_MAX - 4))
    with pytest.raises(ExpressionError, match="4097 characters, the limit is 4096"):
        CelFilter().compile("true" + " " * (EXPRESSION_LENGTH_MAX - 3))
    loop = "body.all(x, true)"
    CelFilter().compile(" && ".join([loop] * MACROS_MAX))
    with pytest.raises(ExpressionError, match="4 times all, exists or filter, the limit is 3"):
        CelFilter().compile(" && ".join([loop] * (MACROS_MAX + 1)))
    assert judged("1" + "+1" * PLUSES_MAX + "== 65") is True
    with pytest.raises(ExpressionError, match=r"65 times \+, the limit is 64"):
        CelFilter().compile("1" + "+1" * (PLUSES_MAX + 1) + "== 66")
    with pytest.raises(ExpressionError, match="column 9: map builds lists"):
        CelFilter().compile("[1, 2]. map (x, x) == []")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "expression",
    ["body.all(x, body.all(y, body.all(z, x + y + z >= 0)))", "body.exists(x, string(x).matches('a{100}{10}'))"],
)
def test_nested_loops_are_stopped_before_they_run(expression: str) -> None:
    outcome = judged(expression, list(range(1000)))
    assert isinstance(outcome, FilterError) and "the limit is 100000" in str(outcome)
