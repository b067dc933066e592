"""Tables in Spark's catalog: ``CREATE TABLE t USING pymq OPTIONS (…)``.

Spark hands a table's options to a source in Python once, when it asks for the columns at the table's creation. Reads
and writes of the table get none. What Spark does keep is the metadata of columns, so the options stand there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from pymq.errors import UsageError
from pymq.spark.records.schema import USUAL, column_of

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

KEY = "pymq"
# What catalogs of Spark add to a table's options, which users don't write.
_ADDED = (
    "provider",
    "owner",
    "location",
    "comment",
    "collation",
    "external",
    "is_managed_location",
    "serialization.format",
)
# Spark repeats each option of OPTIONS under this prefix; without it they are among TBLPROPERTIES.
_PREFIX = "option."
_TOPIC = re.compile(r"[%|a-zA-Z0-9_-]+")
# The options that say what a table has. The first ones may name the topic of a write.
_OF_WRITES = ("topic", "topics", "subscribe", "path")
_NAMING = (*_OF_WRITES, "subscribepattern", "assign")


def is_of_catalog(options: Mapping[str, str]) -> bool:
    """Return whether a catalog has made these options."""
    names = {name.lower() for name in options}
    return "provider" in names or "serialization.format" in names


def given_in_table(options: Mapping[str, str]) -> dict[str, str]:
    """Return what stands in a table's OPTIONS. Raises UsageError when it names no topic."""
    lowered = {name.lower(): value for name, value in options.items()}
    given = {name.removeprefix(_PREFIX): value for name, value in lowered.items() if name.startswith(_PREFIX)}
    if not given:
        given = {name: value for name, value in lowered.items() if name not in _ADDED}
    # A path with another form is the place that a catalog gives to a table's files.
    path = lowered.get("path", "")
    given.pop("path", None)
    if _TOPIC.fullmatch(path):
        given["path"] = path
    if not any(name in given for name in _NAMING):
        raise UsageError(
            "a table names its topics: CREATE TABLE t USING pymq OPTIONS (topic 'Orders'), or topics '*' for all"
        )
    return given


def columns_with_options(
    names: Sequence[str], options: Mapping[str, str], typed: StructType | None = None
) -> StructType:
    """Return columns that carry a table's options. ``typed``: the columns, if bodies have a schema."""
    from pyspark.sql.types import StructField, StructType

    metadata = {KEY: json.dumps(dict(options))}
    return StructType(
        [
            StructField(
                name, typed[name].dataType if typed else _spark_type(column_of(name).ddl), True, {} if at else metadata
            )
            for at, name in enumerate(names)
        ]
    )


def read_options(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read: the query's own, then those that a table's columns carry.

    Raises UsageError for a table that was created with columns of its own, which lack them.
    """
    kept = _kept_in(schema)
    if not kept and not options and tuple(schema.fieldNames()) != USUAL:
        raise UsageError(
            'columns are given without an option: name the topics, as in .option("topics", "*") for all. A table of '
            "Spark's catalog has its options only if PyMQ says its columns: CREATE TABLE t USING pymq OPTIONS (topic "
            "'Orders', columns 'keys,body')"
        )
    return _merged(kept, options)


def write_options(schema: StructType, options: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """Return the options of a write, those of a table as far as they are ``known`` to writes, in lower case."""
    kept = _kept_in(schema)
    topics = [kept[name] for name in _OF_WRITES if name in kept]
    kept = {name: value for name, value in kept.items() if name in known and name not in _OF_WRITES}
    names_topic = any(name.lower() in _OF_WRITES for name in options)
    if len(topics) == 1 and _TOPIC.fullmatch(topics[0]) and not names_topic:
        kept["topic"] = topics[0]
    return _merged(kept, options)


def _kept_in(schema: StructType) -> dict[str, str]:
    kept: dict[str, str] = {}
    for field in schema.fields:
        kept |= json.loads((field.metadata or {}).get(KEY, "{}"))
    return kept


def _merged(kept: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    own = {name.lower() for name in options}
    return {**{name: value for name, value in kept.items() if name not in own}, **options}


def _spark_type(ddl: str) -> DataType:
    """Return Spark's class of a column's type; to parse it, Spark would need a session."""
    from pyspark.sql import types

    text = types.StringType()
    known: dict[str, DataType] = {
        "string": text,
        "binary": types.BinaryType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "timestamp": types.TimestampType(),
        "map<string,string>": types.MapType(text, text),
    }
    if ddl in known:
        return known[ddl]
    if ddl.startswith("array<"):
        return types.ArrayType(_spark_type(ddl.removeprefix("array<").removesuffix(">")))
    fields = [field.split(":") for field in ddl.removeprefix("struct<").removesuffix(">").split(",")]
    return types.StructType([types.StructField(name, _spark_type(kind)) for name, kind in fields])
