"""The columns a message becomes: names, Arrow types and Spark types, in one table for all readers and writers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from pymq.errors import UsageError


class Column(NamedTuple):
    """One column: ``ddl`` is its Spark SQL type; ``usual`` columns come when none are named."""

    name: str
    arrow: pa.DataType
    ddl: str
    usual: bool = True


_TIMESTAMP = pa.timestamp("us", tz="UTC")

# The first nine carry rocketmq-spark's names where it has them, so that its queries keep working.
COLUMNS = (
    Column("topic", pa.string(), "string"),
    Column("brokerName", pa.string(), "string"),
    Column("queueId", pa.int32(), "int"),
    Column("queueOffset", pa.int64(), "bigint"),
    Column("msgId", pa.string(), "string"),
    Column("tags", pa.string(), "string"),
    Column("keys", pa.string(), "string"),
    Column("body", pa.binary(), "binary"),
    Column("properties", pa.map_(pa.string(), pa.string()), "map<string,string>"),
    Column("bornTimestamp", _TIMESTAMP, "timestamp"),
    Column("storeTimestamp", _TIMESTAMP, "timestamp"),
    Column("reconsumeTimes", pa.int32(), "int"),
    Column("bornHost", pa.string(), "string"),
    Column("sysFlag", pa.int32(), "int"),
    Column("bodyText", pa.string(), "string", usual=False),
    Column("physicalOffset", pa.int64(), "bigint", usual=False),
    Column("flag", pa.int32(), "int", usual=False),
)
BY_NAME = {column.name: column for column in COLUMNS}
USUAL = tuple(column.name for column in COLUMNS if column.usual)
# What a text format can hold: the body as text, the properties as JSON text made by the writer.
TEXT_USUAL = tuple("bodyText" if name == "body" else name for name in USUAL)


def check_columns(names: Sequence[str]) -> tuple[str, ...]:
    """The names as given, the usual ones when there are none. Raises UsageError for an unknown or double one."""
    if not names:
        return USUAL
    for name in names:
        if name not in BY_NAME:
            raise UsageError(f"there is no column {name!r}: choose from {', '.join(BY_NAME)}")
    if len(set(names)) != len(names):
        raise UsageError(f"columns {','.join(names)} name one twice: name each once")
    return tuple(names)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of these columns."""
    return pa.schema([(name, BY_NAME[name].arrow) for name in names])


def spark_ddl(names: Sequence[str]) -> str:
    """The schema as Spark SQL text: ``topic string, queueId int``."""
    return ", ".join(f"{name} {BY_NAME[name].ddl}" for name in names)
