"""Reads a topic several times in one Spark session and prints what each run took, to measure a warm Spark.

:mod:`bench.spark_cases` runs it as ``python -m bench.spark_runs KIND NAMESRV TOPIC DIRECTORY
ROUNDS [ROWS_PER_TASK]``.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.process import cpu_seconds
from pymq.spark.export import export as exports
from pymq.spark.export.options import ExportOptions
from pymq.spark.planning.store_place import StorePlace
from pymq.spark.queries import Query, Tables
from pymq.spark.records.schema import USUAL, columns_text
from pymq.spark.session import gateway
from pymq.spark.session.job_progress import NoProgress

# Spark's Kafka source has these columns, and a seventh that tells how its timestamps were made.
KAFKA_COLUMNS = "key,value,topic,partition,offset,timestamp"
SQL = "SELECT tags, count(*) AS count, sum(length(body)) AS bytes FROM {} GROUP BY tags"
CODEC = "spark.sql.parquet.compression.codec"
# What passes no rows through the JVM.
LIGHT = ("export", "follow", "files")

Read = Callable[[Path], float]
"""Reads the topic into a directory; returns the seconds it took."""


class Runs:
    """One topic and the Spark session that reads it."""

    def __init__(self, spark: Any, namesrv: str, topic: str, rows_per_task: int) -> None:
        self._spark = spark
        self._namesrv = namesrv
        self._topic = topic
        self._rows_per_task = rows_per_task
        self.rows_counted: int | None = None
        """The rows of a query; None for what writes files."""

    def export(self, target: Path) -> float:
        """An export to Parquet."""
        rows_per_task = self._rows_per_task
        options = ExportOptions(
            namesrv=self._namesrv, topics=(self._topic,), output=target, rows_per_task=rows_per_task
        )
        return exports.run(options).elapsed_s

    def follow(self, target: Path) -> float:
        """A following export that catches up with the topic, and is stopped then."""
        stop = threading.Event()
        options = ExportOptions(namesrv=self._namesrv, topics=(self._topic,), output=target, follow=True)
        return exports.run(options, _StopsAfterBatch(stop), stop=stop).elapsed_s

    def files(self, target: Path) -> float:
        """An export of the store directory that stands in place of the name server."""
        return exports.run(ExportOptions(store=StorePlace(self._namesrv), output=target)).elapsed_s

    def sql(self, _: Path) -> float:
        """A query that groups all rows of the store directory that stands in place of the name server."""
        begin = time.monotonic()
        with Query(self._spark, Tables("", place=StorePlace(self._namesrv)), SQL.format(self._topic)) as query:
            groups = query.run().to_pylist()
        self.rows_counted = sum(group["count"] for group in groups)
        return time.monotonic() - begin

    def stream(self, target: Path) -> float:
        """A bounded run of a stream with Spark's own sink for Parquet, one batch."""
        return self._streamed(target)

    def _streamed(self, target: Path, **options: str) -> float:
        given = {**self._source_options(), "startingOffsets": "earliest", **options}
        source = self._spark.readStream.format("pymq").options(**given)
        sink = source.load().writeStream.format("parquet").option("checkpointLocation", f"{target}-checkpoint")
        begin = time.monotonic()
        sink.trigger(availableNow=True).start(str(target)).awaitTermination()
        return time.monotonic() - begin

    def stream_snappy(self, target: Path) -> float:
        """The same stream into files with Spark's default codec."""
        self._spark.conf.set(CODEC, "snappy")
        return self.stream(target)

    def stream_six(self, target: Path) -> float:
        """The same stream with the columns of Kafka's source alone."""
        return self._streamed(target, columns=KAFKA_COLUMNS)

    def stream_json(self, target: Path) -> float:
        """The same stream with the properties as JSON text in place of a map."""
        columns = ["propertiesJson" if name == "properties" else name for name in USUAL]
        return self._streamed(target, columns=columns_text(columns))

    def spark_parquet(self, target: Path) -> float:
        """The source, with the columns of Kafka's, and Spark's own writer for Parquet."""
        begin = time.monotonic()
        source = self._spark.read.format("pymq").options(**self._source_options(), columns=KAFKA_COLUMNS)
        source.load().write.parquet(str(target))
        return time.monotonic() - begin

    def _source_options(self) -> dict[str, str]:
        return {"namesrv": self._namesrv, "subscribe": self._topic}


class _StopsAfterBatch(NoProgress):
    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop

    def batch(self, rows: int, seconds: float) -> None:
        """Stops the export: all messages were there before it."""
        self._stop.set()


def main(kind: str, namesrv: str, topic: str, directory: Path, rounds: int, rows_per_task: int = 0) -> None:
    """Prints a JSON list of (rows, seconds, CPU seconds of all processes of Spark) for each round."""
    results = []
    options = ExportOptions()
    conf = {"spark.driver.memory": options.driver_memory, CODEC: "zstd"}
    with gateway.running(options.master, gateway.light_conf(conf) if kind in LIGHT else conf) as spark:
        runs = Runs(spark, namesrv, topic, rows_per_task)
        reads: dict[str, Read] = {
            "export": runs.export,
            "follow": runs.follow,
            "files": runs.files,
            "sql": runs.sql,
            "stream": runs.stream,
            "stream-snappy": runs.stream_snappy,
            "stream-six": runs.stream_six,
            "stream-json": runs.stream_json,
            "spark-parquet": runs.spark_parquet,
        }
        for number in range(rounds):
            target = directory / f"{kind}-{topic}-{rows_per_task}-{number}"
            before_s = cpu_seconds(os.getpid())
            wall_s = reads[kind](target)
            rows = count_rows(target) if runs.rows_counted is None else runs.rows_counted
            results.append((rows, wall_s, cpu_seconds(os.getpid()) - before_s))
    print(json.dumps(results))


def count_rows(directory: Path) -> int:
    """Returns the rows of all Parquet files below a directory."""
    from pyarrow import parquet

    return sum(parquet.read_metadata(path).num_rows for path in directory.rglob("*.parquet"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), *map(int, sys.argv[5:]))
