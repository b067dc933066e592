"""Protobuf bodies as columns: types, presence, Google's own types, bodies that don't fit, and a registry's frames."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.spark.bodies.body_format import BODY_VALUES_MAX, BadBodyError, BodyFormat, values_max
from pymq.spark.bodies.protobuf_bounds import PROTOBUF_DEPTH_MAX
from pymq.spark.bodies.typed_bodies import TypedBodies
from tests.client.registries import ORDER_PROTO, framed
from tests.spark.bodies.body_schemas import decoded, descriptors, message_class, varint

pytest.importorskip("grpc_tools")
SOURCE = """syntax = "proto3"; package p;
import "google/protobuf/timestamp.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto"; import "google/protobuf/duration.proto";
message M {
  int32 a = 1; string s = 2; uint64 u = 3; optional int32 o = 4; google.protobuf.Timestamp at = 5;
  repeated M kids = 6; map<string, L> mapped = 7; E e = 8; enum E { A = 0; B = 1; } google.protobuf.Struct st = 9;
  google.protobuf.Int64Value w = 10; repeated L lines = 11; message L { repeated sint32 n = 1; bytes b = 2; }
  oneof q { int32 z = 12; string t = 13; } message Empty {} Empty empty = 14; repeated E es = 15; L line = 16;
  google.protobuf.Duration took = 17; uint32 u32 = 18; repeated Empty empties = 19; map<int32, Empty> of_empty = 20;
}
message Other { int32 a = 1; }
"""
PROTO2 = """syntax = "proto2";
message M {
  required int32 a = 1; optional string s = 2; optional group G = 3 { optional int32 x = 1; } repeated M m = 4;
  repeated bool b = 5; repeated double d = 6; repeated string t = 7; repeated fixed32 f = 8; }
"""


def proto_format(source: str, message: str, **fields: Any) -> BodyFormat:
    return BodyFormat("protobuf", descriptors(source), "m.proto", message=message, **fields)


@pytest.fixture(scope="module")
def m() -> BodyFormat:
    return proto_format(SOURCE, "p.M")


@pytest.fixture(scope="module")
def proto2() -> BodyFormat:
    return proto_format(PROTO2, "M")


def test_types_and_values(m: BodyFormat) -> None:
    line = pa.struct([("n", pa.list_(pa.int32())), ("b", pa.binary())])
    assert TypedBodies(m).arrow_type == pa.struct(
        [
            ("a", pa.int32()),
            ("s", pa.string()),
            ("u", pa.decimal128(20, 0)),
            ("o", pa.int32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("kids", pa.list_(pa.string())),
            ("mapped", pa.map_(pa.string(), line)),
            ("e", pa.string()),
            ("st", pa.string()),
            ("w", pa.int64()),
            ("lines", pa.list_(line)),
            ("z", pa.int32()),
            ("t", pa.string()),
            ("es", pa.list_(pa.string())),
            ("line", line),
            ("took", pa.int64()),
            ("u32", pa.int64()),
        ]
    )
    full = message_class(SOURCE, "p.M")(a=-5, s="é", u=2**64 - 1, o=0, e=7, z=4, es=[0, 1, 9], u32=2**32 - 1)
    full.at.seconds, full.at.nanos, full.took.seconds, full.took.nanos = 1_700_000_000, 123_456_999, -1, -500_000_000
    full.kids.add(a=3)
    full.mapped["k"].n.extend([1, -2])
    full.st["x"] = 1
    full.w.value = 5
    full.lines.add(b=b"1")
    full.lines.add(n=[7])
    values, wrong = decoded(m, [full.SerializeToString(), b""])
    assert not wrong
    assert values[0] == {
        "a": -5,
        "s": "é",
        "u": Decimal(2**64 - 1),
        "o": 0,
        "at": datetime(2023, 11, 14, 22, 13, 20, 123_456, UTC),
        "kids": ['{"a": 3}'],
        "mapped": [("k", {"n": [1, -2], "b": b""})],
        "e": "7",
        "st": '{"x": 1.0}',
        "w": 5,
        "lines": [{"n": [], "b": b"1"}, {"n": [7], "b": b""}],
        "z": 4,
        "t": None,
        "es": ["A", "B", "9"],
        "line": None,
        "took": -1_500_000,
        "u32": 2**32 - 1,
    }
    defaults = {"a": 0, "s": "", "u": Decimal(0), "e": "A", "kids": [], "mapped": [], "lines": [], "es": [], "u32": 0}
    assert values[1] == {**dict.fromkeys(values[0]), **defaults}


def test_proto2_has_presence_everywhere_and_groups(proto2: BodyFormat) -> None:
    found = message_class(PROTO2, "M")(a=1, s="x")
    found.g.x = 2
    lists: dict[str, list[Any]] = {"m": [], "b": [], "d": [], "t": [], "f": []}
    values, wrong = decoded(proto2, [found.SerializeToString(), b"", b"\x12\x02\xff\xfe"])
    assert values == [{"a": 1, "s": "x", "g": {"x": 2}, **lists}, {"a": None, "s": None, "g": None, **lists}, None]
    assert wrong == {2: "a string in it is not UTF-8"}


def test_bad_bodies_have_reasons_and_take_no_others_with_them(m: BodyFormat) -> None:
    kind = message_class(SOURCE, "p.M")
    late = kind()
    late.at.seconds = 2**60
    values, wrong = decoded(m, [kind(a=1).SerializeToString(), b"\xff", late.SerializeToString(), b"\x12\x01\xff", b""])
    assert [value is None for value in values] == [False, True, True, True, False]
    assert "corrupt" in wrong[1]
    assert "outside the years 1 to 9999" in wrong[2]
    assert sorted(wrong) == [1, 2, 3]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.binary(max_size=4)), max_size=3))
def test_what_the_library_reads_the_walk_reads_too(changes: list[tuple[int, int, bytes]]) -> None:
    kind = message_class(PROTO2, "M")
    whole = kind(a=1, s="x", b=[True], d=[1.5], t=["y"], f=[7])
    whole.g.x = 2
    whole.m.add(a=3)
    body = whole.SerializeToString()
    for first, last, put in changes:
        body = body[:first] + put + body[max(first, last) :]
    try:
        kind.FromString(body)
    except Exception:  # the library's own DecodeError
        decoded(proto_format(PROTO2, "M"), [body])
    else:
        counted(proto_format(PROTO2, "M"), body)


def nested(levels: int) -> bytes:
    body = b""
    for _ in range(levels):
        body = b"\x22" + varint(len(body)) + body
    return body


def counted(body_format: BodyFormat, body: bytes) -> int:
    return TypedBodies(body_format)._reader._bounds.counted(body)  # type: ignore[attr-defined]


def reason(body_format: BodyFormat, body: bytes) -> str:
    with pytest.raises(BadBodyError) as caught:
        counted(body_format, body)
    return str(caught.value)


def test_the_walk_counts_what_lists_hold(proto2: BodyFormat) -> None:
    weight = counted(proto2, b"")
    packed = varint(300) * 3
    for body, items in (
        (b"\x2a" + varint(len(packed)) + packed, 3),  # varints of two bytes
        (b"\x28\x01\x28\x00", 2),
        (b"\x32\x10" + b"\1" * 16, 2),
        (b"\x31" + b"\1" * 8, 1),
        (b"\x42\x08" + b"\1" * 8, 2),
        (b"\x45" + b"\1" * 4, 1),
        (b"\x3a\x03abc\x3a\0", 2),
        (b"\x1b\x08\x01\x1c", 0),  # a group
        (b"\x7b\x08\x01\x7b\x7c\x7c", 0),  # an unknown one
        (
            b"\x1a\x01\xff\x23\x08\x01\x24\x20\x01",
            0,
        ),  # forms that are not the fields'
        (b"\x22\0" * 2, 2 * (4 + 8 + 4)),  # messages in themselves, as text
    ):
        assert counted(proto2, body) - weight == items, body


@pytest.mark.parametrize(
    "body", [b"\x22\x05a", b"\x0c", b"\x7b", b"\x7b\x1c", b"\xff" * 11, b"\x0e", b"\x31a", b"\x08"]
)
def test_the_walk_ends_where_bytes_do_not_add_up(proto2: BodyFormat, body: bytes) -> None:
    assert reason(proto2, body) == "its bytes are no Protobuf"


def test_messages_in_each_other_and_groups_have_a_limit(proto2: BodyFormat) -> None:
    assert counted(proto2, nested(PROTOBUF_DEPTH_MAX))
    assert "more than 100 messages in each other" in reason(proto2, nested(PROTOBUF_DEPTH_MAX + 1))
    assert "more than 100 messages in each other" in reason(proto2, b"\x7b" * 1_000_000)


def test_the_values_of_a_body_have_a_limit(proto2: BodyFormat) -> None:
    weight = counted(proto2, b"")

    def booleans(count: int) -> bytes:
        return b"\x2a" + varint(count) + b"\1" * count

    most = BODY_VALUES_MAX - weight
    assert decoded(proto2, [booleans(most)])[1] == {}
    assert "more than 1000000 values" in decoded(proto2, [booleans(most + 1)])[1][0]
    wide = proto_format(
        'syntax = "proto3"; message M { repeated W w = 1; } message W {'
        + "".join(f"int32 f{n} = {n};" for n in range(1, 301))
        + "}",
        "M",
    )
    values, wrong = decoded(wide, [b"\x0a\0" * 10, b"\x0a\0" * 1000])
    assert values[0] is not None
    assert wrong == {1: f"it has more than {values_max(2000, 5)} values, the limit of its size"}


@pytest.mark.parametrize(
    ("message", "text"),
    [("p.None", r"no message 'p.None': option bodyMessage takes one of .*p.M, p.Other"), ("", "has 2 messages")],
)
def test_the_message_is_named_where_there_are_several(message: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        TypedBodies(proto_format(SOURCE, message))


@pytest.mark.parametrize("definition", ["", "!", "AAAA", "//8="])
def test_what_is_no_descriptor_set_is_refused(definition: str) -> None:
    with pytest.raises(UsageError, match=r"no Protobuf descriptor set|has 0 messages"):
        TypedBodies(BodyFormat("protobuf", definition, "m.desc"))


def test_a_descriptor_set_may_lack_googles_types() -> None:
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(descriptors(SOURCE)))
    alone = descriptor_pb2.FileDescriptorSet(file=[file for file in files.file if file.package == "p"])
    found = BodyFormat("protobuf", base64.b64encode(alone.SerializeToString()).decode(), "m.desc", message="p.Other")
    assert decoded(found, [b"\x08\x05"]) == ([{"a": 5}], {})


def test_frames_of_a_registry_say_the_message() -> None:
    found = proto_format(ORDER_PROTO, "shop.Order", registry="http://127.0.0.1:1")
    order = message_class(ORDER_PROTO, "shop.Order")(id=7).SerializeToString()
    bodies = [
        framed(1, b"\0" + order),
        order,
        framed(1, b"\x02\x02" + order),
        framed(1, b"\x02\x08"),
        framed(1, b"\xff"),
    ]
    values, wrong = decoded(found, bodies)
    assert [value and value["id"] for value in values] == [7, 7, None, None, None]
    assert wrong[2] == "it is shop.Refund, and not shop.Order"
    assert wrong[3] == "it is an unknown type, and not shop.Order"
