"""JSON bodies as columns: types of SQL and of JSON Schema, bodies that don't fit, and limits."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.spark.bodies.body_format import values_max
from pymq.spark.bodies.json_columns import FIGURES_MAX
from pymq.spark.bodies.typed_bodies import TypedBodies
from tests.client.registries import framed
from tests.spark.bodies.body_schemas import decoded, json_format


def one(kind: str, text: str) -> Any:
    """Return the value of a field of a type, or the reason why it has none."""
    values, wrong = decoded(json_format(f"a {kind}"), [b'{"a":%s}' % text.encode()])
    return wrong.get(0) or values[0]["a"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("string", '"\\u00e9"', "é"),
        ("boolean", "true", True),
        ("tinyint", "-128", -128),
        ("smallint", "32767", 32767),
        ("int", "2147483647", 2**31 - 1),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("float", "1", 1.0),
        ("double", "1.5e3", 1500.0),
        ("decimal(5,2)", "-123.45", Decimal("-123.45")),
        ("decimal(5,2)", '"1.5"', Decimal("1.50")),
        ("binary", '"AP8="', b"\0\xff"),
        ("date", '"2026-02-28"', date(2026, 2, 28)),
        ("timestamp", '"2026-01-01T00:00:00.5+02:00"', datetime(2025, 12, 31, 22, 0, 0, 500_000, UTC)),
        ("timestamp", '"2026-01-01 00:00:00"', datetime(2026, 1, 1, tzinfo=UTC)),
        ("timestamp_ntz", '"2026-01-01T00:00:00"', datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None)),
        ("json", '{"b": [1,null]}', '{"b": [1,null]}'),
        ("json", "null", None),
        ("array<map<string,int>>", '[{"x":1,"y":null},null]', [[("x", 1), ("y", None)], None]),
        ("map<string,array<date>>", '{"x":["2026-01-01"]}', [("x", [date(2026, 1, 1)])]),
        ("struct<b: struct<c: decimal(2,0)>, d: json>", '{"b":{"c":7},"e":1}', {"b": {"c": Decimal(7)}, "d": None}),
        ("array<json>", '[1,"x",null]', ["1", '"x"', None]),
    ],
)
def test_values(kind: str, text: str, value: Any) -> None:
    assert one(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("int", "2147483648", "<= 2147483647"),
        ("bigint", "9223372036854775808", "<= 9223372036854775807"),
        ("int", "1.5", "Expected `int"),
        ("int", '"1"', "Expected `int"),
        ("float", "1e39", "<= 3.4"),
        ("double", "1e400", "out of range"),
        ("double", "NaN", "malformed"),
        ("decimal(5,2)", "1234.5", "digits|precision|larger|fit"),
        ("decimal(5,2)", "1.505", "data loss"),
        ("decimal(5,2)", "1E-999999999", "more than 100 digits or so large an exponent"),
        ("decimal(5,2)", '"NaN"', "more than 100 digits|Invalid decimal|finite"),
        ("binary", '"?"', "base64"),
        ("timestamp", '"0001-01-01T00:00:00+14:00"', "outside the years 1 to 9999"),
        ("timestamp", "5", "Expected `datetime"),
        ("timestamp_ntz", '"2026-01-01T00:00:00Z"', "has a zone"),
        ("date", '"2026-02-30"', "Invalid RFC3339"),
        ("string", '"\\ud800"', "truncated|surrogate|malformed"),
        ("array<int>", "{}", "Expected `array"),
    ],
)
def test_reasons(kind: str, text: str, reason: str) -> None:
    assert re.search(reason, str(one(kind, text)))


@pytest.mark.parametrize(("digits", "is_good"), [(FIGURES_MAX, True), (FIGURES_MAX + 1, False)])
def test_the_digits_of_a_decimal_have_a_limit(digits: int, is_good: bool) -> None:
    found = one("decimal(5,2)", "1." + "0" * (digits - 1))
    assert (found == Decimal(1)) == is_good


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{", b'{"a":1} x', b'{"b":"\xff"}', b'{"b":' + b"[" * 100_000])
def test_bad_bodies_take_no_others_with_them(body: bytes) -> None:
    values, wrong = decoded(json_format("a int"), [b'{"a":1}', body, b"{}"])
    assert values == [{"a": 1}, None, {"a": None}]
    assert list(wrong) == [1]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.sampled_from([b'{"a":1}', b'{"a":"x"}', b"{}"]), st.binary(max_size=8)), max_size=40))
def test_any_mix_of_good_and_bad(bodies: list[bytes]) -> None:
    values, wrong = decoded(json_format("a int, b array<decimal(3,1)>"), bodies)
    assert [row for row, value in enumerate(values) if value is None] == sorted(wrong)
    for row, body in enumerate(bodies):
        if body == b'{"a":1}':
            assert values[row] == {"a": 1, "b": None}


def test_values_that_only_the_column_refuses_are_found_among_many() -> None:
    bodies = [b'{"d":1.25}' if number % 7 == 3 else b'{"d":1.2}' for number in range(100)]
    values, wrong = decoded(json_format("d decimal(3,1)"), bodies)
    assert sorted(wrong) == list(range(3, 100, 7))
    assert sum(value is not None for value in values) == 100 - len(wrong)


def test_the_values_of_a_body_have_a_limit_by_its_size() -> None:
    wide = json_format(f"a array<struct<{','.join(f'f{n}: int' for n in range(500))}>>")

    def body(count: int) -> bytes:
        return b'{"a":[%s]}' % b",".join([b"{}"] * count)

    item, weight = 4 + 500 + 1, 4 + 4
    fits = next(n for n in range(1000, 0, -1) if weight + n * item <= values_max(len(body(n)), weight))
    _, wrong = decoded(wide, [body(fits), body(fits + 1)])
    assert wrong == {1: f"it has more than {values_max(len(body(fits + 1)), weight)} values, the limit of its size"}


def test_frames_of_a_registry_are_left_out() -> None:
    found = json_format("a int", registry="http://127.0.0.1:1")
    assert decoded(found, [framed(5, b'{"a":1}'), b'{"a":2}', b"\0"])[0] == [{"a": 1}, {"a": 2}, None]


def test_json_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "total": {"type": ["number", "null"]},
            "at": {"type": "string", "format": "date-time"},
            "day": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/a~1line"}},
            "labels": {"type": "object", "additionalProperties": {"type": "boolean"}},
            "parent": {"$ref": "#"},
            "any": {},
            "several": {"type": ["string", "integer"]},
            "choice": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "free": {"type": "object"},
        },
        "$defs": {"a/line": {"properties": {"what": {"type": "string"}}}},
    }
    found = json_format(json.dumps(schema))
    assert TypedBodies(found).arrow_type == pa.struct(
        [
            ("id", pa.int64()),
            ("total", pa.float64()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("day", pa.date32()),
            ("lines", pa.list_(pa.struct([("what", pa.string())]))),
            ("labels", pa.map_(pa.string(), pa.bool_())),
            ("parent", TypedBodies(found).arrow_type.field("parent").type),
            *((name, pa.string()) for name in ("any", "several", "choice", "free")),
        ]
    )
    values, wrong = decoded(found, [b'{"lines":[{"what":"x"}],"several":5,"labels":{"new":true},"parent":{"id":1}}'])
    assert not wrong
    assert values[0]["lines"] == [{"what": "x"}]
    assert values[0]["several"] == "5"
    assert values[0]["labels"] == [("new", True)]
    assert values[0]["parent"]["id"] == 1
