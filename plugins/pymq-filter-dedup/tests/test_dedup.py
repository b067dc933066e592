"""Deduplication equals that of a plain dict, in bounded memory; a message that is read again still matches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymq_filter_dedup import EXPRESSION_LENGTH_MAX, KEYS_MAX_COUNT, DedupFilter, KeyWindow

from pymq.errors import ExpressionError
from pymq.filter.messages import FilterMessage
from pymq.filter.registry import installed_filters


def message(at: int, key: str, time_ms: int = 0) -> FilterMessage:
    return FilterMessage(topic="t", queue_offset=at, store_timestamp_ms=time_ms, properties={"KEYS": key})


def kept(expression: str, messages: list[FilterMessage]) -> list[bool]:
    return [outcome is True for outcome in DedupFilter().compile(expression).match(messages)]


def test_the_filter_is_installed_under_its_name() -> None:
    assert isinstance(installed_filters().find("dedup"), DedupFilter)


@given(st.lists(st.sampled_from("abcdef")), st.integers(1, 5))
def test_a_window_by_count_equals_a_dict_without_its_oldest(keys: list[str], count: int) -> None:
    known: dict[str, None] = {}
    expected = []
    for key in keys:
        expected.append(key not in known)
        known.setdefault(key)
        if len(known) > count:
            del known[next(iter(known))]
    assert kept(f"by KEYS last {count}", [message(at, key) for at, key in enumerate(keys)]) == expected


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40))), st.integers(0, 60))
def test_a_window_by_time_equals_a_dict_of_first_times(steps: list[tuple[str, int]], window_ms: int) -> None:
    first: dict[str, int] = {}
    now_ms, messages, expected = 1000, [], []
    for at, (key, step_ms) in enumerate(steps):
        now_ms += step_ms
        is_new = key not in first or now_ms - first[key] > window_ms
        if is_new:
            first[key] = now_ms
        expected.append(is_new)
        messages.append(message(at, key, now_ms))
    assert kept(f"by KEYS within {window_ms}ms", messages) == expected


@given(st.lists(st.sampled_from("abc")))
def test_the_same_messages_read_again_get_the_same_answers(keys: list[str]) -> None:
    messages = [message(at, key) for at, key in enumerate(keys)]
    compiled = DedupFilter().compile("by KEYS")
    assert compiled.match(messages) == compiled.match(messages)


def test_memory_is_bounded() -> None:
    window = KeyWindow("KEYS", None, 10)
    for at in range(1000):
        window.is_new(message(at, f"k{at}"))
        assert len(window) <= 10


def test_a_window_by_time_drops_old_entries() -> None:
    window = KeyWindow("KEYS", 100, 1000)
    for at in range(1000):
        window.is_new(message(at, f"k{at}", at * 10))
    assert len(window) == 11


def test_older_messages_do_not_shorten_the_window() -> None:
    messages = [message(0, "a", 1000), message(1, "a", 10), message(2, "b", 10), message(3, "b", 1000)]
    assert kept("by KEYS within 100ms", messages) == [True, False, True, True]


def test_deduplication_by_body_and_messages_without_a_key() -> None:
    bodies = [FilterMessage(queue_offset=at, body=body) for at, body in enumerate((b"a", b"b", b"a"))]
    assert kept("by body", bodies) == [True, True, False]
    assert kept("by KEYS", bodies) == [True, True, True]


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "KEYS",
        "by",
        "by KEYS last 0",
        "by KEYS last 1000001",
        "by KEYS within 3x",
        "by KEYS within",
        "by a b",
        "by KEYS last 99999999999",
        "by KEYS last 10 within 3s",
    ],
)
def test_invalid_arguments_are_refused(expression: str) -> None:
    with pytest.raises(ExpressionError):
        DedupFilter().compile(expression)


def test_the_edges() -> None:
    DedupFilter().compile(f"by KEYS last {KEYS_MAX_COUNT}")
    DedupFilter().compile("by KEYS" + " " * (EXPRESSION_LENGTH_MAX - 7))
    with pytest.raises(ExpressionError, match="257 characters"):
        DedupFilter().compile("by KEYS" + " " * (EXPRESSION_LENGTH_MAX - 6))
