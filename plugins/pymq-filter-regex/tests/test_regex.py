"""Patterns on bodies and fields, compared with Python's re where both agree, and patterns that are refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymq_filter_regex import PATTERN_LENGTH_MAX, RegexFilter

from pymq.errors import ExpressionError
from pymq.filter.messages import FilterMessage
from pymq.filter.registry import installed_filters

# Patterns with one meaning in both engines; none makes Python's engine slow on short texts.
ATOMS = ["a", "b", ".", "[ab]", "[^a]", "(a|b)", "(ab)?", "a*", "b+", "a{1,3}", "^", "$", r"\d", r"\w", "é"]


def judged(expression: str, body: bytes = b"", **properties: str) -> object:
    return RegexFilter().compile(expression).match([FilterMessage(body=body, properties=properties)])[0]


def test_the_filter_is_installed_under_its_name() -> None:
    assert isinstance(installed_filters().find("regex"), RegexFilter)


@settings(deadline=None)
@given(st.lists(st.sampled_from(ATOMS), max_size=6).map("".join), st.text("ab1é\t", max_size=12))
def test_matches_equal_those_of_python(pattern: str, text: str) -> None:
    assert judged(pattern, text.encode()) is (re.search(pattern, text, re.ASCII) is not None)


def test_fields() -> None:
    assert judged("tag ~ ^pa(id|yed)$", TAGS="paid") is True
    assert judged("key ~ 7", KEYS="k1 k7") is True
    assert judged("color ~ red", b"red", color="blue") is False
    assert judged("color ~ red", b"red") is None
    assert judged("body ~ a ~ b", b"a ~ b") is True
    assert judged("a~b", b"a~b") is True


def test_bytes_that_are_not_text() -> None:
    assert judged("b", b"\xff\xfeb\x00") is True
    assert judged("^.$", b"\xff") is False


@pytest.mark.parametrize(
    "pattern", ["(", "a(?=b)", r"(a)\1", "a{1001}", "((a{100}){100}){100}", "[z-a]", "(?P<n>a", "*"]
)
def test_unsupported_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(ExpressionError, match="RE2 has no look-around"):
        RegexFilter().compile(pattern)


def test_an_error_column_counts_from_the_start_of_the_expression() -> None:
    with pytest.raises(ExpressionError, match="column 7"):
        RegexFilter().compile("tag ~ (")


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(ExpressionError, match="column 2: half a surrogate"):
        RegexFilter().compile("a\ud800")


def test_the_longest_pattern() -> None:
    assert judged("a" * PATTERN_LENGTH_MAX, b"a") is False
    with pytest.raises(ExpressionError, match="4097 characters, the limit is 4096"):
        RegexFilter().compile("a" * (PATTERN_LENGTH_MAX + 1))


def test_a_pattern_that_needs_too_much_memory_is_refused() -> None:
    with pytest.raises(ExpressionError, match="too large"):
        RegexFilter().compile(r"\p{L}{1000}" * 3)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b", "(.*a){20}$"])
def test_patterns_with_exponential_backtracking_elsewhere_are_fast(pattern: str) -> None:
    """A backtracking engine would take longer than the age of the universe."""
    assert judged(pattern, b"a" * 20_000 + b"c") is False
