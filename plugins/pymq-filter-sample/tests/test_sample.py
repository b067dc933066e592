"""Shares are exact by position and stable by key; ranges divide a topic without gap or overlap."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymq_filter_sample import EXPRESSION_LENGTH_MAX, PARTS_MAX, SampleFilter

from pymq.errors import ExpressionError
from pymq.filter.messages import FilterMessage
from pymq.filter.registry import installed_filters


def message(offset: int = 0, **properties: str) -> FilterMessage:
    return FilterMessage(queue_offset=offset, properties=properties, body=b"%d" % offset)


def taken(expression: str, messages: list[FilterMessage]) -> list[object]:
    return list(SampleFilter().compile(expression).match(messages))


def test_the_filter_is_installed_under_its_name() -> None:
    assert isinstance(installed_filters().find("sample"), SampleFilter)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 1000), st.integers(0, 10))
def test_a_share_by_position_is_exact(some: int, others: int, start: int, rounds: int) -> None:
    parts = max(some, others)
    share = min(some, others)
    outcomes = taken(f"{share}/{parts}", [message(start + at) for at in range(rounds * parts)])
    assert outcomes.count(True) == rounds * share


@pytest.mark.slow
@given(st.lists(st.text("abcXYZ0189-", min_size=1, max_size=8)), st.integers(1, 12), st.data())
def test_ranges_share_out_every_key_once(keys: list[str], parts: int, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, parts - 1))
    messages = [message(KEYS=key) for key in keys]
    ranges = [(0, cut)] + ([(cut + 1, parts - 1)] if cut + 1 < parts else [])
    outcomes = [taken(f"hash(KEYS) % {parts} in {low}..{high}", messages) for low, high in ranges]
    assert all(sum(row) == 1 for row in zip(*outcomes, strict=True))


def test_both_forms_by_key_are_the_same() -> None:
    messages = [message(KEYS=f"order-{number}") for number in range(1000)]
    share = taken("3/10 by key", messages)
    assert share == taken(" hash( KEYS ) % 10 in 0 .. 2 ", messages)
    assert 230 < share.count(True) < 370  # five standard deviations around 300


def test_the_hash_is_the_same_everywhere() -> None:
    """Other processes and versions must split the same way: these answers may never change."""
    messages = [message(KEYS=key) for key in "abcdefgh"]
    assert [at for at, outcome in enumerate(taken("1/2 by KEYS", messages)) if outcome] == [3, 4, 5, 7]


def test_a_message_without_the_key_is_unknown() -> None:
    assert taken("1/1 by orderId", [message(), message(orderId="7")]) == [None, True]


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1",
        "0/10",
        "11/10",
        "1/0",
        "1/1000001",
        "hash(KEYS) % 0 in 0..0",
        "hash(KEYS) % 10 in 3..2",
        "hash(KEYS) % 10 in 0..10",
        "hash() % 10 in 0..1",
        "1/10 by a b",
        "1/9999999999",
        "-1/10",
    ],
)
def test_invalid_arguments_are_refused(expression: str) -> None:
    with pytest.raises(ExpressionError):
        SampleFilter().compile(expression)


def test_the_edges() -> None:
    assert taken(f"1/{PARTS_MAX}", [message()]) == [True]
    assert taken("1/2" + " " * (EXPRESSION_LENGTH_MAX - 3), [message()]) == [True]
    with pytest.raises(ExpressionError, match="257 characters, the limit is 256"):
        SampleFilter().compile(" " * (EXPRESSION_LENGTH_MAX + 1))
