"""Schemas of JSON bodies, in the form of SQL and as JSON Schema: what is refused, and their limits."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from pymq.errors import UsageError
from pymq.spark.bodies.body_format import SCHEMA_DEPTH_MAX, SCHEMA_FIELDS_MAX
from pymq.spark.bodies.ddl import ddl_column
from pymq.spark.bodies.json_schema import json_schema_column


def test_names_in_backticks_comments_and_synonyms() -> None:
    text = "`a ``b` LONG NOT NULL COMMENT 'it''s, a\\' b', c: varchar(20), D struct<`x,y`: Dec(3), z:numeric(4,1)>"
    inner = pa.struct([("x,y", pa.decimal128(3, 0)), ("z", pa.decimal128(4, 1))])
    with pytest.raises(UsageError, match="in place of"):
        ddl_column(text, "s")
    found = ddl_column(text.replace("it''s", "its"), "s").arrow
    assert found == pa.struct([("a `b", pa.int64()), ("c", pa.string()), ("D", inner)])
    assert ddl_column("not int, comment int", "s").arrow == pa.struct([("not", pa.int32()), ("comment", pa.int32())])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "its end in place of a field"),
        ("a", "its end in place of a word"),
        ("a int,", "its end in place of a word"),
        ("a int b int", "'b' in place of ','"),
        ("a number", "'number' in place of one of string"),
        ("a array<int", "its end in place of '>'"),
        ("a map<int,int>", "'int' in place of string"),
        ("a decimal(39,0)", "other than 1 to 38 digits"),
        ("a decimal(3,4)", "other than 1 to 38 digits"),
        ("a decimal(x)", "'x' in place of a number"),
        ("a int, a string", "names 'a' twice"),
        ("a struct<>", "'>' in place of a field"),
        ("a 'int'", "in place of one of"),
        ("a `unclosed", "can't be read from"),
        ("a int)", "')' in place of ','"),
    ],
)
def test_texts_that_are_no_columns(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        ddl_column(text, "s")
    assert expected in str(caught.value)


@pytest.mark.parametrize(("fields", "is_good"), [(SCHEMA_FIELDS_MAX, True), (SCHEMA_FIELDS_MAX + 1, False)])
def test_fields_have_a_limit(fields: int, is_good: bool) -> None:
    texts = [", ".join(f"f{n} int" for n in range(fields))]
    texts.append(f"s struct<{', '.join(f'f{n}: int' for n in range(fields - 1))}>")
    for text in texts:
        if is_good:
            ddl_column(text, "s")
        else:
            with pytest.raises(UsageError, match="more than 2000 fields"):
                ddl_column(text, "s")
    schema = json.dumps({"properties": {f"f{n}": {} for n in range(fields)}})
    if is_good:
        json_schema_column(schema, "s")
    else:
        with pytest.raises(UsageError, match="more than 2000 fields"):
            json_schema_column(schema, "s")


@pytest.mark.parametrize(("levels", "is_good"), [(SCHEMA_DEPTH_MAX - 1, True), (SCHEMA_DEPTH_MAX, False)])
def test_types_in_each_other_have_a_limit(levels: int, is_good: bool) -> None:
    text = f"a {'array<' * levels}int{'>' * levels}"
    schema: Any = {"type": "integer"}
    for _ in range(levels + 1):
        schema = {"type": "array", "items": schema}
    if is_good:
        ddl_column(text, "s")
        json_schema_column(json.dumps(schema), "s")
    else:
        with pytest.raises(UsageError, match="more than 32 types in each other"):
            ddl_column(text, "s")
        with pytest.raises(UsageError, match="more than 32 types in each other"):
            json_schema_column(json.dumps(schema), "s")


def test_types_that_double_at_each_level_end_at_the_limit() -> None:
    levels = {f"R{n}": {"properties": {x: {"$ref": f"#/$defs/R{n - 1}"} for x in "ab"}} for n in range(1, 30)}
    schema = {"$defs": {"R0": {"type": "integer"}, **levels}, "$ref": "#/$defs/R29"}
    with pytest.raises(UsageError, match="more than 2000 fields"):
        json_schema_column(json.dumps(schema), "s")


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("{", "is no JSON Schema"),
        ("[1]", "write an object"),
        ('{"$ref": "other.json"}', "refers to 'other.json': write what it needs into its own"),
        ('{"properties": {"a": {"$ref": "#/$defs/none"}}}', "refers to '#/\\$defs/none', which it lacks"),
        ('{"$ref": 5}', "refers to '5'"),
    ],
)
def test_json_schemas_that_are_refused(schema: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        json_schema_column(schema, "s")


@pytest.mark.parametrize("odd", [True, {"type": 5}, {"anyOf": 5}, {"properties": 5}, {"type": "array", "items": [{}]}])
def test_odd_schemas_are_text(odd: Any) -> None:
    found = json_schema_column(json.dumps({"properties": {"a": odd}}), "s").arrow
    assert found == pa.struct([("a", pa.string())])
