"""json_pieces: the text that msgspec makes, in pieces that stay small."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.store.disk import json_text
from pymq.store.disk.json_text import json_pieces

KEYS = st.text(max_size=3) | st.integers(0, 9)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS.map(str), inner, max_size=12),
    max_leaves=60,
)


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=12), st.integers(1, 6))
def test_the_pieces_are_the_text_that_msgspec_makes(value: dict[str, Any], count: int) -> None:
    before = json_text.PIECE_ENTRY_COUNT
    json_text.PIECE_ENTRY_COUNT = count
    try:
        text = b"".join(json_pieces(value))
    finally:
        json_text.PIECE_ENTRY_COUNT = before
    assert text == msgspec.json.format(msgspec.json.encode(value), indent=1)


def test_a_large_table_comes_in_small_pieces() -> None:
    wide = {"offsetTable": {f"T{i}@g": {0: i, 1: i} for i in range(5_000)}}
    deep = {"offsetTable": {f"T@g{i}": dict.fromkeys(range(5_000), i) for i in range(3)}, "more": 1}
    listed = {"groupTopicMap": {"g": [f"T{i}" for i in range(5_000)], "h": []}, "more": 1}
    for table in (wide, deep, listed):
        pieces = list(json_pieces(table))
        assert b"".join(pieces) == msgspec.json.format(msgspec.json.encode(table), indent=1)
        assert len(pieces) > 10 and max(map(len, pieces)) < 40 * json_text.PIECE_ENTRY_COUNT
