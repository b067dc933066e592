"""PyMQ's spark-export and stream read a real Apache RocketMQ 5.3.3: every message once, with bytes and properties."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from functools import partial
from pathlib import Path

import pytest

from pymq.errors import RefusedError
from pymq.spark.planning.cluster import RemoteCluster
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import LATEST, Position
from tests.interop.support import probe
from tests.interop.support.apache import ApacheServer
from tests.interop.support.pymq_server import REPOSITORY
from tests.interop.test_sql92 import switch_sql

MESSAGE_COUNT = 3000
EXPORT_TIMEOUT_S = 240

pytest.importorskip("pyspark", reason="interop: pyspark is not installed (the spark extra)")
parquet = pytest.importorskip("pyarrow.parquet", reason="interop: pyarrow is not installed (the spark extra)")

from pymq.spark.planning.ranges import ReadSettings  # noqa: E402
from pymq.spark.planning.selection import Selection  # noqa: E402
from pymq.spark.planning.topics import TopicChoice  # noqa: E402
from pymq.spark.reading.reader import RangeReader  # noqa: E402
from pymq.spark.session import gateway  # noqa: E402 - what needs the extra
from pymq.spark.source.options import SourceOptions  # noqa: E402
from pymq.spark.source.stream import PymqStreamReader  # noqa: E402
from tests.spark.kills.attack import committed_files  # noqa: E402
from tests.spark.patience import run_to_its_end  # noqa: E402


@pytest.fixture(scope="module")
def topic(apache: ApacheServer) -> str:
    name = f"spark-{uuid.uuid4().hex[:8]}"
    probe.create_topic(apache.namesrv, apache.broker, name)
    lines = "".join(json.dumps({"n": n, "text": "消息"}, ensure_ascii=False) + "\n" for n in range(MESSAGE_COUNT))
    _pymq(apache, "send", name, "--batch", "32", "--tag", "T", stdin=lines)
    probe.wait_for_messages(apache.broker, name, MESSAGE_COUNT)
    return name


def _pymq(apache: ApacheServer, *arguments: str, stdin: str = "") -> str:
    command = [sys.executable, "-m", "pymq", *arguments, "--namesrv", apache.namesrv]
    done = subprocess.run(
        command, cwd=REPOSITORY, input=stdin, capture_output=True, text=True, timeout=EXPORT_TIMEOUT_S
    )
    assert done.returncode == 0, f"{' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("writer", ["arrow", "spark"])
def test_every_message_is_exported_once(apache: ApacheServer, topic: str, tmp_path: Path, writer: str) -> None:
    out = tmp_path / "lake"
    spark = ["--conf", "spark.ui.enabled=false"]  # so few messages would need no Spark
    _pymq(apache, "spark-export", "-t", topic, "--output", str(out), "--writer", writer, "--json", *spark)
    files = [file for file in out.rglob("*.parquet") if not file.name.startswith(("_", "."))]
    rows = [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]
    numbers = sorted(json.loads(row["body"])["n"] for row in rows)
    assert numbers == list(range(MESSAGE_COUNT))
    assert len({(row["queueId"], row["queueOffset"]) for row in rows}) == MESSAGE_COUNT
    assert {row["tags"] for row in rows} == {"T"}


def test_an_export_into_the_same_directory_continues(apache: ApacheServer, topic: str, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    _pymq(apache, "spark-export", "-t", topic, "--output", str(out), "--json")
    before = set(out.rglob("*.parquet"))
    _pymq(apache, "spark-export", "-t", topic, "--output", str(out), "--json")
    assert set(out.rglob("*.parquet")) == before


@pytest.fixture(scope="module")
def sized(apache: ApacheServer) -> str:
    """Make a topic in which most messages have no size, so that most ranges match nothing."""
    name = f"spark-{uuid.uuid4().hex[:8]}"
    probe.create_topic(apache.namesrv, apache.broker, name)
    _pymq(apache, "send", name, "--batch", "32", stdin="".join(f"{n}\n" for n in range(MESSAGE_COUNT)))
    for size in ("3", "7", "x", "12"):
        _pymq(apache, "send", name, f"size {size}", "--property", f"size={size}")
    probe.wait_for_messages(apache.broker, name, MESSAGE_COUNT + 4)
    return name


def test_sql_runs_on_the_broker_and_positions_advance(apache: ApacheServer, sized: str, tmp_path: Path) -> None:
    export = ["spark-export", "-t", sized, "--output", str(tmp_path / "lake"), "--sql", "size > 5", "--json"]
    first, again = json.loads(_pymq(apache, *export)), json.loads(_pymq(apache, *export))
    assert (first["rows"], first["planned_rows"], first["lost"]) == (2, MESSAGE_COUNT + 4, 0)
    assert (again["rows"], again["planned_rows"]) == (0, 0)
    rows = [row for file in (tmp_path / "lake").rglob("*.parquet") for row in parquet.read_table(file).to_pylist()]
    assert sorted(row["body"] for row in rows) == [b"size 12", b"size 7"]


def test_a_broker_with_sql_switched_off(apache: ApacheServer, sized: str) -> None:
    with RemoteCluster(apache.namesrv) as view:
        parts = make_plan(view, TopicChoice((sized,)), Position(), Position(symbol=LATEST)).ranges

    def count(selection: Selection) -> int:
        readers = [RangeReader(part, ReadSettings(columns=("body",), selection=selection)) for part in parts]
        return sum(batch.num_rows for reader in readers for batch in reader.batches())

    assert count(Selection(pushed_sql="size = '7'")) == 1
    try:
        switch_sql(apache.broker, "false")
        assert count(Selection(pushed_sql="size = '7'")) == MESSAGE_COUNT + 4, "Spark leaves the others out itself"
        with pytest.raises(RefusedError, match="set enablePropertyFilter=true in its"):
            count(Selection(sql="size > 5"))
    finally:
        switch_sql(apache.broker, "true")


def test_batches_with_a_limit_of_bytes_keep_to_it_and_lose_nothing(apache: ApacheServer, topic: str) -> None:
    options = SourceOptions(
        {"namesrv": apache.namesrv, "topic": topic, "startingOffsets": "earliest", "maxBytesPerTrigger": "64KB"}
    )
    stream = PymqStreamReader(options, ("queueId", "queueOffset"))
    at, sizes, rows = stream.initialOffset(), [], 0
    with RemoteCluster(apache.namesrv) as view:
        queues = {queue.queue_id: queue for queue in view.queues_of([topic])[topic]}
        while (end := stream.latestOffset(at, stream.getDefaultReadLimit())) != at:
            parts = [part for partition in stream.partitions(at, end) for part in partition.parts]
            asks = [(queues[part.queue_id], part.from_offset, part.count) for part in parts]
            sizes.append(sum(entry.size_bytes for entries in view.entries(asks) for entry in entries))
            rows += sum(part.count for part in parts)
            at = end
    assert rows == MESSAGE_COUNT
    assert len(sizes) > 1 and all(0 < size <= 64 * 1024 for size in sizes)


def test_a_stream_reads_every_message_once_also_of_new_queues(apache: ApacheServer, tmp_path: Path) -> None:
    """Two bounded runs on one checkpoint; between them the topic gets two queues and more messages."""
    name, group = f"spark-{uuid.uuid4().hex[:8]}", f"g-{uuid.uuid4().hex[:8]}"
    with gateway.running("local[2]", gateway.light_conf({})) as spark:
        for queues, numbers in ((4, range(2000)), (6, range(2000, MESSAGE_COUNT))):
            probe.create_topic(apache.namesrv, apache.broker, name, queues=queues)
            _pymq(apache, "send", name, "--batch", "20", "--tag", "T", stdin="".join(f"{n}\n" for n in numbers))
            probe.wait_for_messages(apache.broker, name, numbers.stop, queues=queues)
            options = {"namesrv": apache.namesrv, "subscribe": name, "startingOffsets": "earliest"}
            options |= {"maxOffsetsPerTrigger": "700", "commitGroup": group}
            sink = spark.readStream.format("pymq").options(**options).load().writeStream.format("parquet")
            sink = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
            run_to_its_end(partial(sink.start, str(tmp_path / "lake")))
    rows = [row for file in committed_files(tmp_path / "lake") for row in parquet.ParquetFile(file).read().to_pylist()]
    assert sorted(int(row["body"]) for row in rows) == list(range(MESSAGE_COUNT))
    assert len({row["msgId"] for row in rows}) == MESSAGE_COUNT
    assert {row["queueId"] for row in rows} == set(range(6)) and {row["tags"] for row in rows} == {"T"}
    with RemoteCluster(apache.namesrv) as view:
        done = [view.committed(queue, group) for queue in view.queues_of([name])[name]]
    assert sum(filter(None, done)) == MESSAGE_COUNT
