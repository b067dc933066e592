"""Every invalid text raises the same error class."""

from __future__ import annotations

import msgspec
import pytest

from pymq.model.fastjson import JsonError
from pymq.model.strict_json import decode_json

NESTED = b'{"other":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


class Point(msgspec.Struct):
    x: int = 0
    name: str = ""


def test_a_value_of_the_type() -> None:
    assert decode_json(b'{"x":7,"other":1}', Point) == Point(7)
    assert decode_json(b"[1,2]", list[int]) == [1, 2]
    assert decode_json(msgspec.Raw(b'{"x":8}'), Point) == Point(8)


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b'{"x":"7"}', b'{"name":"\xff"}', b"\xff", NESTED],
    ids=["nothing", "half", "another shape", "another type", "no text", "no JSON", "too deep"],
)
def test_values_of_another_type_are_refused(raw: bytes) -> None:
    with pytest.raises(JsonError, match="not a Point: "):
        decode_json(raw, Point)
