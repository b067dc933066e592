"""Tables of a few rows without Spark: what their logs commit, and what readers see of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from pymq.spark.export.arrow_writer import WriteJob, read_settings, write_range
from pymq.spark.export.logs import ExportLog, open_log
from pymq.spark.export.options import ExportOptions
from pymq.spark.planning.identity import Mark, generation_name
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.records.bodies import arrow_type
from pymq.spark.tables.iceberg_name import iceberg_name
from tests.spark.fake_cluster import BROKER, FakeCluster

FORMATS = ("delta", "iceberg")
COLUMNS = ("topic", "brokerName", "queueId", "queueOffset", "body", "properties", "storeTimestamp")
LEVELS = ("topic", "dt")
KEY = ("T", BROKER, 0)


def options(output: Path, table_format: str, **fields: Any) -> ExportOptions:
    return ExportOptions(output=output, format=table_format, **fields)


def settings(columns: tuple[str, ...] = COLUMNS, levels: tuple[str, ...] = LEVELS, **fields: Any) -> dict[str, Any]:
    return {"columns": list(columns), "partition_by": list(levels), "tag": "*", **fields}


def opened(output: Path, table_format: str, **fields: Any) -> Any:
    """Return the log of a table, with the default settings but for these."""
    given = settings(**fields)
    return open_log(options(output, table_format), given, arrow_type(given.get("body", "")))


def written(
    log: ExportLog,
    cluster: FakeCluster,
    start: int,
    stop: int,
    *,
    topic: str = "T",
    queue_id: int = 0,
    generation: int = 1,
    **read: Any,
) -> dict[str, Any]:
    """Write a range in the way of a task; return what a commit takes of it."""
    columns = log.layout.columns
    part = replace(cluster.range(topic, queue_id, start, stop), generation=generation)
    job = WriteJob(
        ranges=(part,),
        read=read_settings(ReadSettings(body_form=log.settings.get("body", ""), **read), columns),
        layout=log.layout,
        staging=str(log.new_staging(f"{topic}-{queue_id}-{start}")),
        compression="zstd",
    )
    result = write_range(part, WriteJob.from_json(job.to_json()))
    return {**result, "topic": generation_name(topic, generation)}


def commit(log: ExportLog, part: dict[str, Any]) -> int:
    end = part["to_offset"]
    return log.commit([part], [Mark(*KEY, end - 1, f"{end:x}")])


def iceberg_table(output: Path) -> Table:
    name = iceberg_name(None, None, output)
    return load_catalog(name.catalog, **name.properties).load_table(name.table)


def rows(output: Path, table_format: str) -> pa.Table:
    """Return what a reader that knows the format sees."""
    if table_format == "delta":
        return DeltaTable(str(output)).to_pyarrow_table()
    return iceberg_table(output).scan().to_arrow()


def offsets(output: Path, table_format: str) -> list[int]:
    return sorted(rows(output, table_format).column("queueOffset").to_pylist())


def data_files(output: Path) -> list[str]:
    return sorted(path.name for path in output.rglob("*.parquet") if "_delta_log" not in path.parts)
