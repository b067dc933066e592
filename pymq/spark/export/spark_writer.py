"""Writes planned ranges with Spark's own writers: JSON, CSV, ORC or Parquet, partitioned like the arrow writer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pymq.spark.export.options import ExportOptions
from pymq.spark.planning.ranges import DEFAULT_GROUP, QueueKey, QueueRange
from pymq.spark.records.schema import TEXT_USUAL, check_columns, columns_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Counting a queue adds an expression to every row.
COUNTED_QUEUES_MAX = 64
TEXT_FORMATS = ("json", "csv")
_COMPRESSION = {"lz4": "lz4_raw"}
_TEXT_COMPRESSION = {"zstd": "none", "snappy": "none", "lz4": "none"}


@dataclass(slots=True)
class RowCounts:
    """Rows written, in all and of each queue; of no queue when there are too many queues."""

    rows: int = 0
    by_queue: dict[QueueKey, int] = field(default_factory=dict)


def write(
    spark: SparkSession, options: ExportOptions, tasks: Sequence[QueueRange], progress: str, output: Path
) -> RowCounts:
    """Write the ranges to ``output``, a new or empty directory, and return the counted rows."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    columns = _columns(options)
    needed = [*columns, *[name for name in ("topic", "brokerName", "queueId", "storeTimestamp") if name not in columns]]
    place = options.store
    selection = {
        "tag": options.tag,
        "sql": options.sql,
        "filter": options.filter,
        "filterExpression": options.filter_expression,
        "filterOnError": options.filter_on_error,
        "filterVia": options.filter_via,
        **({} if place is None else place.options()),
    }
    frame = (
        spark.read.format("pymq")
        .options(**{name: value for name, value in selection.items() if value is not None})
        .option("ranges", json.dumps([part.to_dict() for part in tasks]))
        .option("columns", columns_text(needed))
        .option("credentials", options.credentials)
        .option("group", options.group or DEFAULT_GROUP)
        .option("onDataLoss", options.on_data_loss)
        .option("bodyErrors", options.body_errors)
        .option("retryBudgetSeconds", str(options.retry_budget_s))
        .option("inflateRatio", str(options.inflation_ratio_max))
        .option("maxRowsPerPartition", str(max(part.count for part in tasks)))
        .option("progress", progress)
        .load()
    )
    keys = list(dict.fromkeys((part.topic, part.broker_name, part.queue_id) for part in tasks))
    counted = keys if len(keys) <= COUNTED_QUEUES_MAX else []
    observation = Observation()
    sums = [f.count_if(_is_queue(key)).alias(f"queue{number}") for number, key in enumerate(counted)]
    frame = frame.observe(observation, f.count(f.lit(1)).alias("rows"), *sums)
    _save(frame, options, columns, output)
    found = observation.get
    return RowCounts(found["rows"], {key: found[f"queue{number}"] for number, key in enumerate(counted)})


def _save(frame: DataFrame, options: ExportOptions, columns: Sequence[str], output: Path) -> None:
    from pyspark.sql import functions as f

    levels = list(options.partition_by)
    if "dt" in levels:
        frame = frame.withColumn("dt", f.date_format("storeTimestamp", "yyyy-MM-dd"))
    if "hour" in levels:
        frame = frame.withColumn("hour", f.date_format("storeTimestamp", "HH"))
    frame = frame.select(*[name for name in columns if name not in levels], *levels)
    if options.format in TEXT_FORMATS and not options.columns:
        frame = frame.withColumnRenamed("bodyText", "body")
    if options.format == "csv":
        frame = _for_csv(frame)
    compression = _COMPRESSION.get(options.compression, options.compression)
    if options.format in TEXT_FORMATS:
        compression = _TEXT_COMPRESSION.get(options.compression, options.compression)
    writer = frame.write.mode("append").format(options.format).option("compression", compression)
    if options.format == "csv":
        # A body may contain quotes and line ends: quotes are doubled, as most CSV readers expect. Blanks at its ends,
        # to Spark also control characters, belong to it.
        writer = writer.options(
            header="true", escape='"', ignoreLeadingWhiteSpace="false", ignoreTrailingWhiteSpace="false"
        )
    if levels:
        writer = writer.partitionBy(*levels)
    writer.save(str(output))


def _for_csv(frame: DataFrame) -> DataFrame:
    """Convert properties to JSON text and bytes to base64, because CSV has neither maps nor bytes."""
    from pyspark.sql import functions as f

    for name, kind in frame.dtypes:
        if kind == "binary":
            frame = frame.withColumn(name, f.base64(name))
        elif kind.startswith("map"):
            frame = frame.withColumn(name, f.to_json(name))
    return frame


def _columns(options: ExportOptions) -> tuple[str, ...]:
    if not options.columns and options.format in TEXT_FORMATS:
        return TEXT_USUAL
    return check_columns(options.columns)


def _is_queue(key: QueueKey):  # type: ignore[no-untyped-def]
    from pyspark.sql import functions as f

    topic, broker_name, queue_id = key
    return (f.col("topic") == topic) & (f.col("brokerName") == broker_name) & (f.col("queueId") == queue_id)


@contextmanager
def removed_on_failure(output: Path) -> Iterator[None]:
    """Remove a new output directory when its writer fails: its files look like an export, but are not complete."""
    try:
        yield
    except BaseException:
        shutil.rmtree(output, ignore_errors=True)
        raise


def count_files(output: Path) -> tuple[int, int]:
    """Return the number of files and their bytes."""
    files = [path for path in output.rglob("*") if path.is_file() and not path.name.startswith(("_", "."))]
    return len(files), sum(path.stat().st_size for path in files)
