"""``df.write.format("pymq")`` and its stream on a real broker: what arrives, what is refused, what is repeated."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pymq.client.queue_picker import queue_of_key
from pymq.errors import NoQueueError, RefusedError, UsageError
from pymq.filter.messages import FilterMessage
from pymq.filter.registry import installed_filters
from pymq.model.message import MessageQueue
from pymq.spark.planning.cluster import RemoteCluster
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import LATEST, Position
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.planning.remote import Remote
from pymq.spark.planning.topics import TopicChoice
from pymq.spark.session.failures import translated
from pymq.spark.sink.options import WriteOptions, known_names
from pymq.spark.sink.row_writer import RowWriter
from pymq.spark.sink.write_columns import COLUMNS, check_write_columns
from pymq.spark.source.sources_of_rows import open_reader
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.command import request

DOCS = Path(__file__).parents[3] / "docs" / "spark.md"
QUEUES = [MessageQueue("T", "broker-a", number) for number in range(4)]


ROOT = Path(__file__).parents[3]
KILLED_TASK = """
import os, sys
import pyarrow as pa
from pymq.client.sender import Sender
from pymq.spark.sink import message_rows
from pymq.spark.sink.row_writer import RowWriter
from pymq.spark.sink.options import WriteOptions
from tests.spark.killed_steps import kill_at

message_rows.BATCH_MESSAGES_MAX = 50
settings = WriteOptions({"namesrv": sys.argv[1], "topic": "sink-killed"}).settings()
for step in range(int(sys.argv[2]) + 1):
    child = os.fork()
    if not child:
        if step < int(sys.argv[2]):
            kill_at(step * 2, [(Sender, "attempt")])
        batch = pa.record_batch({"body": pa.array([b"%d" % number for number in range(1000)])})
        RowWriter(settings, "write", 0).write([batch])
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[StandaloneProcess]:
    with StandaloneProcess() as process:
        yield process


def stored(server: StandaloneProcess, topic: str, *columns: str, window: int = 0) -> list[tuple[Any, ...]]:
    """Return the columns of all messages, in order for each queue."""
    with RemoteCluster(server.namesrv) as view:
        ranges = make_plan(view, TopicChoice((topic,)), Position(), Position(symbol=LATEST)).ranges
    readers = [open_reader(part, ReadSettings(columns=columns, duplicate_window_rows=window)) for part in ranges]
    return [tuple(row.values()) for reader in readers for batch in reader.batches() for row in batch.to_pylist()]


def write(server: StandaloneProcess, rows: dict[str, Any], partition: int = 0, **options: str) -> RowWriter:
    """Write rows as a task does."""
    settings = WriteOptions({"namesrv": server.namesrv, **options}).settings()
    writer = RowWriter(settings, "write", partition)
    writer.write([pa.record_batch(rows)])
    return writer


def test_a_task_that_is_repeated_stores_equal_messages_in_equal_queues(server: StandaloneProcess) -> None:
    rows = {"body": pa.array([b"%d" % (number // 2) for number in range(500)])}
    write(server, rows, topic="sink-again")
    first = stored(server, "sink-again", "queueId", "msgId", "body")
    assert len({row[:2] for row in first}) == 500
    write(server, {"body": rows["body"][::-1]}, topic="sink-again")
    both = stored(server, "sink-again", "queueId", "msgId", "body")
    assert len(both) == 1000 and sorted(set(both)) == sorted(first)
    assert sorted(stored(server, "sink-again", "queueId", "msgId", "body", window=1000)) == sorted(first)
    dedup = installed_filters().find("dedup").compile("by UNIQ_KEY last 500000")
    messages = [
        FilterMessage(topic="sink-again", queue_offset=at, properties={"UNIQ_KEY": row[1]})
        for at, row in enumerate(both)
    ]
    assert [outcome is True for outcome in dedup.match(messages)].count(True) == 500


@pytest.mark.slow
def test_a_task_that_is_killed_and_repeated_leaves_nothing_out(server: StandaloneProcess) -> None:
    """It is killed before each of its first requests in turn, then runs to its end."""
    steps = 4
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", KILLED_TASK, server.namesrv, str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert [int(word) for word in done.stdout.split()] == [-signal.SIGKILL] * steps + [0]
    expected = [(b"%d" % number,) for number in range(1000)]
    assert set(stored(server, "sink-killed", "body")) == set(expected)
    assert len(stored(server, "sink-killed", "body")) > len(expected)
    assert sorted(stored(server, "sink-killed", "body", window=10_000)) == sorted(expected)


def test_rows_over_the_limit_fail_or_become_dead_letters(server: StandaloneProcess, tmp_path: Path) -> None:
    rows = {"body": pa.array([b"x", b"y" * 11, b"z"]), "tags": pa.array(["a", "b", "c"])}
    with pytest.raises(UsageError, match="row 1 of task 0: its body has 11 bytes, the limit is 10: shorten it"):
        write(server, rows, topic="sink-large", maxBodyBytes="10")
    for _ in range(2):
        writer = write(server, rows, topic="sink-large", maxBodyBytes="10", deadLetterPath=str(tmp_path / "dead"))
        assert writer.counts == {"sink-large": 2} and writer.dead_letters == 1
    (file,) = (tmp_path / "dead").iterdir()
    (row,) = pq.read_table(file).to_pylist()
    assert {row[0] for row in stored(server, "sink-large", "body")} == {b"x", b"z"}
    assert row == {"body": b"y" * 11, "tags": "b", "reason": "its body has 11 bytes, the limit is 10"}


def test_rows_without_a_body_fail_or_become_dead_letters(server: StandaloneProcess, tmp_path: Path) -> None:
    rows = {"body": pa.array(["x", None, ""]), "tags": pa.array(["a", "b", "c"])}
    with pytest.raises(UsageError, match="row 1 of task 0: its body is null: give at least one byte, or set deadLett"):
        write(server, rows, topic="sink-empty")
    assert write(server, rows, topic="sink-empty", deadLetterPath=str(tmp_path / "dead")).dead_letters == 2
    (file,) = (tmp_path / "dead").iterdir()
    assert stored(server, "sink-empty", "body") == [(b"x",)]
    assert pq.read_table(file).to_pylist() == [
        {"body": None, "tags": "b", "reason": "its body is null"},
        {"body": "", "tags": "c", "reason": "its body is empty: brokers refuse that"},
    ]


def test_a_limit_of_rows_a_second(server: StandaloneProcess) -> None:
    now_s, slept = 0.0, []

    def sleep(seconds: float) -> None:
        nonlocal now_s
        slept.append(seconds)
        now_s += seconds

    settings = WriteOptions(
        {"namesrv": server.namesrv, "topic": "sink-slow", "maxRowsPerSecondPerTask": "10"}
    ).settings()
    writer = RowWriter(settings, "write", 0, monotonic=lambda: now_s, sleep=sleep)
    writer.write([pa.record_batch({"body": pa.array([b"x"] * 25)})])
    assert now_s == pytest.approx(2.5) and len(slept) == 13


@pytest.mark.slow
@pytest.mark.spark
def test_a_frame_and_a_stream_become_messages(spark: Any, server: StandaloneProcess, tmp_path: Path) -> None:
    frame = spark.range(100).selectExpr(
        "concat('body ', id) AS value",
        "concat('key-', id % 7) AS key",
        "map('number', cast(id AS string)) AS properties",
    )
    frame.write.format("pymq").option("namesrv", server.namesrv).mode("append").save("sink-frame")
    found = stored(server, "sink-frame", "queueId", "keys", "property_number", "body")
    assert sorted(int(row[2]) for row in found) == list(range(100))
    for queue_id, key, number, body in found:
        assert body == f"body {number}".encode() and key == f"key-{int(number) % 7}"
        assert queue_of_key(QUEUES, key).queue_id == queue_id
    for bad, expected in (
        (lambda writer: writer.mode("overwrite").save("sink-frame"), r'write with mode\("append"\)'),
        (lambda writer: writer.mode("append").save(), "no topic is named"),
    ):
        with pytest.raises(UsageError, match=expected), translated():
            bad(frame.write.format("pymq").option("namesrv", server.namesrv))
    nulls = spark.range(3).selectExpr("nullif(cast(id AS string), '2') AS body").coalesce(1)
    with pytest.raises(UsageError, match="row 2 of task 0: its body is null"), translated():
        nulls.write.format("pymq").option("namesrv", server.namesrv).mode("append").save("sink-nulls")
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))
    source = spark.readStream.schema("value string, key string").parquet(str(tmp_path / "in"))
    sink = source.writeStream.format("pymq").options(namesrv=server.namesrv, topic="sink-stream")
    for checkpoint in ("one", "one", "two"):  # the second run has nothing left to write, the third is another query
        query = sink.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
    messages = stored(server, "sink-stream", "msgId", "body")
    assert (
        len(messages) == 200 and len({row[0] for row in messages}) == 200 and len({row[1] for row in messages}) == 100
    )


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ({"queueOffset": "bigint", "body": "string"}, 'df.drop("queueOffset")'),
        ({"body": "int"}, "column body is int: cast it to binary or string"),
        ({"tags": "string"}, "there is no column body (or value)"),
        ({"body": "string", "value": "string"}, "body and value exclude each other"),
        ({"body": "string", "key": "string", "keys": "string"}, "keys and key exclude each other"),
        ({"body": "string", "brokerName": "string"}, "says nothing without queueId"),
    ],
)
def test_columns_that_cannot_be_written(types: dict[str, str], expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_write_columns(types, topic="T", copies_properties=False)
    assert expected in str(caught.value)
    with pytest.raises(UsageError, match="drop tags"):
        check_write_columns(
            {"body": "string", "properties": "map<string,string>", "tags": "string"}, topic="T", copies_properties=True
        )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"kafka.bootstrap.servers": "h:1"}, "write namesrv"),
        ({"topics": "a"}, "write topic"),
        ({"kafka.acks": "all"}, "leave it out"),
        ({"topic": "a", "path": "b"}, "given twice"),
        ({"maxBodyBytes": "0"}, "write a whole number"),
        ({"copyProperties": "maybe"}, "write true or false"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        WriteOptions(options).settings()


def test_a_topic_that_takes_no_writes(server: StandaloneProcess) -> None:
    create = {
        "topic": "sink-closed", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "4",
        "topicFilterType": "SINGLE_TAG",
    }  # fmt: skip
    with Remote(server.broker) as remote:
        remote.ask_ok(request(17, create))
    with pytest.raises(NoQueueError, match="sink-closed"):
        write(server, {"body": pa.array([b"x"])}, topic="sink-closed")
    with pytest.raises(RefusedError, match="the system's own"):
        write(server, {"body": pa.array([b"x"]), "topic": pa.array(["SCHEDULE_TOPIC_XXXX"])})


def test_every_option_and_column_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8").partition("## Writing to topics")[2].partition("\n## ")[0]
    for head, known in (("| option |", known_names()), ("| Column |", {column.name for column in COLUMNS})):
        rows = [line.split("|")[1] for line in text.partition(head)[2].partition("\n\n")[0].splitlines() if "|" in line]
        assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == known
