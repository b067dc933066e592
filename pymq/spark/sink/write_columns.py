"""The columns that ``df.write.format("pymq")`` takes: their names, types, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pymq.errors import UsageError

TEXT, BYTES = "string", "binary"
HEADERS = "array<struct<key:string,value:binary>>"
_WHOLE = ("int", "bigint", "smallint", "tinyint")


class WriteColumn(NamedTuple):
    """One column: its Spark types, as ``DataType.simpleString`` writes them, and its part of the message."""

    name: str
    types: tuple[str, ...]
    meaning: str


COLUMNS = (
    WriteColumn("body", (BYTES, TEXT), "the body; text is sent as UTF-8"),
    WriteColumn("value", (BYTES, TEXT), "the same, as Spark's Kafka sink names it"),
    WriteColumn("topic", (TEXT,), "the topic; null: that of the option"),
    WriteColumn("tags", (TEXT,), "the tag"),
    WriteColumn("keys", (TEXT, "array<string>"), "the keys, separated by blanks, or each on its own"),
    WriteColumn("key", (BYTES, TEXT), "keys and orderingKey at once, as in Kafka"),
    WriteColumn("orderingKey", (TEXT,), "chooses the queue by its hash, and is stored as `__SHARDINGKEY`"),
    WriteColumn("queueKey", (TEXT,), "chooses the queue in the same way, and is not stored"),
    WriteColumn("queueId", _WHOLE, "the queue; null: by key, or by the row's hash"),
    WriteColumn("partition", _WHOLE, "the same, as Spark's Kafka sink names it"),
    WriteColumn("brokerName", (TEXT,), "the broker of queueId, if the topic has several"),
    WriteColumn("properties", ("map<string,string>",), "properties of the application"),
    WriteColumn("headers", (HEADERS,), "the same, as in Spark's Kafka sink"),
    WriteColumn("delayLevel", _WHOLE, "a delay level, 1 to 18; null or 0: none"),
    WriteColumn("delayMs", _WHOLE, "a delay in ms"),
    WriteColumn("deliverAt", ("timestamp", "bigint"), "when to deliver; a number is Unix time in ms"),
)
_BY_NAME = {column.name: column for column in COLUMNS}
_SAME: tuple[tuple[str, ...], ...] = (
    ("body", "value"),
    ("keys", "key"),
    ("orderingKey", "key", "queueKey"),
    ("queueId", "partition"),
    ("properties", "headers"),
    ("delayLevel", "delayMs", "deliverAt"),
)
# With copied properties these are among them.
_COPIED = ("tags", "keys", "key", "orderingKey", "headers", "delayLevel", "delayMs", "deliverAt")


def check_write_columns(types: Mapping[str, str], *, topic: str, copies_properties: bool) -> None:
    """Check the columns of a DataFrame, by name with their types. Raises UsageError with the next step."""
    for name, kind in types.items():
        _check_column(name, kind)
    if "body" not in types and "value" not in types:
        raise UsageError(
            'there is no column body (or value): df.selectExpr("to_json(struct(*)) AS body") makes one of all columns'
        )
    if not topic and "topic" not in types:
        raise UsageError('no topic is named: write .option("topic", NAME), or give the column topic')
    for names in _SAME:
        given = [name for name in names if name in types]
        if len(given) > 1:
            raise UsageError(f"columns {' and '.join(given)} exclude each other: drop one")
    if "brokerName" in types and "queueId" not in types and "partition" not in types:
        raise UsageError("column brokerName says nothing without queueId: drop it, or give both")
    if copies_properties:
        _check_copies(types)


def _check_column(name: str, kind: str) -> None:
    column = _BY_NAME.get(name)
    if column is None:
        known = ", ".join(_BY_NAME)
        raise UsageError(f'column {name} can\'t be written: df.drop("{name}"); the columns of a message are {known}')
    if kind.lower() not in column.types:
        raise UsageError(
            f"column {name} is {kind}: cast it to {' or '.join(column.types)}"
            + ("; to_json makes text of a struct" if name in ("body", "value") else "")
        )


def _check_copies(types: Mapping[str, str]) -> None:
    if "properties" not in types:
        raise UsageError("option copyProperties needs the column properties")
    given = [name for name in _COPIED if name in types]
    if given:
        raise UsageError(
            f"with copyProperties the column properties is all that a message has: drop {' and '.join(given)}"
        )
