"""Turns columns of files into columns of messages, and puts their rows in order for each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pymq.errors import UsageError
from pymq.model.properties import KEYS, SHARDING_KEY
from pymq.spark.imports.plan import Step
from pymq.spark.records.schema import BY_NAME
from pymq.spark.sink.write_columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WRITTEN = tuple(column.name for column in COLUMNS)
# What an export says about a message that a new one gets by itself.
_LEFT_OUT = {*BY_NAME, "dt", "hour"} - set(_WRITTEN)
_PLACE = ("brokerName", "queueId")
_MAP = "map<string,string>"
_FILE, _BLOCK, _ROW = "_pymq_file", "_pymq_block", "_pymq_row"


class InputRows:
    """Reads files with Spark. ``columns`` are expressions by the column of a message; without them names decide."""

    def __init__(
        self,
        spark: SparkSession,
        file_format: str,
        options: Mapping[str, str],
        schema: str,
        base: str,
    ) -> None:
        """``base`` is the directory above levels such as ``topic=orders``, empty if there are none."""
        self._spark = spark
        self._format = file_format
        self._options = {**options, **({"basePath": base} if base else {})}
        self._schema: Any = schema or None

    def infer(self, files: Sequence[str]) -> None:
        """Take the schema of all files, which every step reads with."""
        from pyspark.sql.types import MapType, StringType, StructField, StructType

        schema = self._reader().load(list(files)).schema
        text = MapType(StringType(), StringType())
        # JSON's objects are read as structs, but properties differ from row to row.
        fields = [
            StructField(field.name, text)
            if field.name == "properties" and isinstance(field.dataType, StructType)
            else field
            for field in schema.fields
        ]
        self._schema = StructType(fields)

    def of_step(self, step: Step) -> DataFrame:
        """Return the rows of a step with where they stand."""
        whole = [part.path for part in step.parts if not part.from_row and part.to_row is None]
        frames = [self._placed(whole)] if whole else []
        for part in step.parts:
            if part.to_row is not None:
                where = f"_metadata.row_index >= {part.from_row} AND _metadata.row_index < {part.to_row}"
                frames.append(self._placed([part.path], where))
        return reduce(lambda one, other: one.unionByName(other), frames)

    def _placed(self, paths: list[str], where: str = "true") -> DataFrame:
        from pyspark.sql import functions as f

        return (
            self._reader()
            .load(paths)
            .where(where)
            .select(
                "*",
                f.col("_metadata.file_path").alias(_FILE),
                f.col("_metadata.file_block_start").alias(_BLOCK),
                f.monotonically_increasing_id().alias(_ROW),
            )
        )

    def _reader(self) -> Any:
        reader = self._spark.read.format(self._format).options(**self._options)
        return reader if self._schema is None else reader.schema(self._schema)


def message_columns(
    types: Mapping[str, str], expressions: Mapping[str, str], *, topic: str, keeps_queues: bool
) -> tuple[dict[str, str], bool]:
    """Return the expression of each column of a message, and whether ``properties`` holds all that a message has.

    ``types`` has the columns of the files. Raises UsageError if it is not clear what becomes what.
    """
    if expressions:
        wrong = sorted(set(expressions) - set(_WRITTEN))
        if wrong:
            raise UsageError(f"a message has no column {wrong[0]}: choose from {', '.join(_WRITTEN)}")
        return dict(expressions), False
    unknown = sorted(set(types) - set(_WRITTEN) - _LEFT_OUT)
    if unknown:
        raise UsageError(
            f"{', '.join(unknown)} are no columns of a message: say what becomes what, such as --column "
            '"body=to_json(struct(*))" --column key=customer'
        )
    found = {name: f"`{name}`" for name in types if name in _WRITTEN and name not in _PLACE}
    if topic:
        found.pop("topic", None)
    if keeps_queues:
        found.update({name: f"`{name}`" for name in _PLACE if name in types})
    is_copy = "properties" in found and {"msgId", "queueOffset"} & set(types) != set()
    if is_copy:
        properties = "properties" if types["properties"] == _MAP else f"from_json(properties, '{_MAP}')"
        found = {name: text for name, text in found.items() if name in ("body", "topic", *_PLACE)}
        found["properties"] = properties
        found["queueKey"] = f"coalesce({properties}['{SHARDING_KEY}'], {properties}['{KEYS}'])"
    elif not {"key", "orderingKey", "queueKey"} & set(found) and types.get("keys") == "string":
        found["queueKey"] = "nullif(keys, '')"
    return found, is_copy


def in_order(rows: DataFrame, columns: Mapping[str, str], tasks: int) -> DataFrame:
    """Return the columns of messages: all rows of a key in one task, in the order of the files."""
    from pyspark.sql import functions as f

    chosen = rows.select(
        *[f.expr(text).alias(name) for name, text in columns.items()], *[f.col(name) for name in (_FILE, _BLOCK, _ROW)]
    )
    keys = [name for name in ("orderingKey", "key", "queueKey") if name in columns]
    queues = [name for name in (*_PLACE, "partition") if name in columns]
    by = [f.col(name).cast("string") for name in (queues or keys)]
    body = next((name for name in ("body", "value") if name in columns), None)
    if body is None:
        raise UsageError('the files have no column body: name what becomes it, --column "body=to_json(struct(*))"')
    spread = f.coalesce(*by[:1], f.xxhash64(body).cast("string")) if not queues else f.concat_ws("/", *by)
    placed = chosen.repartition(tasks, spread).sortWithinPartitions(_FILE, _BLOCK, _ROW)
    return placed.drop(_FILE, _BLOCK, _ROW)
