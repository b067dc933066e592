"""The columns of a message: names, Arrow types and Spark types, in one table for all readers and writers.

In addition, the column ``property_NAME`` is a message property as text, null if it is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from pymq.errors import UsageError


class RowColumn(NamedTuple):
    """One column: ``ddl`` is its Spark SQL type; ``usual`` columns are the default."""

    name: str
    arrow: pa.DataType
    ddl: str
    usual: bool = True


_TIMESTAMP = pa.timestamp("us", tz="UTC")

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

# The columns of Spark's Kafka source (with topic), so that its queries work.
KAFKA_COLUMNS = (
    RowColumn("key", pa.binary(), "binary", usual=False),
    RowColumn("value", pa.binary(), "binary", usual=False),
    RowColumn("partition", pa.int32(), "int", usual=False),
    RowColumn("offset", pa.int64(), "bigint", usual=False),
    RowColumn("timestamp", _TIMESTAMP, "timestamp", usual=False),
    RowColumn("timestampType", pa.int32(), "int", usual=False),
    RowColumn("headers", _HEADERS, "array<struct<key:string,value:binary>>", usual=False),
)

OF_REGISTRY = "bodyJson"  # needs a schema registry

# Columns that rocketmq-spark has use its names, so that its queries work.
COLUMNS = (
    RowColumn("topic", pa.string(), "string"),
    RowColumn("brokerName", pa.string(), "string"),
    RowColumn("queueId", pa.int32(), "int"),
    RowColumn("queueOffset", pa.int64(), "bigint"),
    RowColumn("msgId", pa.string(), "string"),
    RowColumn("tags", pa.string(), "string"),
    RowColumn("keys", pa.string(), "string"),
    RowColumn("body", pa.binary(), "binary"),
    RowColumn("properties", pa.map_(pa.string(), pa.string()), "map<string,string>"),
    RowColumn("bornTimestamp", _TIMESTAMP, "timestamp"),
    RowColumn("storeTimestamp", _TIMESTAMP, "timestamp"),
    RowColumn("reconsumeTimes", pa.int32(), "int"),
    RowColumn("bornHost", pa.string(), "string"),
    RowColumn("sysFlag", pa.int32(), "int"),
    RowColumn("rowId", pa.string(), "string", usual=False),
    RowColumn("bodyText", pa.string(), "string", usual=False),
    RowColumn(OF_REGISTRY, pa.string(), "string", usual=False),
    RowColumn("physicalOffset", pa.int64(), "bigint", usual=False),
    RowColumn("flag", pa.int32(), "int", usual=False),
    *KAFKA_COLUMNS,
)
BY_NAME = {column.name: column for column in COLUMNS}
USUAL = tuple(column.name for column in COLUMNS if column.usual)
# The columns of text formats: the body as text, the properties as JSON text from the writer.
TEXT_USUAL = tuple("bodyText" if name == "body" else name for name in USUAL)


PROPERTY_PREFIX = "property_"


def property_of(column: str) -> str | None:
    """Return NAME for the column ``property_NAME``; None for the columns of the table."""
    name = column.removeprefix(PROPERTY_PREFIX)
    return name if name and name != column and column not in BY_NAME else None


def column_of(name: str) -> RowColumn:
    """Return the column of a checked name."""
    return BY_NAME.get(name) or RowColumn(name, pa.string(), "string", usual=False)


def check_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, or the usual names for an empty list. Raises UsageError for unknown names and duplicates."""
    if not names:
        return USUAL
    for name in names:
        if name not in BY_NAME and property_of(name) is None:
            known = ", ".join([*BY_NAME, f"{PROPERTY_PREFIX}NAME"])
            raise UsageError(f"there is no column {name!r}: choose from {known}")
    if len(set(names)) != len(names):
        raise UsageError(f"columns {','.join(names)} contain a duplicate: name each column once")
    return tuple(names)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of these columns."""
    return pa.schema([(name, column_of(name).arrow) for name in names])


def spark_ddl(names: Sequence[str]) -> str:
    """Return the schema as Spark SQL text: ``topic string, queueId int``."""
    return ", ".join(f"{_ddl_name(name)} {column_of(name).ddl}" for name in names)


def _ddl_name(name: str) -> str:
    """Quote the names of property columns, which may contain any character."""
    if name in BY_NAME:
        return name
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
