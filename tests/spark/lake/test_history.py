"""One history from a lake and a cluster: the hand-over, gaps, deleted topics, and the columns of both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pymq.spark.export.export import ExportOptions, run
from pymq.spark.lake.commits import open_existing
from pymq.spark.lake.compaction import CompactSettings, compact
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import EARLIEST, LATEST, Position
from pymq.spark.planning.ranges import DataLossError, ReadSettings, ResumeError
from pymq.spark.planning.remote import Remote
from pymq.spark.planning.selection import Selection
from pymq.spark.planning.topics import TopicChoice
from pymq.spark.queries import Query, Tables
from pymq.spark.source.sources_of_rows import in_reading_order, open_view, reader_of
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.codes import RequestCode
from pymq.wire.command import request
from tests.cli.test_send_tail import wait_until
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record

TOPIC = "History-orders"
COLUMNS = (
    "rowId",
    "queueOffset",
    "bodyText",
    "tags",
    "keys",
    "properties",
    "property_TAGS",
    "storeTimestamp",
    "headers",
)


def fill(cluster: FakeCluster, first: int, last: int, topic: str = TOPIC, queue_id: int = 0) -> None:
    cluster.add(topic, queue_id, [record(n, topic=topic, queue_id=queue_id) for n in range(first, last)])


def export(cluster: FakeCluster, lake: Path, spark: Any, **fields: Any) -> None:
    assert spark is not None  # the export takes the session that there is
    run(ExportOptions(namesrv=cluster.address, output=lake, rows_per_task=30, **fields))


def history(
    cluster: FakeCluster,
    lake: Path | str,
    columns: tuple[str, ...] = ("topic", "queueId", "queueOffset"),
    **settings: Any,
) -> list[dict[str, Any]]:
    """Return the rows of all topics in the order in which tasks read them."""
    read = ReadSettings(columns=columns, archive=str(lake), **settings)
    with open_view(cluster.address, read) as view:
        plan = make_plan(view, TopicChoice(()), Position(symbol=EARLIEST), Position(symbol=LATEST))
        ranges = in_reading_order(view, plan.ranges)
    return [row for part in ranges for batch in reader_of(part, read).batches() for row in batch.to_pylist()]


@pytest.mark.spark
def test_a_history_has_each_message_once(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    fill(cluster, 0, 100)
    fill(cluster, 0, 40, queue_id=1)
    fill(cluster, 0, 5, topic="History-gone")
    export(cluster, lake, spark)
    whole = history(cluster, "", COLUMNS)
    assert history(cluster, lake, COLUMNS) == whole  # now all from the lake
    fill(cluster, 100, 130)
    export(cluster, lake, spark)
    fill(cluster, 130, 150)
    fill(cluster, 0, 3, topic="History-new")
    cluster.min_offsets[TOPIC, 0] = 130  # just what the lake has
    del cluster.queues["History-gone", 0]
    rows = history(cluster, lake)
    places = [(row["topic"], row["queueId"], row["queueOffset"]) for row in rows]
    expected = [(TOPIC, 0, n) for n in range(150)] + [(TOPIC, 1, n) for n in range(40)]
    expected += [("History-gone", 0, n) for n in range(5)] + [("History-new", 0, n) for n in range(3)]
    assert sorted(places) == sorted(expected)
    first = [offset for topic, queue, offset in places if (topic, queue) == (TOPIC, 0)]
    assert first == list(range(150))
    with open_existing(lake) as log:
        compact(log, sorted({path.parent for path in lake.glob("topic=*/dt=*/*.parquet")}), CompactSettings())
    assert len(list(lake.glob("topic=History-orders/dt=*/*.parquet"))) == 1
    assert history(cluster, lake) == rows
    for selection in (Selection(tag="B"), Selection(sql="TAGS = 'B'")):
        chosen = history(cluster, lake, ("topic", "queueOffset"), selection=selection)
        archived = [row["queueOffset"] for row in chosen if row["topic"] == "History-gone"]
        assert archived == [0, 2, 4]  # the broker of these tests does not filter


@pytest.mark.spark
def test_a_gap_is_named_and_decided_about(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    fill(cluster, 0, 50)
    export(cluster, lake, spark)
    fill(cluster, 50, 80)
    cluster.min_offsets[TOPIC, 0] = 60
    text = (
        rf"{TOPIC} broker-a/0: 10 messages \[50, 60\) are neither in .*lake nor stored.* begins at 60: .*failOnDataLoss"
    )
    with pytest.raises(DataLossError, match=text):
        history(cluster, lake)
    left = [*range(50), *range(60, 80)]
    assert [row["queueOffset"] for row in history(cluster, lake, on_data_loss="report")] == left
    cluster.min_offsets[TOPIC, 0] = 50
    next(lake.glob("topic=*/dt=*/*-000000000025.parquet")).unlink()  # of 50 rows, in two tasks
    with pytest.raises(DataLossError, match=r"25 messages \[0, 25\) are not in .*: their files were removed"):
        history(cluster, lake)


@pytest.mark.spark
def test_a_topic_that_was_made_again_is_refused(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    fill(cluster, 0, 20)
    export(cluster, lake, spark)
    del cluster.queues[TOPIC, 0]
    fill(cluster, 0, 10)
    with pytest.raises(ResumeError, match=r"is not the queue in .*lake: it was read up to 20 and ends at 10, so the"):
        history(cluster, lake)
    cluster.queues[TOPIC, 0].clear()
    cluster.add(TOPIC, 0, [record(n, topic=TOPIC, body=b"other") for n in range(30)])
    with pytest.raises(ResumeError, match="read the lake and the topic apart"):
        history(cluster, lake)


@pytest.mark.spark
def test_a_history_is_that_of_the_topic_that_is_there(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    """An export that takes a topic as made again has its history from there on; the former topic stays in the lake."""
    lake = tmp_path / "lake"
    fill(cluster, 0, 20)
    export(cluster, lake, spark)
    cluster.queues[TOPIC, 0] = [record(n, topic=TOPIC, body=b"other") for n in range(30)]
    export(cluster, lake, spark, on_data_loss="report")
    cluster.add(TOPIC, 0, [record(n, topic=TOPIC, body=b"new") for n in range(30, 35)])
    cluster.min_offsets[TOPIC, 0] = 30
    rows = history(cluster, lake, ("topic", "queueOffset", "body"))
    found = [(row["topic"], row["queueOffset"], row["body"]) for row in rows]
    assert found == [(TOPIC, n, b"other" if n < 30 else b"new") for n in range(35)]
    assert pq.read_table(lake / f"topic={TOPIC}", partitioning=None).num_rows == 20
    assert pq.read_table(lake / f"topic={TOPIC}%7E2", partitioning=None).num_rows == 30


@pytest.mark.spark
def test_queries_see_one_history(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    fill(cluster, 0, 100)
    export(cluster, lake, spark)
    fill(cluster, 100, 120)
    cluster.min_offsets[TOPIC, 0] = 100
    reader = spark.read.format("pymq").option("namesrv", cluster.address).option("archive", str(lake))
    assert reader.option("columns", "queueOffset").load(TOPIC).count() == 120
    tables = Tables(cluster.address, archive=str(lake))
    with Query(spark, tables, f"select count(*), min(queueOffset), max(property_TAGS) from `{TOPIC}`") as query:
        assert [tuple(row.values()) for row in query.run().to_pylist()] == [(120, 0, "B")]
        assert query.uses[0].source.startswith(f"archive {lake}, then cluster")


def send(remote: Remote, first: int, last: int) -> None:
    for number in range(first, last):
        header = {"a": "G", "b": TOPIC, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1767225600000", "h": "0"}
        remote.ask_ok(request(310, header | {"i": f"KEYS\x01k{number}\x02", "j": "0"}, b"%04d" % number * 512))


def delete_first_segments(remote: Remote, data: Path) -> None:
    """Have the broker delete the two oldest segments of its log."""
    segments = sorted(data.rglob("commitlog/0*"))[:2]
    for segment in segments:
        os.utime(segment, (0, 0))
    remote.ask_ok(request(RequestCode.DELETE_EXPIRED_COMMITLOG, {}))
    wait_until(lambda: not any(segment.exists() for segment in segments), "both segments are deleted")


@pytest.mark.slow
@pytest.mark.spark
def test_a_history_survives_the_retention_of_a_broker(spark: Any, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    with StandaloneProcess(tmp_path / "data", settings={"mappedFileSizeCommitLog": "65536"}) as server:
        with Remote(server.broker) as remote:
            send(remote, 0, 100)
            run(ExportOptions(namesrv=server.namesrv, output=lake, topics=(TOPIC,)))
            send(remote, 100, 130)
            delete_first_segments(remote, tmp_path / "data")
        reader = spark.read.format("pymq").option("namesrv", server.namesrv).option("columns", "queueOffset,bodyText")
        assert reader.load(TOPIC).count() < 130
        rows = reader.option("archive", str(lake)).load(TOPIC).collect()
        assert sorted(tuple(row) for row in rows) == [(n, f"{n:04d}" * 512) for n in range(130)]
        assert tailed(server, lake, "--from", "start", "--format", "%b") == [f"{n:04d}" * 512 for n in range(130)]
        assert tailed(server, lake, "--from", "98", "--count", "4", "--key", "k99", "--format", "%k") == ["k99"]


def tailed(server: StandaloneProcess, lake: Path, *arguments: str) -> list[str]:
    """Return the lines of a tail of the history."""
    command = [sys.executable, "-m", "pymq", "tail", TOPIC, "-F", "--archive", str(lake), "--namesrv", server.namesrv]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
