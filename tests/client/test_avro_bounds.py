"""Bounds of Avro bodies: depth, numbers of values, and the schemas by which a short body may have any number."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from pymq.client.avro_bounds import AVRO_DEPTH_MAX, RECORD_WEIGHT, AvroBounds, AvroBoundsError
from pymq.client.codecs import AvroCodec, CodecError

fastavro = pytest.importorskip("fastavro")
LIST = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}


def bounds(schema: Any) -> AvroBounds:
    named: dict[str, Any] = {}
    return AvroBounds(fastavro.parse_schema(schema, named_schemas=named), named)


def record(*types: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": one} for n, one in enumerate(types)]}


def encoded(schema: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


def nodes(depth: int) -> bytes:
    return b"\x02" * (depth - 1) + b"\0"


def test_records_in_each_other_up_to_the_limit() -> None:
    found = bounds(LIST)
    assert found.is_recursive
    found.check_depth(nodes(AVRO_DEPTH_MAX))
    with pytest.raises(AvroBoundsError, match="more than 100 records in each other"):
        found.check_depth(nodes(AVRO_DEPTH_MAX + 1))


def test_a_deep_body_is_refused_before_the_library_reads_it() -> None:
    codec = AvroCodec(json.dumps(LIST))
    assert codec.decode(nodes(2)) == {"next": {"next": None}}
    with pytest.raises(CodecError, match="records in each other"):
        codec.decode(nodes(4_000_000))


def test_a_record_in_itself_through_another_is_found() -> None:
    other = record(["null", "R"], name="Other")
    assert bounds(record(other)).is_recursive
    assert not bounds(record(record("int", name="Other"), "Other")).is_recursive


def test_values_are_counted_up_to_the_limit() -> None:
    schema = {"type": "array", "items": record("boolean", ["null", "long"])}
    found = bounds(schema)
    item = RECORD_WEIGHT + 3 + 1
    body = encoded(schema, [{"f0": True, "f1": None}] * 100)
    most = found.weight + 100 * item
    assert found.counted(body, most) == most
    with pytest.raises(AvroBoundsError, match=f"more than {most - 1} values"):
        found.counted(body, most - 1)
    assert found.values(body, 10 * most) >= most


@pytest.mark.parametrize("count", [2**62, -(2**62), 2**63 - 1])
def test_a_block_count_that_lies_ends_at_the_limit(count: int) -> None:
    zigzag = (count << 1) ^ (count >> 63)
    number = bytearray()
    while zigzag > 0x7F:
        number.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    number.append(zigzag)
    body = bytes(number) + b"\x02" * (1 + (count < 0))
    with pytest.raises(AvroBoundsError, match="values, the limit"):
        bounds({"type": "array", "items": "boolean"}).counted(body, 1000)


@pytest.mark.parametrize(
    ("schema", "body", "reason"),
    [
        ("string", b"\x05abc", "the size -3"),
        ("string", b"\x08abc", "the size 4"),
        (["null", "int"], b"\x01", "has the number -1"),
        ("bytes", b"\xff" * 11, "more than 10 bytes"),
        (record("double"), b"\x01", "ends early"),
        ("long", b"\xff", "ends early"),
    ],
)
def test_bodies_that_do_not_add_up(schema: Any, body: bytes, reason: str) -> None:
    with pytest.raises(AvroBoundsError, match=reason):
        bounds(schema).counted(body, 1000)


@pytest.mark.parametrize(
    ("items", "is_bounded"),
    [
        ("null", False),
        (record("null"), False),
        ({"type": "fixed", "name": "F", "size": 0}, False),
        (record("null", "boolean"), True),
        (["null"], True),
    ],
)
def test_items_without_bytes(items: Any, is_bounded: bool) -> None:
    assert bounds({"type": "array", "items": items}).is_bounded is is_bounded
    assert bounds({"type": "map", "values": items}).is_bounded


def test_types_that_double_at_each_level_are_looked_at_once() -> None:
    schema: Any = record("int", name="R0")
    for level in range(1, 60):
        schema = record(schema, f"R{level - 1}", name=f"R{level}")
    assert bounds(schema).weight > 2**59


def test_every_form_is_skipped() -> None:
    forms = record(
        "int", "string", "bytes", "float", "double", "boolean", "null",
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "fixed", "name": "F", "size": 3},
        {"type": "map", "values": {"type": "array", "items": ["null", "E"]}},
    )  # fmt: skip
    values = (-1, "é", b"\0\1", 1.5, 2.5, True, None, "B", b"abc", {"k": ["A", None]})
    value = {f"f{n}": one for n, one in enumerate(values)}
    body = encoded(forms, value)
    found = bounds(forms)
    assert found.counted(body, 1000) <= found.values(body, 1000)
    with pytest.raises(AvroBoundsError, match=r"ends early|the size"):
        found.counted(body[:-1], 1000)
