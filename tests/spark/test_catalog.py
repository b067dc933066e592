"""Topics as tables of a session's catalog, and a JDBC client of Spark's Thrift server that sees them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pymq.errors import UsageError
from pymq.spark.catalog import HOST, TopicTables, table_names, thrift_settings
from pymq.spark.queries import Tables
from pymq.spark.session.java import JavaNotFoundError, find_java
from pymq.spark.session.spark_home import spark_home
from pymq.testing.standalone import StandaloneProcess
from tests.ports import free_port_block
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "pymq"]


def test_names_of_tables() -> None:
    assert table_names(["orders", "audit-log", "7", "Ключ"]) == {
        "orders": "orders",
        "audit-log": "audit_log",
        "7": "7",
        "Ключ": "____",
    }
    alike = table_names(["a-b", "a_b", "A_B", "c"])
    assert alike["a_b"] == "a_b" and alike["c"] == "c"
    assert len(set(alike.values())) == 4
    assert all(name.startswith("a_b_") for topic, name in alike.items() if topic in ("a-b", "A_B"))
    assert table_names(["a-b", "A_B"]) == {topic: alike[topic] for topic in ("a-b", "A_B")}


@pytest.mark.slow
@pytest.mark.spark
def test_tables_come_and_go_with_topics(spark: Any, cluster: FakeCluster) -> None:
    def shown() -> set[str]:
        return {row["tableName"] for row in topics.run("SHOW TABLES").to_pylist() if "catalog_fake" in row["tableName"]}

    cluster.add("catalog_fake", 0, [record(n, b"it's", topic="catalog_fake") for n in range(3)])
    cluster.add("catalog-fake", 0, [record(0, topic="catalog-fake")])
    topics = TopicTables(spark, Tables(cluster.address))
    try:
        assert topics.refresh() == 2 and topics.refresh() == 2
        assert len(shown()) == 2 and "catalog_fake" in shown()
        found = topics.run(
            "SELECT bodyText, count(*) AS rows FROM catalog_fake WHERE queueOffset > 0 GROUP BY bodyText"
        )
        assert found.to_pylist() == [{"bodyText": "it's", "rows": 2}]
        with pytest.raises(UsageError, match=r"the query is refused: .*TABLE_OR_VIEW_NOT_FOUND"):
            topics.run("SELECT * FROM catalog_fakes")
        del cluster.queues["catalog-fake", 0]
        assert topics.refresh() == 1 and shown() == {"catalog_fake"}
        cluster.add("catalog_more", 0, [record(0, topic="catalog_more")])
        assert topics.refresh() == 2
    finally:
        cluster.queues.clear()
        assert topics.refresh() == 0 and shown() == set()


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} can't be listened on: .*; name another one"):
            thrift_settings(port)
    assert thrift_settings(port)["spark.hive.server2.thrift.bind.host"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "give one of SQL and --thrift-port"),
        (["select 1", "--thrift-port", "10000"], "give one of SQL and --thrift-port"),
        (["select 1", "--catalog", "--explain"], "leave out --lake and --explain"),
        (["--thrift-port", "10000", "--lake", "."], "leave out --lake and --explain"),
    ],
)
def test_what_the_command_refuses(words: list[str], text: str) -> None:
    done = subprocess.run([*COMMAND, "spark-sql", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
@pytest.mark.spark
def test_a_jdbc_client_sees_topics() -> None:
    try:
        java = find_java({})
    except JavaNotFoundError:
        java = find_java()
    port = free_port_block(0, 0)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": str(java.home)}
    with StandaloneProcess() as server:
        send = [*COMMAND, "send", "Jdbc-Orders", "it's", "--namesrv", server.namesrv]
        subprocess.run(send, check=True, capture_output=True, env=environment)
        serving = subprocess.Popen(
            [*COMMAND, "spark-sql", "--thrift-port", str(port), "--namesrv", server.namesrv],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        try:
            assert serving.stderr is not None
            line = next(line for line in serving.stderr if "starting Spark" not in line)
            assert line == f"pymq: jdbc:hive2://127.0.0.1:{port} has 1 topic as tables; Ctrl-C ends it\n"
            beeline = [str(java.executable), "-cp", str(spark_home() / "jars" / "*"), "org.apache.hive.beeline.BeeLine"]
            client = ["-u", f"jdbc:hive2://127.0.0.1:{port}/default", "--silent=true", "--outputformat=csv2"]
            done = subprocess.run(
                [*beeline, *client, "-e", "show tables; select bodyText from jdbc_orders;"],
                capture_output=True,
                text=True,
                check=True,
                env=environment,
            )
            assert "default,jdbc_orders,false" in done.stdout and "bodyText\nit's" in done.stdout, done
            serving.send_signal(signal.SIGINT)
            assert (serving.wait(60), serving.stderr.read()) == (0, "pymq: stopped\n")
        finally:
            serving.kill()
            serving.wait()
            assert serving.stderr is not None
            serving.stderr.close()
