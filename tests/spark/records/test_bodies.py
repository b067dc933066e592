"""Bodies as text and as fields of JSON: schemas, values that fit and those that don't."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pymq.client.codecs import AvroCodec
from pymq.client.schema_registry import RegistryError
from pymq.errors import UsageError
from pymq.spark.export.options import ExportOptions
from pymq.spark.records.bodies import JsonBodies, arrow_type, inferred, json_form, parse_schema
from pymq.spark.records.decode import Decoder
from tests.client.registries import ORDER_AVRO, Registry, framed
from tests.spark.record_bytes import record

SCHEMA = "name string, paid boolean, count int, total bigint, amount double, rest json"
VALUES: Any = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.none()),
)
FITS = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: type(value) is int and abs(value + 0.5) < 2**31,
    "bigint": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "double": lambda value: type(value) in (int, float),
    "json": lambda value: True,
}


def test_schemas_and_their_types() -> None:
    fields = parse_schema(f" {SCHEMA} ")
    assert json_form(fields) == f"json:{SCHEMA}"
    kinds = [pa.string(), pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string()]
    assert arrow_type(json_form(fields)) == pa.struct(list(zip(fields, kinds, strict=True)))
    assert (arrow_type("utf8"), arrow_type("")) == (pa.string(), pa.binary())


@pytest.mark.parametrize("text", ["", "a", "a text", "a string,", "a string b int", "a string, a int", "a STRING"])
def test_other_schemas_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"of the body's schema|names 'a' twice"):
        parse_schema(text)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@example([{"amount": 2**53 + 1}])
@given(st.lists(st.dictionaries(st.sampled_from(["name", "paid", "count", "total", "amount", "rest", "x"]), VALUES)))
def test_values_come_as_json_has_them_or_are_named(objects: list[dict[str, Any]]) -> None:
    """A model: a body fits if each of its values is null or of the field's type; fields it lacks are null."""
    fields = parse_schema(SCHEMA)
    found, wrong = JsonBodies(json_form(fields)).decode([json.dumps(body).encode() for body in objects])
    for row, body in enumerate(objects):
        known = {name: body[name] for name in fields if body.get(name) is not None}
        fits = all(FITS[fields[name]](value) for name, value in known.items())
        assert (row not in wrong) == fits
        doubles = {name: float(value) for name, value in known.items() if fits and fields[name] == "double"}
        expected = {**dict.fromkeys(fields), **known, **doubles}  # a double is the nearest one
        shown = found[row].as_py()
        if fits and shown["rest"] is not None:
            shown["rest"] = json.loads(shown["rest"])
        assert shown == (expected if fits else None)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, min_size=1), min_size=1))
def test_bodies_fit_the_schema_that_is_inferred_from_them(objects: list[dict[str, Any]]) -> None:
    raw = [json.dumps(body).encode() for body in objects]
    assert JsonBodies(json_form(inferred([b"no JSON", b"[1]", *raw]))).decode(raw)[1] == {}


def test_what_has_no_schema() -> None:
    assert inferred([b'{"a":null,"b":1}', b'{"b":1.5,"x y":1}']) == {"a": "string", "b": "double"}
    with pytest.raises(UsageError, match="none of the first bodies"):
        inferred([b"", b"text", b"[]", b'{"x y":1}', b"[" * 100_000, b'"\xff"'])
    with pytest.raises(UsageError, match="501 fields, the limit is 500"):
        inferred([json.dumps({f"f{n}": n for n in range(501)}).encode()])


def test_wrong_bodies_fail_with_their_place_or_are_null() -> None:
    chunk = record(0, b'{"a":1}') + record(1, b"text") + record(2, b'{"a":"x"}') + record(3, b'{"a":"\xff"}')
    form = "json:a int"
    (batch,) = Decoder("b", ("body", "bodyText"), body_form=form).decode(chunk)
    assert batch.column("body").to_pylist() == [{"a": 1}, None, None, None]
    assert batch.schema.field("body").type == arrow_type(form)
    with pytest.raises(UsageError, match=r"the body of T/b/0@1 doesn't fit the schema \(JSON is malformed"):
        list(Decoder("b", ("body",), body_errors="fail", body_form=form).decode(chunk))
    (batch,) = Decoder("b", ("body",), body_form="utf8").decode(chunk)
    assert batch.column("body").to_pylist() == ['{"a":1}', "text", '{"a":"x"}', '{"a":"\ufffd"}']
    with pytest.raises(UsageError, match="T/b/0@3 is not UTF-8"):
        list(Decoder("b", ("body",), body_errors="fail", body_form="utf8").decode(chunk))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"body": "xml"}, "body 'xml' is unknown"),
        ({"body": "avro"}, "bodies of avro need a schema"),
        ({"body": "protobuf"}, "bodies of protobuf need a schema: give --body-schema FILE or registry:SUBJECT"),
        ({"body_schema": "a int"}, "use --body json"),
        ({"body": "json", "body_schema": "a"}, "is no field"),
        ({"body": "json", "columns": ("keys",)}, "--columns lacks"),
        ({"body": "json", "format": "json"}, "is for the arrow writer"),
        ({"body": "utf8", "format": "orc"}, "is for the arrow writer"),
    ],
)
def test_options_that_exclude_each_other(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        ExportOptions(dry_run=True, **fields).check()


def test_bodies_by_a_registry_are_json_or_null_or_fail() -> None:
    pytest.importorskip("fastavro", reason="NOT TESTED: the extra registry is not installed")
    order = AvroCodec(ORDER_AVRO).encode({"id": 7, "total": 9.5})
    bodies = (framed(7, order), order, framed(7, b""), framed(99, b""))
    chunk = b"".join(record(number, body) for number, body in enumerate(bodies))
    with Registry() as served:
        served.put(7, "AVRO", ORDER_AVRO, "T-value")
        (batch,) = Decoder("b", ("bodyJson",), registry=served.url).decode(chunk)
        text = '{"id":7,"total":9.5}'
        assert batch.column("bodyJson").to_pylist() == [text, text, None, None]
        with pytest.raises(UsageError, match=r"the body of T/b/0@2 can't be read \(schema 7: "):
            list(Decoder("b", ("bodyJson",), body_errors="fail", registry=served.url).decode(chunk))
        with pytest.raises(UsageError, match=r"T/b/0@0 can't be read \(the schema with the id 99: .*Schema not found"):
            list(Decoder("b", ("bodyJson",), body_errors="fail", registry=served.url).decode(record(0, bodies[3])))
        served.raw = 503, b"busy"
        with pytest.raises(RegistryError, match="status 503"):
            list(Decoder("b", ("bodyJson",), registry=served.url).decode(chunk))


def test_without_a_registry_the_column_says_what_it_needs() -> None:
    with pytest.raises(UsageError, match="bodyJson needs the option registry"):
        list(Decoder("b", ("bodyJson",)).decode(record(0)))
