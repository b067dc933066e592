"""Exports of a few rows without Spark, and what a reader sees of them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from pymq.spark.lake.commit_files import COMMITS_MAX
from pymq.spark.lake.commits import ExportDirectory
from pymq.spark.places.places import relative
from pymq.spark.planning.identity import Mark

SETTINGS = {"columns": ["queueOffset"], "partition_by": ["topic"], "tag": "*"}
ROWS_OF_A_FILE = 10


def export(
    output: Path,
    files: int,
    *,
    topic: str = "T",
    first: int = 0,
    schema: pa.Schema | None = None,
    commits_max: int = COMMITS_MAX,
) -> None:
    """Commit files of ten rows of one queue, a commit for each."""
    schema = schema or pa.schema([("queueOffset", pa.int64())])
    with ExportDirectory(output, SETTINGS, commits_max=commits_max) as log:
        for number in range(first, first + files):
            add(log, number, topic, schema)


def add(log: ExportDirectory, number: int, topic: str, schema: pa.Schema) -> None:
    """Commit the file of ten rows with this number."""
    staging = log.new_staging(f"round{number}")
    begin, end = number * ROWS_OF_A_FILE, (number + 1) * ROWS_OF_A_FILE
    pq.write_table(pa.table({schema.names[0]: pa.array(range(begin, end))}), staging / "0.tmp")
    staged = relative(staging / "0.tmp", log.output)
    path = f"topic={topic}/b-0-{begin:012d}-{end:012d}.parquet"
    part = {"topic": topic, "broker_name": "b", "queue_id": 0, "from_offset": begin, "to_offset": end}
    counts = {"rows": end - begin, "lost": 0, "filter_errors": 0}
    files = [{"path": path, "staged": staged}]
    log.commit([{**part, **counts, "files": files}], [Mark(topic, "b", 0, end - 1, f"{end:x}")])


def visible(output: Path) -> list[int]:
    """Return the rows that a reader sees without knowing the commit log."""
    return sorted(pyarrow.dataset.dataset(output, partitioning="hive").to_table().column("queueOffset").to_pylist())
