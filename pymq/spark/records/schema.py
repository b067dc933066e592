"""The columns of a message: names and types of Spark, in one table for all readers and writers.

In addition, the column ``property_NAME`` is a message property as text, null if it is missing. Arrow is imported when
its types are asked for: Spark asks one of its Python processes for the names alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from pymq.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

HEADERS = "array<struct<key:string,value:binary>>"


class RowColumn(NamedTuple):
    """One column: ``ddl`` is its Spark SQL type; ``usual`` columns are the default."""

    name: str
    ddl: str
    usual: bool = True

    @property
    def arrow(self) -> pa.DataType:
        """Its Arrow type."""
        return _arrow_types()[self.ddl]


# The columns of Spark's Kafka source (with topic), so that its queries work.
KAFKA_COLUMNS = (
    RowColumn("key", "binary", usual=False),
    RowColumn("value", "binary", usual=False),
    RowColumn("partition", "int", usual=False),
    RowColumn("offset", "bigint", usual=False),
    RowColumn("timestamp", "timestamp", usual=False),
    RowColumn("timestampType", "int", usual=False),
    RowColumn("headers", HEADERS, usual=False),
)

OF_REGISTRY = "bodyJson"  # needs a schema registry
BODY = "body"
BAD_RECORD = "badRecord"  # needs a schema of the bodies
_BAD_RECORD = "struct<topic:string,brokerName:string,queueId:int,queueOffset:bigint,body:binary,reason:string>"

# Columns that rocketmq-spark has use its names, so that its queries work.
COLUMNS = (
    RowColumn("topic", "string"),
    RowColumn("brokerName", "string"),
    RowColumn("queueId", "int"),
    RowColumn("queueOffset", "bigint"),
    RowColumn("msgId", "string"),
    RowColumn("tags", "string"),
    RowColumn("keys", "string"),
    RowColumn("body", "binary"),
    RowColumn("properties", "map<string,string>"),
    RowColumn("bornTimestamp", "timestamp"),
    RowColumn("storeTimestamp", "timestamp"),
    RowColumn("reconsumeTimes", "int"),
    RowColumn("bornHost", "string"),
    RowColumn("sysFlag", "int"),
    RowColumn("rowId", "string", usual=False),
    RowColumn("bodyText", "string", usual=False),
    RowColumn(OF_REGISTRY, "string", usual=False),
    RowColumn("propertiesJson", "string", usual=False),
    RowColumn("physicalOffset", "bigint", usual=False),
    RowColumn("flag", "int", usual=False),
    RowColumn("liteTopic", "string", usual=False),
    RowColumn(BAD_RECORD, _BAD_RECORD, usual=False),
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
    return BY_NAME.get(name) or RowColumn(name, "string", usual=False)


_NAME = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>[^`,]*))\s*(?:,|$)")


def parse_columns(text: str) -> list[str]:
    """Return the names of a list with commas; those in backticks may have commas, and two backticks for one, as in SQL.

    Raises UsageError for a backtick that stands elsewhere.
    """
    names: list[str] = []
    at = 0
    while at < len(text):
        found = _NAME.match(text, at)
        if found is None:
            raise UsageError(f"columns {text!r}: a name is either whole in backticks or has none, see {text[at:]!r}")
        name = (found["quoted"] or "").replace("``", "`") or (found["plain"] or "").strip()
        if name:
            names.append(name)
        at = found.end()
    return names


def columns_text(names: Sequence[str]) -> str:
    """Inverse of :func:`parse_columns`."""
    return ",".join(name if name.isidentifier() else _quoted(name) for name in names)


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


@cache
def _arrow_types() -> Mapping[str, pa.DataType]:
    """Return the Arrow types by Spark's."""
    import pyarrow as pa

    return {
        "string": pa.string(),
        "binary": pa.binary(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "map<string,string>": pa.map_(pa.string(), pa.string()),
        _BAD_RECORD: pa.struct(
            [
                pa.field("topic", pa.string()),
                pa.field("brokerName", pa.string()),
                pa.field("queueId", pa.int32()),
                pa.field("queueOffset", pa.int64()),
                pa.field("body", pa.binary()),
                pa.field("reason", pa.string()),
            ]
        ),
        HEADERS: pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
    }


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """Return the Arrow schema of these columns."""
    import pyarrow as pa

    return pa.schema([(name, column_of(name).arrow) for name in names])


def spark_ddl(names: Sequence[str]) -> str:
    """Return the schema as Spark SQL text: ``topic string, queueId int``."""
    return ", ".join(f"{_ddl_name(name)} {column_of(name).ddl}" for name in names)


def _ddl_name(name: str) -> str:
    """Quote the names of property columns, which may contain any character."""
    return name if name in BY_NAME else _quoted(name)


def _quoted(name: str) -> str:
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
