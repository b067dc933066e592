"""Avro types as Arrow types, and what turns fastavro's values into Arrow's.

A union of several types is a struct with a field for each, member0 and on, as Spark's from_avro has it. A record
inside of itself is the text of its JSON, since columns end somewhere. A field that is always null is no column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from pymq.client.avro_bounds import kind_of, resolved
from pymq.client.registered_bodies import as_json
from pymq.spark.bodies.body_format import BadBodyError, FieldBudget
from pymq.spark.bodies.times import checked_days, checked_us, from_ms, from_ns

DECIMAL_DIGITS_MAX = 38  # Spark's
_DECIMAL_BYTES_MAX = 16
_NAMED = ("record", "error", "enum", "fixed")
_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
# How the value of a branch looks in Python; named types carry their names.
_LOOKS: dict[str, type] = {
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
    "bytes": bytes,
    "array": list,
    "map": dict,
}
_UTC, _LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")

Convert = Callable[[Any], Any]


class Column(NamedTuple):
    """A type of Arrow, and what values need on their way to it: None for nothing."""

    arrow: pa.DataType
    convert: Convert | None = None


_LOGICAL = {
    ("long", "timestamp-millis"): Column(_UTC, from_ms),
    ("long", "timestamp-micros"): Column(_UTC, checked_us),
    ("long", "timestamp-nanos"): Column(_UTC, from_ns),
    ("long", "local-timestamp-millis"): Column(_LOCAL, from_ms),
    ("long", "local-timestamp-micros"): Column(_LOCAL, checked_us),
    ("long", "local-timestamp-nanos"): Column(_LOCAL, from_ns),
    ("int", "date"): Column(pa.date32(), checked_days),
}


class AvroColumns:
    """Makes columns of a parsed schema. ``tagged``: whether values of named types in unions are (name, value)."""

    def __init__(self, named: Mapping[str, Any], budget: FieldBudget, *, tagged: bool) -> None:
        self._named = named
        self._budget = budget
        self._tagged = tagged
        self.needs_tags = False
        """Whether a union can't be read without the names of its types."""

    def column(self, schema: Any, inside: tuple[str, ...] = (), depth: int = 0) -> Column | None:
        """Return the column of a type; None for one without a value, as null. Raises UsageError beyond a limit."""
        schema = resolved(schema, self._named)
        self._budget.take(0, depth)
        if isinstance(schema, list):
            return self._union(schema, inside, depth)
        kind = kind_of(schema)
        if kind in ("record", "error"):
            return self._record(schema, inside, depth)
        if kind in ("array", "map"):
            return self._collection(kind, schema["items" if kind == "array" else "values"], inside, depth)
        if isinstance(schema, dict) and "logicalType" in schema:
            return _logical(kind, schema) or Column(_PLAIN[kind])
        return Column(_PLAIN[kind]) if kind in _PLAIN else None

    def _record(self, schema: Any, inside: tuple[str, ...], depth: int) -> Column | None:
        name = schema["name"]
        if name in inside:
            return Column(pa.string(), self._text)
        self._budget.take(len(schema["fields"]), depth)
        fields, converts = [], []
        for field in schema["fields"]:
            column = self.column(field["type"], (*inside, name), depth + 1)
            if column is not None:
                fields.append(pa.field(field["name"], column.arrow))
                if column.convert is not None:
                    converts.append((field["name"], column.convert))
        return Column(pa.struct(fields), _of_record(converts) if converts else None) if fields else None

    def _collection(self, kind: str, item: Any, inside: tuple[str, ...], depth: int) -> Column | None:
        column = self.column(item, inside, depth + 1)
        if column is None:
            return None
        if kind == "map":
            return Column(pa.map_(pa.string(), column.arrow), _of_map(column.convert))
        return Column(pa.list_(column.arrow), _of_list(column.convert) if column.convert else None)

    def _union(self, schema: list[Any], inside: tuple[str, ...], depth: int) -> Column | None:
        branches = [branch for branch in (resolved(one, self._named) for one in schema) if kind_of(branch) != "null"]
        for narrow, wide in (("int", "long"), ("float", "double")):
            plain = [branch for branch in branches if _is_plain(branch, narrow) or _is_plain(branch, wide)]
            if len(plain) > 1:  # their values look alike
                branches = [wide if branch is plain[0] else branch for branch in branches if branch not in plain[1:]]
        if len(branches) == 1:
            column = self.column(branches[0], inside, depth)
            if column is None or not self._is_tagged(branches[0]):
                return column and Column(column.arrow, _of_optional(column.convert) if column.convert else None)
            return Column(column.arrow, _of_tagged(column.convert))
        self.needs_tags = self.needs_tags or any(kind_of(branch) in _NAMED for branch in branches)
        self._budget.take(len(branches), depth)
        fields, members = [], {}
        for number, branch in enumerate(branches):
            column = self.column(branch, inside, depth + 1)
            key = branch["name"] if kind_of(branch) in _NAMED else _LOOKS[kind_of(branch)]
            if column is not None:
                fields.append(pa.field(f"member{number}", column.arrow))
                members[key] = f"member{number}", column.convert
        return Column(pa.struct(fields), _of_members(members)) if fields else None

    def _is_tagged(self, branch: Any) -> bool:
        return self._tagged and kind_of(branch) in _NAMED

    def _text(self, value: Any) -> str:
        return as_json(_untagged(value) if self._tagged else value).decode()


def _is_plain(branch: Any, kind: str) -> bool:
    return kind_of(branch) == kind and not (isinstance(branch, dict) and "logicalType" in branch)


def _logical(kind: str, schema: Any) -> Column | None:
    """Return the column of a logical type; None for one that stays what it is stored as, such as a time of day."""
    logical = schema["logicalType"]
    if logical == "decimal" and kind in ("bytes", "fixed"):
        digits, scale = schema.get("precision"), schema.get("scale", 0)
        if isinstance(digits, int) and 1 <= digits <= DECIMAL_DIGITS_MAX and isinstance(scale, int):
            if not 0 <= scale <= digits:
                return None
            return Column(pa.decimal128(digits, scale), _of_decimal(digits, scale))
        return None
    return _LOGICAL.get((kind, logical))


def _of_decimal(digits: int, scale: int) -> Convert:
    exact, most = Context(prec=DECIMAL_DIGITS_MAX + 1), 10**digits

    def convert(stored: bytes) -> Decimal:
        number = _whole(stored) if len(stored) > _DECIMAL_BYTES_MAX else int.from_bytes(stored, "big", signed=True)
        if number is None or abs(number) >= most:
            raise BadBodyError(f"a decimal of {len(stored)} bytes has more than the schema's {digits} digits")
        return exact.scaleb(Decimal(number), -scale)

    return convert


def _whole(stored: bytes) -> int | None:
    """Return the number of bytes of which the first ones only repeat the sign; None for others."""
    rest = stored[-_DECIMAL_BYTES_MAX:]
    sign = b"\xff" if rest[0] & 0x80 else b"\0"
    return None if stored[:-_DECIMAL_BYTES_MAX].strip(sign) else int.from_bytes(rest, "big", signed=True)


def _of_record(converts: list[tuple[str, Convert]]) -> Convert:
    def convert(value: dict[str, Any]) -> dict[str, Any]:
        for name, of_field in converts:
            if (found := value[name]) is not None:
                value[name] = of_field(found)
        return value

    return convert


def _of_list(of_item: Convert) -> Convert:
    return lambda value: [None if item is None else of_item(item) for item in value]


def _of_map(of_item: Convert | None) -> Convert:
    if of_item is None:
        return lambda value: list(value.items())
    return lambda value: [(key, None if item is None else of_item(item)) for key, item in value.items()]


def _of_optional(of_value: Convert) -> Convert:
    return lambda value: None if value is None else of_value(value)


def _of_tagged(of_value: Convert | None) -> Convert:
    if of_value is None:
        return lambda value: None if value is None else value[1]
    return lambda value: None if value is None else of_value(value[1])


def _of_members(members: Mapping[Any, tuple[str, Convert | None]]) -> Convert:
    def convert(value: Any) -> dict[str, Any] | None:
        if value is None:
            return None
        key: Any = type(value)
        if key is tuple:
            key, value = value
        member = members.get(key)
        if member is None:
            return {}
        name, of_value = member
        return {name: value if of_value is None else of_value(value)}

    return convert


def _untagged(value: Any) -> Any:
    if isinstance(value, tuple):
        value = value[1]
    if isinstance(value, dict):
        return {name: _untagged(found) for name, found in value.items()}
    return [_untagged(item) for item in value] if isinstance(value, list) else value
