"""The recipes of docs/spark.md that use Spark's own functions: bodies in Avro and Protobuf."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record
from tests.spark_session import JARS

pytestmark = pytest.mark.spark
AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "double"}]}'


def bodies(spark: Any, cluster: FakeCluster, *raw: bytes) -> Any:
    cluster.add("orders", 0, [record(n, body, topic="orders") for n, body in enumerate(raw)])
    return spark.read.format("pymq").option("namesrv", cluster.address).option("columns", "body").load("orders")


def needs(jar: str) -> pytest.MarkDecorator:
    """Skip a test without this jar, before a session starts for it."""
    reason = f"{JARS} names no {jar} jar: get org.apache.spark:{jar}_2.13 of Spark's version"
    return pytest.mark.skipif(jar not in os.environ.get(JARS, ""), reason=reason)


@needs("spark-avro")
def test_bodies_in_avro(spark: Any, cluster: FakeCluster) -> None:
    from pyspark.sql.avro.functions import from_avro

    raw = struct.pack("<d", 2.5)
    frame = bodies(spark, cluster, raw, b"\x00\x00\x00\x00\x07" + raw)
    decoded = frame.where("length(body) = 8").select(from_avro("body", AVRO).alias("order")).select("order.*")
    assert [row.asDict() for row in decoded.collect()] == [{"amount": 2.5}]
    cut = frame.where("length(body) > 8").selectExpr("substring(body, 6, length(body) - 5) AS body")
    assert cut.select(from_avro("body", AVRO).alias("order")).collect()[0].order.amount == 2.5
    wrong = frame.selectExpr("substring(body, 1, 3) AS body").limit(1)
    assert wrong.select(from_avro("body", AVRO, {"mode": "PERMISSIVE"}).alias("order")).collect()[0].order is None


@needs("spark-protobuf")
def test_bodies_in_protobuf(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from pyspark.sql.protobuf.functions import from_protobuf

    files = descriptor_pb2.FileDescriptorSet()
    file = files.file.add(name="orders.proto", syntax="proto3")
    kind = descriptor_pb2.FieldDescriptorProto.TYPE_INT32
    file.message_type.add(name="Order").field.add(name="amount", number=1, type=kind, label=1)
    path = tmp_path / "orders.desc"
    path.write_bytes(files.SerializeToString())
    frame = bodies(spark, cluster, b"\x08\x07")
    decoded = frame.select(from_protobuf("body", "Order", str(path)).alias("order"))
    assert decoded.collect()[0].order.amount == 7
