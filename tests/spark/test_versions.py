"""Each way between Spark and topics, on the Spark that is there; scripts/spark-versions runs it on the oldest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from pymq.client import Message
from pymq.client.sync import Producer
from pymq.spark.export import export
from pymq.spark.export.options import ExportOptions
from pymq.spark.queries import Query, Tables
from pymq.spark.session.failures import translated
from pymq.testing.broker import TestBroker

VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))
COUNT = 200


@pytest.fixture(scope="module")
def broker() -> Any:
    with TestBroker() as running, Producer("test", namesrv=running.namesrv) as producer:
        for number in range(COUNT):
            producer.send(Message("In", b'{"n": %d}' % number, tags="AB"[number % 2]))
        yield running


def source(spark: Any, broker: Any, columns: str = "tags,queueOffset,body", **options: str) -> Any:
    return spark.read.format("pymq").options(namesrv=broker.namesrv, columns=columns, **options)


@pytest.mark.spark
def test_batches(spark: Any, broker: Any) -> None:
    assert source(spark, broker).load("In").count() == COUNT
    where = source(spark, broker, pushFilters="true").load("In").where("tags = 'A' AND queueOffset >= 0")
    assert where.count() == COUNT // 2


@pytest.mark.spark
def test_queries(spark: Any, broker: Any) -> None:
    with Query(spark, Tables(broker.namesrv), "select tags, count(*) n from In group by tags order by tags") as query:
        assert [tuple(row.values()) for row in query.run().to_pylist()] == [("A", COUNT // 2), ("B", COUNT // 2)]


@pytest.mark.spark
def test_writes(spark: Any, broker: Any) -> None:
    rows = spark.range(50).selectExpr("cast(id AS string) AS body")
    rows.write.format("pymq").options(namesrv=broker.namesrv).mode("append").save("Out")
    assert source(spark, broker).load("Out").count() == 50


@pytest.mark.spark
@pytest.mark.parametrize("format", ["parquet", "json"])
def test_exports(spark: Any, broker: Any, tmp_path: Path, format: str) -> None:
    out = tmp_path / "out"
    given = ExportOptions(namesrv=broker.namesrv, topics=("In",), output=out, format=format, master="local[1]")
    assert export.run(given).rows == COUNT
    assert format == "json" or pq.read_table(out).num_rows == COUNT


@pytest.mark.spark
def test_streams(spark: Any, broker: Any, tmp_path: Path) -> None:
    """Since Spark 4.2; before that a sentence says what there is instead."""
    stream = spark.readStream.format("pymq").options(namesrv=broker.namesrv, subscribe="In", startingOffsets="earliest")

    def run() -> Any:
        with translated():
            writer = stream.load().writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "check"))
            query = writer.trigger(availableNow=True).start(str(tmp_path / "rows"))
            query.awaitTermination()
        return spark.read.parquet(str(tmp_path / "rows")).count()

    if VERSION >= (4, 2):
        assert run() == COUNT
        return
    with pytest.raises(Exception, match=r"a topic as a stream needs Spark 4\.2, and this is .* spark-export --follow"):
        run()


@pytest.mark.spark
def test_stream_sinks(spark: Any, broker: Any, tmp_path: Path) -> None:
    """Since Spark 4.1; before that ``foreachBatch``, which a sentence names."""
    from pyspark_pymq import batch_writer

    spark.range(30).selectExpr("cast(id AS string) AS body").write.parquet(str(tmp_path / "files"))
    rows = spark.readStream.schema("body string").parquet(str(tmp_path / "files"))

    def run(writer: Any, name: str) -> Any:
        with translated():
            query = writer.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start()
            query.awaitTermination()
        return source(spark, broker).load(name).count()

    by_batch = batch_writer(namesrv=broker.namesrv, topic="ByBatch")
    assert run(rows.writeStream.foreachBatch(by_batch), "ByBatch") == 30
    sink = rows.writeStream.format("pymq").options(namesrv=broker.namesrv, topic="Sunk")
    if VERSION >= (4, 1):
        assert run(sink, "Sunk") == 30
        return
    with pytest.raises(Exception, match=r"needs Spark 4\.1, and this is .* foreachBatch\(pyspark_pymq\.batch_writer"):
        run(sink, "Sunk")


ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"
READER = """
import sys
from pymq.spark.session import gateway

with gateway.running("local[1]", {"spark.jars.packages": sys.argv[1]}) as spark:
    rows = spark.read.format("iceberg").load(sys.argv[2])
    places = rows.select("queueId", "queueOffset").distinct()
    print(rows.count(), rows.where("queueOffset >= 10").count(), places.count())
"""


@pytest.mark.skipif(VERSION != (4, 0), reason="Iceberg's jar is made for one version of Spark")
def test_spark_reads_a_table_of_iceberg(broker: Any, tmp_path: Path) -> None:
    """What pyiceberg has committed, and merged, by Iceberg's own reader."""
    given = ExportOptions(namesrv=broker.namesrv, topics=("In",), output=tmp_path, format="iceberg", compact=True)
    given.rows_per_task = 10
    assert export.run(given).rows == COUNT
    table = max((tmp_path / "pymq" / "messages" / "metadata").glob("*.metadata.json"))
    done = subprocess.run(
        [sys.executable, "-c", READER, ICEBERG, str(table)], capture_output=True, text=True, check=False
    )
    if "unresolved dependency" in done.stderr:
        pytest.skip(f"{ICEBERG} can't be fetched")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(COUNT), str(COUNT - 4 * 10), str(COUNT)]
