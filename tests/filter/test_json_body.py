"""Bodies read as JSON, and bodies that are not JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.errors import FilterError
from pymq.filter.json_body import JSON_BODY_MAX_BYTES, json_body, node_count_max
from pymq.filter.messages import FilterMessage

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))


@pytest.mark.slow
@given(VALUES)
def test_values_come_back_and_are_never_undercounted(value: Any) -> None:
    body = json.dumps(value).encode()
    assert json_body(FilterMessage(body=body)) == value
    assert node_count_max(body) >= count(value)


@pytest.mark.parametrize("body", [b"", b"x", b"{", b"\xff", b'"\\ud800"', b"[" * 100_000])
def test_a_body_that_is_not_json_is_an_error(body: bytes) -> None:
    with pytest.raises(FilterError, match="the body is"):
        json_body(FilterMessage(body=body))


def test_the_largest_body() -> None:
    assert json_body(FilterMessage(body=b"1" + b" " * (JSON_BODY_MAX_BYTES - 1))) == 1
    with pytest.raises(FilterError, match="1048577 bytes, filters read JSON up to 1048576"):
        json_body(FilterMessage(body=b"1" + b" " * JSON_BODY_MAX_BYTES))
