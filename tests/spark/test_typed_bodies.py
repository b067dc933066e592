"""Bodies as columns in Spark: batches, tables, streams, duplicates, and bad records in files of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import pyspark_pymq
from pymq.errors import UsageError
from pymq.spark.session.failures import translated
from tests.client.registries import ORDER_AVRO
from tests.spark.bodies.body_schemas import avro_body
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record

pytest.importorskip("fastavro")
BAD = (7, 17)


@pytest.fixture
def orders(cluster: FakeCluster) -> FakeCluster:
    schema = json.loads(ORDER_AVRO)
    bodies = [avro_body(schema, {"id": n, "total": n / 2}) if n not in BAD else b"bad" for n in range(20)]
    cluster.add("orders", 0, [record(n, body, topic="orders") for n, body in enumerate(bodies)])
    return cluster


def options(cluster: FakeCluster, **more: str) -> dict[str, str]:
    return {"namesrv": cluster.address, "bodyFormat": "avro", "bodySchema": ORDER_AVRO, **more}


@pytest.mark.slow
@pytest.mark.spark
def test_batches_and_tables(spark: Any, orders: FakeCluster) -> None:
    source = spark.read.format("pymq").options(**options(orders, columns="queueOffset,body"))
    wrong = "the body of orders/broker-a/0@7 is no avro of the option bodySchema: it ends early"
    with pytest.raises(UsageError, match=wrong), translated():
        source.load("orders").collect()
    rows = source.option("onBadRecord", "null").option("dropDuplicates", "true").load("orders")
    good = rows.where("body IS NOT NULL").selectExpr("queueOffset", "body.*").collect()
    assert [tuple(row) for row in good] == [(n, n, n / 2) for n in range(20) if n not in BAD]
    text = ", ".join(
        f"{name} '{value}'" for name, value in options(orders, topic="orders", onBadRecord="table").items()
    )
    spark.sql(f"CREATE TABLE typed_orders USING pymq OPTIONS ({text})")
    try:
        bad = spark.sql("SELECT badRecord.* FROM typed_orders WHERE body.id IS NULL").collect()
    finally:
        spark.sql("DROP TABLE typed_orders")
    place = ("orders", "broker-a", 0)
    assert [tuple(row) for row in bad] == [(*place, n, b"bad", "it ends early") for n in BAD]


@pytest.mark.slow
@pytest.mark.spark
def test_all_types_pass_into_spark(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    columns = (
        "a tinyint, b smallint, c int, d bigint, e float, f double, g decimal(20,3), h string, i binary, j boolean, "
        "k date, l timestamp, m timestamp_ntz, n array<struct<x: int>>, o map<string,array<int>>, p struct<q: json>"
    )
    cluster.add(
        "t", 0, [record(0, b'{"n":[{"x":1},null],"o":{"k":[1]},"p":{"q":[1]}}', topic="t"), record(1, b"{}", topic="t")]
    )
    source = spark.read.format("pymq").options(namesrv=cluster.address, bodyFormat="json", bodySchema=columns)
    rows = source.option("columns", "body").load("t")
    expected = spark.createDataFrame([], columns.replace("json", "string")).schema.simpleString()
    assert rows.schema["body"].dataType.simpleString() == expected
    rows.write.parquet(str(tmp_path / "out"))
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("body.p.q").collect()
    assert [row.body.p and row.body.p.q for row in found] == [None, "[1]"]


@pytest.mark.slow
@pytest.mark.spark
def test_a_stream_writes_each_bad_record_once(spark: Any, orders: FakeCluster, tmp_path: Path) -> None:

    seen: list[int] = []

    def write(rows: Any, batch_id: int) -> None:
        seen.extend(row.body.id for row in rows.collect())
        if batch_id == 1 and len(seen) < 20:
            raise RuntimeError("the place is full")  # the batch's bad records are written by then

    def run() -> Any:
        read = spark.readStream.format("pymq").options(
            **options(
                orders, onBadRecord="table", columns="body", startingOffsets="earliest", maxOffsetsPerTrigger="10"
            )
        )
        aside = pyspark_pymq.bad_records_aside(write, str(tmp_path / "bad"))
        rows = read.load("orders").writeStream.foreachBatch(aside).trigger(availableNow=True)
        query = rows.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.awaitTermination()
        return query.id

    with pytest.raises(PySparkException, match="the place is full"):
        run()
    query_id = run()
    bad = spark.read.parquet(str(tmp_path / "bad"))
    assert sorted((row.queueOffset, row.batch) for row in bad.collect()) == [(7, 0), (17, 1)]
    assert {str(row.query) for row in bad.collect()} == {str(query_id)}
    assert seen == [n for n in range(20) if n not in BAD] + [n for n in range(10, 20) if n not in BAD]


@pytest.mark.slow
@pytest.mark.spark
def test_the_writer_of_bad_records_says_what_it_needs(spark: Any, tmp_path: Path) -> None:
    aside = pyspark_pymq.bad_records_aside(lambda rows, batch_id: None, str(tmp_path))
    with pytest.raises(UsageError, match="no column badRecord: give the source onBadRecord table"):
        aside(spark.range(1), 0)
    with pytest.raises(UsageError, match="give bad_records_aside the argument query"):
        aside(spark.sql("SELECT 1 AS a, null AS badRecord"), 0)
