"""Avro bodies as columns: types, unions, logical types, bodies that don't fit, and versions of a registry."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pymq.client.schema_registry import RegistryError
from pymq.errors import UsageError
from pymq.spark.bodies.body_format import BODY_VALUES_FREE, BODY_VALUES_MAX, BODY_VALUES_PER_BYTE_MAX, BodyFormat
from pymq.spark.bodies.typed_bodies import TypedBodies
from tests.client.registries import Registry, framed
from tests.spark.bodies.body_schemas import avro_body, avro_format, avro_record, decoded, varint

pytest.importorskip("fastavro")
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


def logical(kind: Any, name: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **fields}


def one(schema: Any, value: Any) -> Any:
    """Return a value that was written and read back as the only field of a record."""
    whole = avro_record(schema)
    values, wrong = decoded(avro_format(whole), [avro_body(whole, {"f0": value})])
    assert not wrong
    return values[0]["f0"]


@pytest.mark.parametrize(
    ("schema", "arrow", "value"),
    [
        ("int", pa.int32(), -(2**31)),
        ("long", pa.int64(), 2**63 - 1),
        ("float", pa.float32(), 1.5),
        ("double", pa.float64(), -0.1),
        ("boolean", pa.bool_(), True),
        ("string", pa.string(), "é\0"),
        ("bytes", pa.binary(), b"\0\xff"),
        (ENUM, pa.string(), "B"),
        ({"type": "fixed", "name": "F", "size": 2}, pa.binary(), b"ab"),
        ({"type": "array", "items": ["null", "int"]}, pa.list_(pa.int32()), [1, None]),
        (["null", {"type": "array", "items": "string"}], pa.list_(pa.string()), None),
        (avro_record("int", name="Inner"), pa.struct([("f0", pa.int32())]), {"f0": 1}),
        (["int", "long"], pa.int64(), 2**40),
        (logical("int", "date"), pa.date32(), date(2026, 2, 28)),
        (logical("bytes", "decimal", precision=5, scale=2), pa.decimal128(5, 2), Decimal("-123.45")),
        (logical("int", "time-millis"), pa.int32(), None),
        (logical("string", "uuid"), pa.string(), "4ad5f6a0-0000-0000-0000-000000000001"),
    ],
)
def test_types(schema: Any, arrow: pa.DataType, value: Any) -> None:
    assert TypedBodies(avro_format(avro_record(schema))).arrow_type == pa.struct([("f0", arrow)])
    if value is not None:
        assert one(schema, value) == value


@pytest.mark.parametrize("unit", ["millis", "micros", "nanos"])
def test_times_have_microseconds_and_zones(unit: str) -> None:
    stored = {"millis": 1_700_000_000_123, "micros": 1_700_000_000_123_456, "nanos": 1_700_000_000_123_456_999}[unit]
    expected = datetime(2023, 11, 14, 22, 13, 20, 123_000 if unit == "millis" else 123_456, UTC)
    schema = avro_record(logical("long", f"timestamp-{unit}"), logical("long", f"local-timestamp-{unit}"))
    plain = avro_record("long", "long")
    values, _ = decoded(avro_format(schema), [avro_body(plain, {"f0": stored, "f1": stored})])
    assert values == [{"f0": expected, "f1": expected.replace(tzinfo=None)}]


@pytest.mark.parametrize(("value", "is_good"), [(253_402_300_799_999, True), (253_402_300_800_000, False)])
def test_a_time_after_the_year_9999_is_bad(value: int, is_good: bool) -> None:
    schema = avro_record(logical("long", "timestamp-millis"))
    _, wrong = decoded(avro_format(schema), [avro_body(avro_record("long"), {"f0": value})])
    assert (0 not in wrong) == is_good
    assert is_good or "outside the years 1 to 9999" in wrong[0]


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        (b"\x03\xe7", Decimal("9.99")),
        (b"\xfc\x19", Decimal("-9.99")),
        (b"\0" * 1000 + b"\x01", Decimal("0.01")),
        (b"\xff" * 1000, Decimal("-0.01")),
        (b"\x03\xe8", None),
        (b"\x01" + b"\0" * 100, None),
        (b"", Decimal("0.00")),
    ],
)
def test_decimals_of_any_length(stored: bytes, value: Decimal | None) -> None:
    schema = avro_record(logical("bytes", "decimal", precision=3, scale=2))
    values, wrong = decoded(avro_format(schema), [avro_body(avro_record("bytes"), {"f0": stored})])
    assert values == ([None] if value is None else [{"f0": value}])
    assert value is not None or "more than the schema's 3 digits" in wrong[0]


def test_a_decimal_of_more_digits_than_spark_has_is_bytes() -> None:
    schema = avro_record(logical("bytes", "decimal", precision=39, scale=2))
    assert TypedBodies(avro_format(schema)).arrow_type == pa.struct([("f0", pa.binary())])


def test_unions_of_several_types_are_structs_of_members() -> None:
    inner = avro_record("int", name="Inner")
    union = ["null", "string", ENUM, "long", inner, {"type": "map", "values": "E"}]
    schema = avro_record(union, ["null", "Inner"])
    values = ["A", ("E", "A"), 7, ("Inner", {"f0": 1}), None, {"k": "B"}]
    bodies = [avro_body(schema, {"f0": value, "f1": {"f0": 2}}) for value in values]
    found, wrong = decoded(avro_format(schema), bodies)
    empty = dict.fromkeys(f"member{n}" for n in range(5))
    members = [
        ("member0", "A"),
        ("member1", "A"),
        ("member2", 7),
        ("member3", {"f0": 1}),
        None,
        ("member4", [("k", "B")]),
    ]
    assert not wrong
    assert [row["f0"] for row in found] == [None if one is None else {**empty, one[0]: one[1]} for one in members]
    assert all(row["f1"] == {"f0": 2} for row in found)


def test_a_record_in_itself_is_the_text_of_its_json() -> None:
    schema = avro_record("bytes", {"type": "array", "items": "R"}, ["null", "string", ENUM])
    value = {"f0": b"a", "f1": [{"f0": b"b", "f1": [], "f2": ("E", "A")}], "f2": "x"}
    values, wrong = decoded(avro_format(schema), [avro_body(schema, value)])
    assert not wrong
    assert values[0]["f1"] == ['{"f0":"Yg==","f1":[],"f2":"A"}']


def test_what_has_no_value_is_no_column() -> None:
    schema = avro_record("null", "int", avro_record("null", name="Empty"), ["null"])
    assert decoded(avro_format(schema), [b"\x02\0"]) == ([{"f1": 1}], {})
    with pytest.raises(UsageError, match=r"r.avsc has no field that can be a column"):
        TypedBodies(avro_format(avro_record("null")))


@pytest.mark.parametrize(
    ("schema", "body", "reason"),
    [
        (avro_record("string"), b"", "ends early"),
        (avro_record("string"), b"\x08abc", "ends early"),
        (avro_record("string"), b"\x04\xff\xfe", "utf-8"),
        (avro_record("int"), b"\x02\x02", "1 bytes stand behind the value"),
        (avro_record("int"), varint(2**33), "too large to fit"),
        (avro_record(ENUM), b"\x08", "out of range"),
        (avro_record(["null", "int"]), b"\x08", "out of range"),
        (avro_record(logical("int", "date")), varint(2 * 2_932_897), "outside the years"),
    ],
)
def test_bad_bodies_have_reasons_and_take_no_others_with_them(schema: Any, body: bytes, reason: str) -> None:
    good = {"string": b"\x02a", "int": b"\x02"}.get(str(schema["fields"][0]["type"]), b"\0")
    values, wrong = decoded(avro_format(schema), [good, body, good])
    assert [value is None for value in values] == [False, True, False]
    assert list(wrong) == [1]
    assert reason in wrong[1]


def test_the_values_of_a_body_have_a_limit_by_its_size() -> None:
    wide = avro_record(*["long"] * 100, name="Wide")
    schema = {"type": "array", "items": ["null", wide]}
    weight = TypedBodies(avro_format(schema))._reader._schema.bounds.weight  # type: ignore[attr-defined]
    item = 1 + 4 + 100 + 1

    def body(count: int) -> bytes:
        return varint(2 * count) + b"\0" * count + b"\0"

    fits = next(n for n in range(1000, 0, -1) if n * item <= BODY_VALUES_FREE + BODY_VALUES_PER_BYTE_MAX * len(body(n)))
    _, wrong = decoded(avro_format(schema), [body(fits), body(fits + 1)])
    limit = weight + BODY_VALUES_FREE + BODY_VALUES_PER_BYTE_MAX * len(body(fits + 1))
    assert wrong == {1: f"it has more than {limit} values, the limit of its size"}
    most = (BODY_VALUES_MAX - 4) // 2
    booleans = [varint(2 * count) + b"\1" * count + b"\0" for count in (most, most + 1)]
    assert list(decoded(avro_format({"type": "array", "items": "boolean"}), booleans)[1]) == [1]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("no JSON", "is no Avro schema"),
        ('{"type": "record"}', "is no Avro schema"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Other"}]}', "is no Avro schema"),
        ('{"type": "array", "items": "null"}', "no field that can be a column"),
        (json.dumps(avro_record("int", {"type": "array", "items": "null"})), "array of items without bytes"),
        ("[" * 100_000, "is no Avro schema"),
    ],
)
def test_schemas_that_are_none_are_refused(schema: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        TypedBodies(BodyFormat("avro", schema, "r.avsc"))


def test_bodies_of_other_versions_are_resolved_by_the_registry() -> None:
    old = avro_record("int")
    new = {**old, "fields": [{"name": "f0", "type": "long"}, {"name": "f1", "type": "string", "default": "none"}]}
    other = avro_record("string")
    found = avro_format(new)
    with Registry() as served:
        for number, schema in ((1, old), (2, new), (3, other)):
            served.put(number, "AVRO", avro_format(schema).definition)
        served.put(4, "JSON", "{}")
        reading = avro_format(new, registry=served.url)
        bodies = [
            framed(1, avro_body(old, {"f0": 1})),
            framed(2, avro_body(new, {"f0": 2, "f1": "x"})),
            avro_body(new, {"f0": 3, "f1": "y"}),
            framed(3, avro_body(other, {"f0": "z"})),
            framed(4, b"{}"),
            framed(99, b""),
            b"\0\0",
        ]
        values, wrong = decoded(reading, bodies)
        assert values[:3] == [{"f0": 1, "f1": "none"}, {"f0": 2, "f1": "x"}, {"f0": 3, "f1": "y"}]
        assert list(wrong) == [3, 4, 5, 6]
        assert "its schema 4 is of the type JSON" in wrong[4]
        assert decoded(found, bodies[2:3])[0] == values[2:3]
        served.raw = 503, b"busy"
        with pytest.raises(RegistryError, match="status 503"):
            decoded(reading, bodies[:1])
