"""Clients of Spark Connect: source, files, sink, streams, metrics; and declarative pipelines, which are such clients.

Each client is a process: pyspark has one kind of session in a process, and warns of pandas 3 when a client begins.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pymq.client import Message
from pymq.client.sync import Producer
from pymq.testing.standalone import StandaloneProcess
from tests.ports import free_port_block

pytestmark = [pytest.mark.slow, pytest.mark.spark]
ROOT = Path(__file__).parents[2]
PIPELINE = """\
name: orders
libraries:
  - glob:
      include: transformations/**
catalog: spark_catalog
database: default
storage: file://{directory}/storage
configuration:
  pymq.namesrv: "{namesrv}"
"""
ORDERS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
NAMESRV = spark.conf.get("pymq.namesrv")


@dp.table
def orders():
    source = spark.readStream.format("pymq").option("namesrv", NAMESRV).option("startingOffsets", "earliest")
    return source.option("columns", "tags,keys,bodyText").load("Orders")


@dp.materialized_view
def by_tag():
    return spark.read.table("orders").groupBy("tags").count()


dp.create_sink("paid", "pymq", {"namesrv": NAMESRV, "topic": "Paid"})


@dp.append_flow(target="paid")
def paid_orders():
    return spark.readStream.table("orders").where("tags = 'paid'").selectExpr("keys AS key", "bodyText AS body")
"""
BEGIN = """\
import sys
from pyspark.sql import SparkSession
import pyspark_pymq

namesrv, directory = sys.argv[1:]
spark = pyspark_pymq.register(SparkSession.builder.getOrCreate())
source = spark.read.format("pymq").option("namesrv", namesrv).option("columns", "keys,bodyText")
"""
JOB = (
    BEGIN
    + """\
assert source.load("Batches").count() == 4
source.load("Batches").write.parquet(directory + "/files")
assert spark.read.parquet(directory + "/files").count() == 4
rows = source.load("Batches").selectExpr("keys AS key", "bodyText AS body")
rows.write.format("pymq").option("namesrv", namesrv).mode("append").save("Copies")
assert sorted(row.bodyText for row in source.load("Copies").collect()) == ["o0", "o1", "o2", "o3"]
with pyspark_pymq.metrics(spark, 0) as served:
    stream = spark.readStream.format("pymq").option("namesrv", namesrv).option("startingOffsets", "earliest")
    stream = stream.option("maxBytesPerTrigger", "1").option("columns", "keys").load("Batches")
    query = stream.writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
    query.awaitTermination()
    assert spark.table("seen").count() == 4 and served.address.startswith("127.0.0.1:")
"""
)
COUNTS = (
    BEGIN
    + """\
print(sorted((row.tags, row["count"]) for row in spark.table("by_tag").collect()), source.load("Paid").count())
"""
)


class Cluster(NamedTuple):
    """A broker, and a server of Spark Connect."""

    namesrv: str
    environment: dict[str, str]
    directory: Path

    def run(self, *arguments: str) -> str:
        """Run a client in Python; return what it prints."""
        # pyspark warns of pandas 3.
        command = [sys.executable, "-W", "ignore", *arguments]
        done = subprocess.run(
            command, env=self.environment, cwd=self.directory, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def send(self, topic: str, numbers: range) -> None:
        with Producer("P", namesrv=self.namesrv) as producer:
            for number in numbers:
                tag = "paid" if number % 2 else "open"
                producer.send(Message(topic, f"o{number}".encode(), tags=tag, keys=[f"k{number}"]))


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("connect")
    port = str(free_port_block(0, 0))
    command = [sys.executable, "-m", "tests.spark.connect_server", port, str(directory / "warehouse")]
    with (
        StandaloneProcess() as broker,
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            environment = {**os.environ, "SPARK_REMOTE": f"sc://127.0.0.1:{port}"}
            yield Cluster(broker.namesrv, environment, directory)
        finally:
            server.communicate()


def test_a_client_reads_writes_files_and_topics_and_runs_streams(connect: Cluster) -> None:
    connect.send("Batches", range(4))
    connect.run("-c", JOB, connect.namesrv, str(connect.directory))


def test_a_declarative_pipeline_reads_a_topic_and_writes_another_and_goes_on(connect: Cluster) -> None:
    (connect.directory / "transformations").mkdir()
    (connect.directory / "transformations" / "orders.py").write_text(ORDERS)
    text = PIPELINE.format(directory=connect.directory, namesrv=connect.namesrv)
    (connect.directory / "spark-pipeline.yml").write_text(text)

    def run() -> Any:
        assert "Run is COMPLETED" in connect.run("-m", "pyspark.pipelines.cli", "run", "--spec", "spark-pipeline.yml")
        return connect.run("-c", COUNTS, connect.namesrv, str(connect.directory)).strip()

    connect.send("Orders", range(10))
    assert run() == "[('open', 5), ('paid', 5)] 5"
    connect.send("Orders", range(10, 14))
    assert run() == "[('open', 7), ('paid', 7)] 7"
