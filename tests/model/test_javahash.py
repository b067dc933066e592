"""Java's string hash, for every kind of text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.model.javahash import index_key_hash, string_hash, tags_code

LOWEST = -(2**31)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("Aa", 2112),
        ("BB", 2112),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("hello world", 1794106052),
        ("polygenelubricants", LOWEST),
        ("é", 0xE9),
        ("€", 0x20AC),
        ("\uffff", 0xFFFF),
        ("😀", 0xD83D * 31 + 0xDE00),
        ("\ud83d", 0xD83D),
        ("a\ude00", 97 * 31 + 0xDE00),
    ],
)
def test_as_java_hashes(text: str, expected: int) -> None:
    assert string_hash(text) == expected


@given(st.text(st.characters(exclude_categories=[])))
def test_the_definition(text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for i in range(0, len(units), 2):
        total = total * 31 + int.from_bytes(units[i : i + 2], "big")
    assert string_hash(text) == (total + 2**31) % 2**32 - 2**31


def test_a_tags_code_keeps_the_sign_and_nothing_is_zero() -> None:
    assert tags_code("") == 0
    assert tags_code("polygenelubricants") == LOWEST
    assert tags_code("TagA || TagB") == string_hash("TagA || TagB")


@given(st.text(max_size=10), st.text(max_size=10))
def test_an_index_hash_is_never_negative(topic: str, key: str) -> None:
    value = index_key_hash(topic, key)
    assert 0 <= value < 2**31
    assert value in (abs(string_hash(topic + "#" + key)), 0)


def test_the_lowest_hash_has_no_absolute_value_in_java() -> None:
    assert string_hash("T#jllgvmc") == LOWEST
    assert index_key_hash("T", "jllgvmc") == 0
