"""Columns of Protobuf messages: each is built of one field of all messages of a batch.

Fields without presence have Protobuf's default where a message lacks them; others are null then. A message inside of
itself and Google's Struct are the text of their JSON; a message without fields is no column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

from pymq.spark.bodies.body_format import BadBodyError, FieldBudget
from pymq.spark.bodies.times import checked_us

_STRING, _BYTES, _ENUM = FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_ENUM
MESSAGES = (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP)
_SCALARS = {
    FieldDescriptor.TYPE_BOOL: pa.bool_(),
    FieldDescriptor.TYPE_FLOAT: pa.float32(),
    FieldDescriptor.TYPE_DOUBLE: pa.float64(),
    _STRING: pa.string(),
    _BYTES: pa.binary(),
    _ENUM: pa.string(),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SFIXED32), pa.int32()
    ),
    **dict.fromkeys(
        (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64), pa.int64()
    ),
    **dict.fromkeys((FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32), pa.int64()),
    **dict.fromkeys((FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64), pa.decimal128(20, 0)),
}
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_JSON = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))

Build = Callable[[Sequence[Any]], pa.Array]


class Column(NamedTuple):
    """A type of Arrow, and what makes a column of values of which None is null."""

    arrow: pa.DataType
    build: Build


def is_repeated(field: Any) -> bool:
    """Return whether a field is a list or a map."""
    known = getattr(field, "is_repeated", None)  # protobuf has it since 6
    return bool(field.label == FieldDescriptor.LABEL_REPEATED if known is None else known)


def is_map(field: Any) -> bool:
    """Return whether a repeated field is a map."""
    kind = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)


def message_column(descriptor: Any, budget: FieldBudget, inside: tuple[str, ...] = ()) -> Column | None:
    """Return the column of a message type; None for one without fields. Raises UsageError beyond a limit."""
    name, depth = descriptor.full_name, len(inside)
    budget.take(0, depth)
    if name in inside or name in _JSON:
        return Column(pa.string(), _texts)
    if name == "google.protobuf.Timestamp":
        return Column(pa.timestamp("us", tz="UTC"), _built(pa.timestamp("us", tz="UTC"), _timestamp))
    if name == "google.protobuf.Duration":
        return Column(pa.int64(), _built(pa.int64(), _micros))
    if name in _WRAPPERS:
        return _wrapper(descriptor.fields_by_name["value"])
    budget.take(len(descriptor.fields), depth)
    fields, builds = [], []
    for field in descriptor.fields:
        column = _field(field, budget, (*inside, name))
        if column is not None:
            fields.append(pa.field(field.name, column.arrow))
            builds.append(column.build)
    return Column(pa.struct(fields), _struct(fields, builds)) if fields else None


def _field(field: Any, budget: FieldBudget, inside: tuple[str, ...]) -> Column | None:
    """Return the column of a field, built of the messages that have it."""
    if is_repeated(field):
        if is_map(field):
            return _map(field, budget, inside)
        item = _value(field, budget, inside)
        return None if item is None else Column(pa.list_(item.arrow), _list(field.name, item))
    value = _value(field, budget, inside)
    return None if value is None else Column(value.arrow, _single(field, value.build))


def _value(field: Any, budget: FieldBudget, inside: tuple[str, ...]) -> Column | None:
    """Return the column of the values of a field."""
    if field.type in MESSAGES:
        return message_column(field.message_type, budget, inside)
    return _scalar(field)


def _scalar(field: Any) -> Column:
    arrow = _SCALARS[field.type]
    if field.type == _ENUM:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return Column(arrow, _built(arrow, lambda number: names.get(number) or str(number)))
    if field.type == _STRING:
        return Column(arrow, _strings)
    return Column(arrow, lambda values: pa.array(values, arrow))


def _wrapper(field: Any) -> Column:
    inner = _scalar(field)
    return Column(inner.arrow, lambda messages: inner.build([None if m is None else m.value for m in messages]))


def _single(field: Any, build: Build) -> Build:
    name, get = field.name, attrgetter(field.name)
    if field.has_presence:
        return lambda messages: build([get(m) if m is not None and m.HasField(name) else None for m in messages])
    return lambda messages: build([None if m is None else get(m) for m in messages])


def _struct(fields: list[pa.Field], builds: list[Build]) -> Build:
    def build(messages: Sequence[Any]) -> pa.Array:
        columns = [build_field(messages) for build_field in builds]
        missing = [m is None for m in messages]
        mask = pa.array(missing, pa.bool_()) if any(missing) else None
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)

    return build


def _list(name: str, item: Column) -> Build:
    get = attrgetter(name)

    def build(messages: Sequence[Any]) -> pa.Array:
        lists = [() if m is None else get(m) for m in messages]
        items = item.build(list(chain.from_iterable(lists)))
        return pa.ListArray.from_arrays(_ends(lists), items)

    return build


def _map(field: Any, budget: FieldBudget, inside: tuple[str, ...]) -> Column | None:
    entry = field.message_type.fields_by_name
    budget.take(2, len(inside))
    key, value = _scalar(entry["key"]), _value(entry["value"], budget, inside)
    if value is None:
        return None
    get = attrgetter(field.name)

    def build(messages: Sequence[Any]) -> pa.Array:
        maps = [{} if m is None else get(m) for m in messages]
        keys = key.build(list(chain.from_iterable(maps)))
        values = value.build([found[name] for found in maps for name in found])
        return pa.MapArray.from_arrays(_ends(maps), keys, values)

    return Column(pa.map_(key.arrow, value.arrow), build)


def _ends(lists: Sequence[Any]) -> pa.Array:
    return pa.array(np.cumsum([0, *map(len, lists)]), pa.int32())


def _built(arrow: pa.DataType, convert: Callable[[Any], Any]) -> Build:
    return lambda values: pa.array([None if value is None else convert(value) for value in values], arrow)


def _strings(values: Sequence[Any]) -> pa.Array:
    for value in values:
        if isinstance(value, bytes):  # proto2's strings may be any bytes
            raise BadBodyError("a string in it is not UTF-8")
    return pa.array(values, pa.string())


def _texts(messages: Sequence[Any]) -> pa.Array:
    return pa.array([None if m is None else _text(m) for m in messages], pa.string())


def _text(message: Any) -> str:
    return str(json_format.MessageToJson(message, indent=None, preserving_proto_field_name=True, ensure_ascii=False))


def _micros(value: Any) -> int:
    micros: int = value.seconds * 1_000_000 + value.nanos // 1000
    return micros


def _timestamp(value: Any) -> int:
    return checked_us(_micros(value))
