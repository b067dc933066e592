"""Fields by their shared names."""

from __future__ import annotations

import pytest

from pymq.filter.fields import field
from pymq.filter.messages import FilterMessage

MESSAGE = FilterMessage(body=b"text", properties={"KEYS": "k1 k2", "TAGS": "paid", "orderId": "7", "é": "x"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("body", b"text"),
        ("key", b"k1 k2"),
        ("KEYS", b"k1 k2"),
        ("tag", b"paid"),
        ("tags", b"paid"),
        ("orderId", b"7"),
        ("é", b"x"),
        ("orderid", None),
        ("", None),
    ],
)
def test_fields(name: str, value: bytes | None) -> None:
    assert field(name)(MESSAGE) == value
