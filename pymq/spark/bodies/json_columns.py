"""Columns of JSON bodies: Arrow's type, what msgspec reads, and what values need on their way from one to the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Annotated, Any, Final, TypedDict

import msgspec
import pyarrow as pa

from pymq.spark.bodies.body_format import BadBodyError

OBJECT_WEIGHT: Final = 4
DECIMAL_DIGITS_MAX = 38  # Spark's
FIGURES_MAX: Final = 100  # of a decimal's text: Arrow ends the process at some large exponents
_FLOAT_MAX = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class Column:
    """One type. ``weight``: its values, without the items of lists; ``count``: those items of a value."""

    arrow: pa.DataType
    python: Any
    convert: Callable[[Any], Any] | None = None
    weight: int = 1
    count: Callable[[Any], int] | None = None
    item_weight_max: int = 0


def _integer(bits: int) -> Any:
    return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]


def _text_of(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode()
    return None if text == "null" else text


def _in_utc(time: datetime) -> datetime:
    if time.tzinfo is UTC:
        return time
    try:
        return time.astimezone(UTC) if time.tzinfo else time
    except OverflowError:
        raise BadBodyError(f"the time {time} is outside the years 1 to 9999") from None


def _without_zone(time: datetime) -> datetime:
    if time.tzinfo is not None:
        raise BadBodyError(f"the time {time} has a zone, and its column timestamp_ntz has none")
    return time


JSON_TEXT = Column(pa.string(), msgspec.Raw, _text_of)
"""Any value, as its text."""
SCALARS = {
    "string": Column(pa.string(), str),
    "boolean": Column(pa.bool_(), bool),
    "tinyint": Column(pa.int8(), _integer(8)),
    "smallint": Column(pa.int16(), _integer(16)),
    "int": Column(pa.int32(), _integer(32)),
    "bigint": Column(pa.int64(), _integer(64)),
    "float": Column(pa.float32(), Annotated[float, msgspec.Meta(ge=-_FLOAT_MAX, le=_FLOAT_MAX)]),
    "double": Column(pa.float64(), float),
    "binary": Column(pa.binary(), bytes),
    "date": Column(pa.date32(), date),
    "timestamp": Column(pa.timestamp("us", tz="UTC"), datetime, _in_utc),
    "timestamp_ntz": Column(pa.timestamp("us"), datetime, _without_zone),
    "json": JSON_TEXT,
}


def decimal_column(digits: int, scale: int) -> Column:
    """Return the column of decimal(digits, scale)."""
    exact = Context(prec=FIGURES_MAX)

    def convert(value: Decimal) -> Decimal:
        _, figures, exponent = value.as_tuple()
        if not isinstance(exponent, int) or len(figures) > FIGURES_MAX or abs(exponent) > FIGURES_MAX:
            raise BadBodyError(f"a number has more than {FIGURES_MAX} digits or so large an exponent, the limit")
        # Zeros behind the last figure are no loss.
        return exact.normalize(value) if -exponent > scale else value

    return Column(pa.decimal128(digits, scale), Decimal, convert)


def struct_column(fields: Sequence[tuple[str, Column]]) -> Column:
    """Return the column of an object with these fields; others are left out, missing ones are null."""
    converts = [(name, column.convert) for name, column in fields if column.convert is not None]
    counts = [(name, column.count) for name, column in fields if column.count is not None]
    kinds = {name: _or_null(column.python) for name, column in fields}

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        for name, of_field in converts:
            if (found := value.get(name)) is not None:
                value[name] = of_field(found)
        return value

    def count(value: dict[str, Any]) -> int:
        return sum(of_field(found) for name, of_field in counts if (found := value.get(name)) is not None)

    return Column(
        pa.struct([pa.field(name, column.arrow) for name, column in fields]),
        TypedDict("Body", kinds, total=False),  # type: ignore[operator]
        convert if converts else None,
        OBJECT_WEIGHT + sum(column.weight for _, column in fields),
        count if counts else None,
        max((column.item_weight_max for _, column in fields), default=0),
    )


def list_column(item: Column) -> Column:
    """Return the column of a list of items."""
    return _collection(pa.list_(item.arrow), list, item, lambda value: value)


def map_column(item: Column) -> Column:
    """Return the column of an object with any names."""
    return _collection(pa.map_(pa.string(), item.arrow), dict, item, dict.values)


def _collection(arrow: pa.DataType, container: Any, item: Column, items_of: Callable[[Any], Any]) -> Column:
    of_item, count_item = item.convert, item.count
    kind: Any = _or_null(item.python)

    def convert(value: Any) -> Any:
        items = items_of(value)
        if of_item is not None:
            items = [None if one is None else of_item(one) for one in items]
        return items if container is list else list(zip(value, items, strict=True))

    def count(value: Any) -> int:
        found = len(value) * (item.weight + 1)
        if count_item is not None:
            found += sum(count_item(one) for one in items_of(value) if one is not None)
        return found

    return Column(
        arrow,
        list[kind] if container is list else dict[str, kind],
        convert if of_item is not None or container is dict else None,
        OBJECT_WEIGHT,
        count,
        max(item.weight + 1, item.item_weight_max),
    )


def _or_null(python: Any) -> Any:
    return python if python is msgspec.Raw else python | None  # Raw holds the text of null itself
