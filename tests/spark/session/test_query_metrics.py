"""``pyspark_pymq.metrics``: what it asks brokers, its endpoint, and a query of a real session."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pymq.clock import ManualClock
from pymq.errors import ConfigError, UsageError
from pymq.spark.planning.cluster import RemoteCluster
from pymq.spark.session.query_figures import Position
from pymq.spark.session.query_metrics import QueryMetrics, metrics, topic_looks
from pymq.spark.source.stream_offsets import Span
from tests.interop.support.probe import wait_until
from tests.spark.fake_cluster import BROKER, FakeCluster
from tests.spark.record_bytes import BORN_MS, record
from tests.spark.session.test_query_figures import at, report

KEY = ("T", BROKER, 0)


def fill(cluster: FakeCluster, count: int = 10) -> int:
    records = [record(n, bytes(50), physical_offset=n * 1000) for n in range(count)]
    cluster.add("T", 0, records)
    return len(records[0])


def looks(cluster: FakeCluster, ends: dict[Any, int], *spans: Span, group: str = "") -> Any:
    with RemoteCluster(cluster.address) as view:
        return topic_looks(view, Position("q", ends, spans), group, BORN_MS + 10_000)


def text(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def test_a_look_says_lag_age_size_and_the_groups_lag(cluster: FakeCluster) -> None:
    size = fill(cluster)
    cluster.committed["g", "T", 0] = 3
    (look,) = looks(cluster, {KEY: 4}, Span(KEY, 0, 4), group="g").values()
    # A record is stored a millisecond after it was born: the next one, 4, at BORN_MS + 5.
    assert look == (6, 9.995, size, 7)


def test_a_query_that_has_read_all_is_not_behind(cluster: FakeCluster) -> None:
    fill(cluster)
    assert looks(cluster, {KEY: 10}, group="g") == {"T": (0, 0.0, None, None)}


def test_a_topic_that_is_gone_or_was_made_again(cluster: FakeCluster) -> None:
    size = fill(cluster)
    assert looks(cluster, {("U", BROKER, 0): 4, KEY: 40}, Span(KEY, 2, 40)) == {"T": (10, 9.999, size, None)}
    cluster.min_offsets["T", 0] = 8
    assert looks(cluster, {KEY: 4})["T"].behind_s == 9.991


def test_the_endpoint_serves_looks_and_listens_on_loopback(cluster: FakeCluster) -> None:
    fill(cluster)
    spark = Mock()
    clock = ManualClock()
    with QueryMetrics(spark, 0, "127.0.0.1", cluster.address, "", {"q": "g"}, clock=clock) as served:
        listener = spark.streams.addListener.call_args.args[0]
        listener.onQueryProgress(Mock(progress=Mock(json='{"runId": "r", "id": "i", "name": "q", "sources": []}')))
        served.figures.progressed(report({"T": {BROKER: {"0": 0}}}, {"T": {BROKER: {"0": 4}}}, at(), run="r"))
        served.look()
        assert 'pymq_spark_lag_messages{node_type="spark",query="q",topic="T"} 6' in text(served.address)
        cluster.has_stats, cluster.lists_entries = False, False
        served.look()
        assert 'pymq_spark_cluster_answers{node_type="spark"} 0' in text(served.address)
        listener.onQueryTerminated(Mock(runId="r"))
        assert 'topic="T"' not in text(served.address)
        with pytest.raises(UsageError, match="metrics can't be served on 127"):
            metrics(spark, int(served.address.rpartition(":")[2]))
    spark.streams.removeListener.assert_called_once_with(listener)
    served.close()
    spark.streams.removeListener.assert_called_once()


def test_the_endpoint_asks_for_a_token_and_for_its_own_name(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token\n")
    token.chmod(0o600)

    def status(served: QueryMetrics, **headers: str) -> int:
        asked = urllib.request.Request(f"http://{served.address}/metrics", headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    with metrics(Mock(), 0, token_file=str(token)) as served:
        assert status(served) == 401
        assert status(served, Authorization="Bearer a-toke") == 401
        assert status(served, Authorization="Bearer a-token") == 200
    with metrics(Mock(), 0) as served:
        assert status(served) == 200
        assert status(served, Host="elsewhere.example") in (400, 403, 421)
    token.chmod(0o644)
    with pytest.raises(ConfigError, match="metricsTokenFile"):
        metrics(Mock(), 0, token_file=str(token))


def test_the_endpoint_ends_also_when_the_session_has_ended() -> None:
    spark = Mock()
    spark.streams.removeListener.side_effect = RuntimeError("stopped")
    served = metrics(spark, 0)
    with pytest.raises(RuntimeError, match="stopped"):
        served.close()
    with pytest.raises(OSError, match="refused"):
        text(served.address)


@pytest.mark.slow
def test_a_query_of_spark_is_seen_and_leaves(spark: Any, cluster: FakeCluster, tmp_path: Any) -> None:
    import pyspark_pymq

    fill(cluster)
    source = spark.readStream.format("pymq").option("namesrv", cluster.address).option("startingOffsets", "earliest")
    rows = source.option("columns", "queueOffset").option("commitGroup", "g").load("T")
    with pyspark_pymq.metrics(spark, 0, namesrv=cluster.address, groups={"seen": "g"}) as served:
        query = rows.writeStream.format("noop").queryName("seen").option("checkpointLocation", str(tmp_path)).start()
        try:
            line = 'pymq_spark_rows_total{node_type="spark",query="seen",topic="T"} 10'
            wait_until("the rows", lambda: line in text(served.address))
            cluster.add("T", 0, [record(10)])
            wait_until("the offsets of the group", lambda: cluster.committed.get(("g", "T", 0)) == 11)
            served.look()
            said = text(served.address)
            assert 'pymq_spark_group_lag_messages{node_type="spark",query="seen",topic="T"} 0' in said
            assert 'pymq_spark_bytes_per_second{node_type="spark",query="seen",topic="T"}' in said
        finally:
            query.stop()
        wait_until("the end of the query", lambda: 'query="seen"' not in text(served.address))
