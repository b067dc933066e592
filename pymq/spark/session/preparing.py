"""Prepares Spark on this machine: one session runs what jobs run, and its JVM writes the archive of their classes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pymq.spark.session import gateway
from pymq.spark.session.class_archive import archive_path, replaced, writing_options
from pymq.spark.session.java import Java, find_java
from pymq.spark.session.spark_home import spark_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The JVM links and writes all classes when it ends, which takes seconds of a whole core.
WRITE_TIMEOUT_S: Final = 600.0
_ROW_COUNT = 1000


def prepare(java: Java | None = None) -> Path:
    """Write the archive for this Java (default: :func:`find_java`) and the installed Spark. Returns its path.

    Raises UsageError without Spark, JavaNotFoundError, SparkStartError and ArchiveError.
    """
    home = spark_home()
    java = java or find_java()
    path = archive_path(java, home)
    with replaced(path) as new:  # whose folder goes at the end, and what the session has written with it
        conf = {"spark.driver.extraJavaOptions": writing_options(java, new)}
        with gateway.running("local[2]", conf, java=java) as spark:
            gateway.wait_for_end(WRITE_TIMEOUT_S)
            _work(spark, new.parent / "work")
    return path


def _work(spark: SparkSession, folder: Path) -> None:
    """Load the classes of a batch that reads, writes and groups, of Python tasks, and of a stream."""
    rows = spark.range(_ROW_COUNT).selectExpr("CAST(id % 7 AS int) AS queueId", "CAST(id AS string) AS body", "id")
    rows.write.parquet(str(folder / "parquet"))
    written = spark.read.parquet(str(folder / "parquet"))
    written.createOrReplaceTempView("rows")
    spark.sql("SELECT queueId, count(*) AS n FROM rows WHERE body LIKE '%1' GROUP BY queueId ORDER BY n").collect()
    written.mapInArrow(lambda batches: batches, written.schema).write.format("noop").mode("overwrite").save()
    written.repartition(2).toArrow()
    stream = spark.readStream.schema(written.schema).parquet(str(folder / "parquet"))
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(folder / "stream"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
