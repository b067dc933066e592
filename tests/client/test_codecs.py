"""Codecs: objects to bodies and back, and errors that say what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, assert_type

import msgspec
import pytest

from pymq.client import Message
from pymq.client.codecs import Codec, CodecError, JsonCodec, MsgpackCodec, ProtobufCodec, TextCodec
from pymq.errors import UsageError


@dataclass
class Order:
    number: int
    city: str = "Rome"


class Point(msgspec.Struct):
    x: float


class Pair(NamedTuple):
    left: str
    right: int


class Generated:
    """What protoc's classes offer, without protobuf."""

    def __init__(self, value: bytes = b"") -> None:
        self.value = value

    def SerializeToString(self) -> bytes:
        if not self.value:
            raise RuntimeError("the field value is required")
        return b"\x0a" + self.value

    def ParseFromString(self, serialized: bytes) -> None:
        if serialized[:1] != b"\x0a":
            raise RuntimeError("Error parsing message")
        self.value = serialized[1:]


@pytest.mark.parametrize("codec", [JsonCodec, MsgpackCodec])
@pytest.mark.parametrize("value", [Order(7, "Köln"), Point(0.5), Pair("a", 3), {"any": [1, None, "x"]}])
def test_a_value_comes_back_as_it_was(codec: Any, value: Any) -> None:
    kind = Any if isinstance(value, dict) else type(value)
    assert codec(kind).decode(codec(kind).encode(value)) == value


def test_json_is_plain_json_for_everyone_else() -> None:
    assert JsonCodec(Order).encode(Order(7)) == b'{"number":7,"city":"Rome"}'
    assert JsonCodec(list[Order]).decode(b'[{"number":1}]') == [Order(1)]


def test_text_and_protobuf() -> None:
    assert TextCodec().decode(TextCodec().encode("Köln")) == "Köln"
    codec = ProtobufCodec(Generated)
    assert codec.decode(codec.encode(Generated(b"abc"))).value == b"abc"


@pytest.mark.parametrize(
    ("work", "problem"),
    [
        (lambda: JsonCodec(Order).decode(b'{"number":"x"}'), r"is no JSON of Order.*number"),
        (lambda: JsonCodec().decode(b"{" * 5000), "is no JSON of any value"),
        (lambda: JsonCodec().encode(object()), "can't be written as JSON"),
        (lambda: MsgpackCodec(Order).decode(b"\xc1"), "is no MessagePack of Order"),
        (lambda: TextCodec().decode(b"\xff"), "is no UTF-8 text"),
        (lambda: JsonCodec(Order).encode(Order("x")), r"is no Order: Expected `int`, got `str` - at `\$.number`"),  # type: ignore[arg-type]
        (lambda: JsonCodec(Order).encode({"city": "Rome"}), "is no Order: .*number"),  # type: ignore[arg-type]
        (lambda: MsgpackCodec(Point).encode(Point("x")), r"is no Point: .*\$.x"),  # type: ignore[arg-type]
        (lambda: TextCodec().encode("\ud800"), "can't be written as UTF-8"),
        (lambda: TextCodec().encode(b"x"), r"b'x' \(bytes\) is no text"),  # type: ignore[arg-type]
        (lambda: ProtobufCodec(Generated).decode(b"?"), "is no Generated: Error parsing"),
        (lambda: ProtobufCodec(Generated).encode(Generated()), "can't be written: the field value is required"),
        (lambda: ProtobufCodec(Generated).encode(Order(1)), "is no Generated"),  # type: ignore[arg-type]
    ],
)
def test_what_does_not_fit_is_named(work: Any, problem: str) -> None:
    with pytest.raises(CodecError, match=problem):
        work()


def test_a_class_that_fits_no_codec_is_refused() -> None:
    with pytest.raises(UsageError, match="no SerializeToString and no ParseFromString"):
        ProtobufCodec(Order)  # type: ignore[type-var]
    with pytest.raises(UsageError, match="is no type for a codec"):
        JsonCodec(list[Order | Point | Pair])


def test_a_message_encodes_its_body() -> None:
    assert Message("T", Order(7), codec=JsonCodec(Order)).body == b'{"number":7,"city":"Rome"}'
    assert Message("T", {"a": 1}, "tag", codec=JsonCodec()).tags == "tag"
    with pytest.raises(UsageError, match="give bytes or text"):
        Message("T", Order(7))  # type: ignore[call-overload]


def _typed_use() -> None:
    """Never called: mypy checks that it sees these types, and that each ignored error is one."""
    codec: Codec[Order] = JsonCodec(Order)
    assert_type(codec.decode(b""), Order)
    assert_type(MsgpackCodec(Point).decode(b""), Point)
    assert_type(Message("T", Order(1), codec=codec), Message)
