"""Exports from a small cluster: exactly once, resumed and counted; refusals are one sentence."""

from __future__ import annotations

import csv
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from pymq.errors import FilterStopError, NotFoundError, PymqError, UnreachableError, UsageError
from pymq.model.compression import compress_body
from pymq.model.record import decode_record
from pymq.spark.export.arrow_writer import WriteJob, finished_results, read_settings, run_as_source, run_as_tasks
from pymq.spark.export.export import ExportOptions, run
from pymq.spark.export.job_runners import OnSpark
from pymq.spark.lake.parquet_parts import Layout
from pymq.spark.planning.ranges import DataLossError, ReadSettings, ResumeError
from pymq.spark.session.failures import WorkerLostError
from pymq.spark.session.job_progress import NoProgress
from tests.interop.support.probe import wait_until
from tests.spark.fake_cluster import FakeCluster
from tests.spark.kills.victims import below, is_daemon, kill
from tests.spark.record_bytes import BORN_MS, record

pytestmark = pytest.mark.spark


class Recorder(NoProgress):
    def __init__(self) -> None:
        self.phases: list[str] = []
        self.last = (0, 0)
        self.was_kept = 0

    def phase(self, text: str) -> None:
        self.phases.append(text)

    def rows(self, done: int, planned: int) -> None:
        assert done <= planned
        self.last = (done, planned)

    def kept(self, rows: int, output: str) -> None:
        self.was_kept = rows


def options(cluster: FakeCluster, output: Path | None, **fields: Any) -> ExportOptions:
    return ExportOptions(namesrv=cluster.address, output=output, master="local[2]", **fields)


def table(output: Path) -> Any:
    return pyarrow.dataset.dataset(output, partitioning="hive").to_table()


def seen(output: Path) -> list[tuple]:
    rows = table(output).select(["topic", "queueId", "queueOffset"]).to_pylist()
    return sorted((row["topic"], row["queueId"], row["queueOffset"]) for row in rows)


def everything(**counts: Any) -> list[tuple]:
    queues = [(topic, queue_id, size) for topic, sizes in counts.items() for queue_id, size in enumerate(sizes)]
    return sorted((topic, queue_id, n) for topic, queue_id, size in queues for n in range(size))


def fill(cluster: FakeCluster, topic: str, *sizes: int) -> None:
    for queue_id, size in enumerate(sizes):
        start = len(cluster.queues[topic, queue_id])
        offsets = range(start, start + size)
        cluster.add(topic, queue_id, [record(n, b'{"n":%d}' % n, topic=topic, queue_id=queue_id) for n in offsets])


def test_a_second_parquet_export_holds_only_new_messages(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    fill(cluster, "orders", 700, 300)
    fill(cluster, "other", 50)
    recorder = Recorder()
    first = run(options(cluster, tmp_path / "out", rows_per_task=200, rows_per_round=500), recorder)
    assert seen(tmp_path / "out") == everything(orders=[700, 300], other=[50])
    assert (first.rows, first.planned_rows, first.lost, first.resumed) == (1050, 1050, 0, False)
    assert first.tasks == 7 and first.files == 7 and first.bytes_written > 0
    assert first.counts_by_topic == {"orders": 1000, "other": 50}
    assert recorder.phases == ["planning", "starting Spark", "exporting"] and recorder.last == (1050, 1050)

    nothing = run(options(cluster, tmp_path / "out"))
    assert (nothing.rows, nothing.tasks, nothing.resumed) == (0, 0, True)

    fill(cluster, "orders", 5, 10)
    fill(cluster, "new", 3)
    second = run(options(cluster, tmp_path / "out"))
    assert second.rows == 18 and second.resumed
    assert seen(tmp_path / "out") == everything(orders=[705, 310], other=[50], new=[3])
    frame = spark.read.parquet(str(tmp_path / "out"))
    assert frame.count() == 1068 and frame.where("tags = 'A' and topic = 'new'").count() == 1
    assert json.loads(json.dumps(second.to_dict()))["queues"][0]["rows"] == 3


class Visitor(Recorder):
    """Adds messages, a queue and a topic while an export follows, and then interrupts it."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__()
        self._cluster = cluster
        self.batches: list[int] = []
        self.most_behind: dict[str, int] = {}

    def batch(self, rows: int, seconds: float) -> None:
        assert seconds > 0
        self.batches.append(rows)

    def topics(self, behind: Mapping[str, int], rows: Mapping[str, int]) -> None:
        self.behind, self.written = dict(behind), dict(rows)
        for topic, count in behind.items():
            self.most_behind[topic] = max(count, self.most_behind.get(topic, 0))

    def phase(self, text: str) -> None:
        super().phase(text)
        waits = self.phases.count("waiting for messages")
        if text != "waiting for messages":
            return
        if waits == 1:
            fill(self._cluster, "T", 5, 7)
        elif waits == 2:
            fill(self._cluster, "new", 3)
        else:
            raise KeyboardInterrupt


class Follower(Recorder):
    """Notes what is tried again, and ends an export that follows when it waits for messages with this many rows."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self._rows = rows
        self.reasons: list[str] = []

    def trying_again(self, why: str) -> None:
        self.reasons.append(why)

    def phase(self, text: str) -> None:
        super().phase(text)
        if text == "waiting for messages" and self.last[0] >= self._rows:
            raise KeyboardInterrupt


def test_a_follower_goes_on_when_a_python_process_is_killed(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    fill(cluster, "T", 100, 100)
    killed: list[int] = []

    def select(raw: bytes, expression: str) -> bool:
        if int.from_bytes(raw[12:16], "big") == 1 and not killed:  # the second queue's task runs now
            jvms = below([os.getpid()], "java")
            killed.extend(pid for pid in below(jvms, "python") if not is_daemon(pid))
            for pid in killed:
                kill(pid)
        return True

    cluster.select = select
    fields: dict[str, Any] = {"follow": True, "follow_every_s": 0.01, "rows_per_task": 100}
    recorder = Follower(200)
    summary = run(options(cluster, tmp_path / "out", **fields), recorder)
    assert killed and len(recorder.reasons) == 1 and "Python worker" in recorder.reasons[0]
    assert (summary.rows, summary.planned_rows, recorder.was_kept) == (200, 200, 0)
    assert seen(tmp_path / "out") == everything(T=[100, 100])


def test_a_follower_that_loses_each_process_gives_up(
    spark: Any, cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, "T", 10)
    tries: list[int] = []

    def lose(*_: object) -> None:
        tries.append(1)
        raise WorkerLostError("a Spark task failed: Python worker exited unexpectedly (crashed)")

    monkeypatch.setattr(OnSpark, "run", lose)
    recorder = Follower(10)
    with pytest.raises(WorkerLostError):
        run(options(cluster, tmp_path / "out", follow=True, follow_every_s=0.1, retry_budget_s=0.3), recorder)
    assert len(tries) > 2 and len(recorder.reasons) == 1


@pytest.mark.parametrize("body", ["bytes", "json"])
def test_a_follower_waits_for_a_cluster_that_is_away_when_it_begins(
    spark: Any, cluster: FakeCluster, tmp_path: Path, body: str
) -> None:
    fill(cluster, "T", 10)
    cluster.is_registered = False
    asked = Follower(10)

    class Returns(Follower):
        def trying_again(self, why: str) -> None:
            super().trying_again(why)
            cluster.is_registered = True

    recorder = Returns(10)
    fields: dict[str, Any] = {"topics": ("T",), "follow_every_s": 0.01, "body": body}
    summary = run(options(cluster, tmp_path / "out", follow=True, **fields), recorder)
    assert summary.rows == 10 and len(recorder.reasons) == 1 and "T" in recorder.reasons[0]
    cluster.is_registered = False
    with pytest.raises(NotFoundError):  # without --follow it ends at once
        run(options(cluster, tmp_path / "other", **fields), asked)
    with pytest.raises(NotFoundError):
        run(options(cluster, tmp_path / "third", follow=True, retry_budget_s=0.1, **fields), asked)
    assert len(asked.reasons) == 1
    stop = threading.Event()
    stop.set()
    assert run(options(cluster, tmp_path / "third", follow=True, **fields), asked, stop=stop).rows == 0


def test_an_export_follows_until_it_is_interrupted(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    fill(cluster, "T", 10)
    fields: dict[str, Any] = {"follow": True, "follow_every_s": 0.01}
    visitor = Visitor(cluster)
    summary = run(options(cluster, tmp_path / "out", **fields), visitor)
    assert (summary.rows, summary.planned_rows, summary.counts_by_topic) == (25, 25, {"T": 22, "new": 3})
    assert [(queue.from_offset, queue.to_offset, queue.rows) for queue in summary.queues] == [
        (0, 15, 15),
        (0, 7, 7),
        (0, 3, 3),
    ]
    assert seen(tmp_path / "out") == everything(T=[15, 7], new=[3])
    assert visitor.batches == [10, 12, 3]
    assert (visitor.most_behind, visitor.behind) == ({"T": 12, "new": 3}, {"T": 0, "new": 0})
    assert visitor.written == summary.counts_by_topic
    for wrong in ({"end": "-1h"}, {"max_rows": 5}, {"format": "json"}):
        with pytest.raises(UsageError, match="following writes Parquet or a table without an end"):
            run(options(cluster, tmp_path / "wrong", **fields, **wrong))
    with pytest.raises(UsageError, match="write more than 0 seconds"):
        run(options(cluster, tmp_path / "wrong", follow=True, follow_every_s=0))


def test_plain_tasks_and_the_source_write_the_same(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    """Sessions of Spark Connect have no plain tasks."""
    fill(cluster, "T", 50, 20)
    found = []
    for work in (run_as_tasks, run_as_source):
        staging = tmp_path / work.__name__
        staging.mkdir()
        job = WriteJob(
            ranges=(cluster.range("T", 0, 0, 30), cluster.range("T", 0, 30, 50), cluster.range("T", 1)),
            read=read_settings(ReadSettings(), ()),
            layout=Layout(str(tmp_path), (), ("topic",)),
            staging=str(staging),
            compression="zstd",
        )
        results = work(spark, job)
        assert finished_results(job) == results
        for file in [file for result in results for file in result["files"]]:
            assert (tmp_path / file.pop("staged")).stat().st_size == file["bytes"]
        found.append(results)
    assert found[0] == found[1] and [result["rows"] for result in found[0]] == [30, 20, 20]


def test_the_rows_hold_the_messages(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    body, bits = compress_body(b"large " * 1000, "zstd")
    cluster.add("T", 0, [record(0, b"\xff\x00"), record(1, body, sys_flag=bits)])
    run(options(cluster, tmp_path / "out", partition_by=("topic",)))
    first, second = table(tmp_path / "out").to_pylist()
    assert first["body"] == b"\xff\x00" and second["body"] == b"large " * 1000
    assert dict(first["properties"]) == {"TAGS": "B", "KEYS": "k0", "UNIQ_KEY": "U00000000"}
    assert (first["msgId"], first["tags"], first["keys"]) == ("U00000000", "B", "k0")
    assert first["bornHost"] == "10.1.2.3:50505" and first["topic"] == "T"
    assert second["storeTimestamp"].timestamp() * 1000 == BORN_MS + 2


def test_columns_tag_and_row_limit(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    fill(cluster, "T", 400)
    cluster.select = lambda raw, expression: expression != "A" or bool(int.from_bytes(raw[20:28], "big") % 2)
    fields = {"columns": ("queueOffset", "keys"), "tag": "A", "max_rows": 100, "partition_by": ()}
    summary = run(options(cluster, tmp_path / "out", **fields))
    rows = table(tmp_path / "out").to_pylist()
    assert rows == [{"queueOffset": n, "keys": f"k{n}"} for n in range(1, 100, 2)]
    assert summary.rows == 50 and summary.planned_rows == 100 and summary.lost == 0


def test_a_second_sql_export_continues_after_no_match(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.select = lambda raw, expression: expression == "*" or decode_record(raw).keys in ("k7", "k250")
    fill(cluster, "T", 200)
    chosen = {"sql": "KEYS IN ('k7', 'k250')", "partition_by": ()}
    first = run(options(cluster, tmp_path / "out", rows_per_task=50, **chosen))
    assert (first.rows, first.planned_rows, first.lost) == (1, 200, 0)
    fill(cluster, "T", 40)
    cluster.pulls.clear()
    nothing = run(options(cluster, tmp_path / "out", **chosen))
    assert (nothing.rows, nothing.planned_rows, nothing.lost, nothing.resumed) == (0, 40, 0, True)
    fill(cluster, "T", 20)
    last = run(options(cluster, tmp_path / "out", **chosen))
    assert (last.rows, last.planned_rows) == (1, 20)
    assert min(int(pull["queueOffset"]) for pull in cluster.pulls if pull["subscription"] != "*") == 200
    assert table(tmp_path / "out").column("keys").to_pylist() == ["k7", "k250"]
    with pytest.raises(ResumeError, match="sql was"):
        run(options(cluster, tmp_path / "out", partition_by=()))


@pytest.mark.slow
@pytest.mark.parametrize("writer", ["arrow", "spark"])
def test_a_filter_runs_in_the_tasks(spark: Any, cluster: FakeCluster, tmp_path: Path, writer: Any) -> None:
    cluster.add("T", 0, [record(n, b'{"n":%d}' % n if n != 5 else b"{") for n in range(100)])
    chosen = {"filter": "jsonpath", "filter_expression": "$[?@ >= 90]", "partition_by": ()}
    summary = run(options(cluster, tmp_path / "out", writer=writer, **chosen))
    assert table(tmp_path / "out").column("queueOffset").to_pylist() == list(range(90, 100))
    assert (summary.rows, summary.lost, summary.filter_errors) == (10, 0, 1 if writer == "arrow" else 0)
    with pytest.raises(FilterStopError, match="T broker-a/0@5"):
        run(options(cluster, tmp_path / "stopped", writer=writer, filter_on_error="stop", **chosen))


def test_wrong_expressions_are_refused_before_the_export_starts(cluster: FakeCluster, tmp_path: Path) -> None:
    fill(cluster, "T", 10)
    for chosen, text in (
        ({"sql": "a >"}, "column 4"),
        ({"filter": "nope", "filter_expression": "x"}, "no filter 'nope'"),
        ({"filter": "f", "filter_expression": "x", "filter_via": "filter-server"}, "pymq filter-server --broker"),
    ):
        with pytest.raises(PymqError, match=text):
            run(options(cluster, tmp_path / "out", **chosen))
    assert cluster.pulls == []


@pytest.mark.slow
def test_losses_fail_in_one_sentence_or_are_reported(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    fill(cluster, "T", 100)
    run(options(cluster, tmp_path / "out", max_rows=10))
    cluster.min_offsets["T", 0] = 40
    with pytest.raises(DataLossError, match=r"no longer has 30 messages of \[10, 40\)"):
        run(options(cluster, tmp_path / "out"))
    assert len(seen(tmp_path / "out")) == 10
    summary = run(options(cluster, tmp_path / "out", on_data_loss="report"))
    assert summary.lost == 30 and summary.queues[0].lost == 30 and summary.rows == 60
    assert [n for _, _, n in seen(tmp_path / "out")] == [*range(10), *range(40, 100)]


def test_what_is_finished_when_a_round_fails_is_committed(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    fill(cluster, "T", 100, 40)
    good, cluster.queues["T", 0][70] = cluster.queues["T", 0][70], b"broken"
    recorder = Recorder()

    def finished() -> int:
        return len(list((tmp_path / "out" / "_pymq" / "staging").glob("*/*.json")))

    def select(raw: bytes, expression: str) -> bool:
        """Hold the broken record back until two tasks have finished."""
        if raw == b"broken":
            wait_until("two finished tasks", lambda: finished() >= 2)
        return True

    cluster.select = select
    with pytest.raises(PymqError):
        run(options(cluster, tmp_path / "out", rows_per_task=20), recorder)
    committed = len(seen(tmp_path / "out"))
    assert recorder.was_kept == committed >= 20
    cluster.queues["T", 0][70] = good
    assert run(options(cluster, tmp_path / "out")).rows == 140 - committed
    assert seen(tmp_path / "out") == everything(T=[100, 40])


def test_a_topic_that_was_made_again_is_noticed(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    """Also when it has more messages than were exported: the record before the export's position is another one."""
    fill(cluster, "T", 100)
    run(options(cluster, tmp_path / "out"))
    before = cluster.queues["T", 0][:]
    cluster.queues["T", 0] = [record(n, b"another", topic="T") for n in range(300)]
    for dry_run in (False, True):
        with pytest.raises(ResumeError, match=r"T broker-a/0: it holds another message at offset 99 than was read"):
            run(options(cluster, tmp_path / "out", dry_run=dry_run))
    assert seen(tmp_path / "out") == everything(T=[100])
    # A record that retention deleted says nothing about the topic.
    cluster.min_offsets["T", 0] = 100
    assert run(options(cluster, tmp_path / "out")).rows == 200
    cluster.min_offsets["T", 0] = 0
    cluster.queues["T", 0] = before
    with pytest.raises(ResumeError, match="it was read up to 300 and ends at 100"):
        run(options(cluster, tmp_path / "out"))


def test_an_export_waits_for_a_slave_that_is_behind(cluster: FakeCluster, tmp_path: Path) -> None:
    """Its master is killed, and it lacks what an earlier run has: no topic was made again."""
    fill(cluster, "T", 40)
    out = tmp_path / "out"
    run(options(cluster, out))
    with FakeCluster() as slave:
        fill(slave, "T", 10)
        slave.brokers = {"0": "127.0.0.1:1", "1": slave.address}
        seen = Recorder()

        def catches_up(why: str) -> None:
            fill(slave, "T", 35)

        seen.trying_again = catches_up  # type: ignore[method-assign]
        assert run(options(slave, out, follow_every_s=0.01), seen).rows == 5
        slave.queues["T", 0] = slave.queues["T", 0][:10]
        with pytest.raises(UnreachableError, match="its master does not answer, and a slave ends at 10, before 45"):
            run(options(slave, out, follow_every_s=0.01, retry_budget_s=0.05))


@pytest.mark.parametrize("is_pymq", [False, True], ids=["rocketmq", "pymq"])
def test_topics_made_again_are_generations(
    cluster: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_pymq: bool
) -> None:
    """One topic that was made again stops an export of all, until it is left out or accepted as a loss."""
    cluster.deleted_below = {} if is_pymq else None
    fill(cluster, "T", 100, 7)
    fill(cluster, "U", 10)
    out = tmp_path / "out"
    run(options(cluster, out, topics=()))
    fill(cluster, "U", 5)
    cluster.make_again("T", [record(n, b"second", topic="T") for n in range(40)], [record(0, topic="T", queue_id=1)])
    for names in ((), ("*",), ("T", "U")):
        with pytest.raises(ResumeError, match=r"--on-data-loss report .* or without the topic \(--topic '!T'\)"):
            run(options(cluster, out, topics=names))
    assert run(options(cluster, out, topics=("!T",))).rows == 5
    accepting = options(cluster, out, topics=(), on_data_loss="report")
    assert run(accepting).rows == 41
    assert "T broker-a/0" in caplog.text and "the topic was made again" in caplog.text
    cluster.add("T", 0, [record(n, b"second", topic="T") for n in range(40, 50)])
    assert run(options(cluster, out, topics=())).rows == 10
    cluster.make_again("T", [record(n, b"third", topic="T") for n in range(3)])
    assert run(accepting).rows == 3 and run(accepting).rows == 0
    found = {folder.name: pq.read_table(folder, partitioning=None).num_rows for folder in out.glob("topic=*")}
    assert found == {"topic=T": 107, "topic=T%7E2": 51, "topic=T%7E3": 3, "topic=U": 15}


@pytest.mark.slow
def test_json_lines(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    fill(cluster, "T", 20, 10)
    summary = run(options(cluster, tmp_path / "out", format="json"))
    assert summary.writer == "spark" and summary.rows == 30 and summary.files > 0
    assert [queue.rows for queue in summary.queues] == [20, 10]
    lines = [line for path in (tmp_path / "out").rglob("*.json") for line in path.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    expected = [(queue_id, n) for _, queue_id, n in everything(T=[20, 10])]
    assert sorted((row["queueId"], row["queueOffset"]) for row in rows) == expected
    assert all(json.loads(row["body"]) == {"n": row["queueOffset"]} for row in rows)
    assert rows[0]["properties"]["KEYS"] == rows[0]["keys"]
    with pytest.raises(UsageError, match="needs a new directory"):
        run(options(cluster, tmp_path / "out", format="json"))


ODD_TEXTS = [
    'say "hi",\nthen go', "", " a ", "\tx\t", "\0", "\x01a\x01", "a\r\nb", "\r", "\n", '"', '""', "\\", '\\"', ",",
    "#c", " ", "\u2028x", "\0a\0", "a\nb\r", "null", "\ufeffx",
]  # fmt: skip


@pytest.mark.parametrize("text_format", ["csv", "json"])
def test_texts_come_back_as_they_were(spark: Any, cluster: FakeCluster, tmp_path: Path, text_format: str) -> None:
    cluster.add("T", 0, [record(n, text.encode()) for n, text in enumerate(ODD_TEXTS)])
    run(options(cluster, tmp_path / "out", format=text_format, partition_by=("topic", "hour")))
    (path,) = (tmp_path / "out" / "topic=T" / "hour=00").glob(f"*.{text_format}")
    with path.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream)) if text_format == "csv" else [json.loads(line) for line in stream]
    assert [row["body"] for row in rows] == ODD_TEXTS
    if text_format == "csv":
        assert json.loads(rows[0]["properties"])["UNIQ_KEY"] == "U00000000"


def test_a_body_that_is_no_text_is_refused_or_replaced(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.add("T", 0, [record(0, b"good"), record(1, b"a\xff")])
    with pytest.raises(UsageError, match=r"the body of T/broker-a/0@1 is not UTF-8 \(invalid start byte at byte 1\)"):
        run(options(cluster, tmp_path / "refused", format="json"))
    run(options(cluster, tmp_path / "out", format="json", body_errors="replace", partition_by=()))
    (path,) = (tmp_path / "out").glob("*.json")
    assert [json.loads(line)["body"] for line in path.read_text().splitlines()] == ["good", "a\ufffd"]


def test_a_dry_run_plans_and_writes_nothing(cluster: FakeCluster, tmp_path: Path) -> None:
    fill(cluster, "T", 90)
    cluster.committed["g", "T", 0] = 30
    summary = run(options(cluster, None, dry_run=True, start="group:g", rows_per_task=25))
    assert summary.dry_run and summary.rows == 0 and summary.planned_rows == 60 and summary.tasks == 3
    assert summary.counts_by_topic == {"T": 60}
    assert run(options(cluster, tmp_path / "out", dry_run=True)).planned_rows == 90
    assert list(tmp_path.iterdir()) == []


def test_bodies_of_json_become_fields(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fields: dict[str, Any] = {"columns": ("queueOffset", "body"), "partition_by": (), "body": "json"}
    fill(cluster, "T", 3)
    run(options(cluster, out, **fields))
    cluster.add("T", 0, [record(3, b'{"n":7,"more":1}')])
    run(options(cluster, out, **fields))
    rows = table(out).sort_by("queueOffset").to_pylist()
    assert [row["body"] for row in rows] == [{"n": 0}, {"n": 1}, {"n": 2}, {"n": 7}]
    assert spark.read.parquet(str(out)).where("body.n = 7").count() == 1
    with pytest.raises(ResumeError, match="body was 'json:n bigint', is 'json:n double'"):
        run(options(cluster, out, body_schema="n double", **fields))
    cluster.add("T", 0, [record(4, b"text")])
    with pytest.raises(UsageError, match="the body of T/broker-a/0@4 doesn't fit the schema"):
        run(options(cluster, out, **fields))
    assert run(options(cluster, out, body_errors="replace", **fields)).rows == 1


def test_invalid_options_are_refused(cluster: FakeCluster, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="'nope'"):
        run(options(cluster, tmp_path / "out", topics=("nope",)))
    for fields, text in (
        ({"format": "xml"}, "format 'xml' is unknown"),
        ({"format": "csv", "writer": "arrow"}, "writes Parquet and tables only"),
        ({"compression": "brotli"}, "compression 'brotli' is unknown"),
        ({"compression": "zstd:23"}, "level '23' is unknown: zstd takes 1 to 22"),
        ({"compression": "zstd:"}, "level '' is unknown"),
        ({"compression": "snappy:1"}, "which snappy doesn't take"),
        ({"compression": "zstd:1", "writer": "spark"}, "only the arrow writer takes"),
        ({"columns": ("x",)}, "no column 'x'"),
        ({"partition_by": ("week",)}, "partition column 'week'"),
        ({"partition_by": ("dt", "dt")}, "duplicate"),
        ({"start": "someday"}, "not a point in time"),
        ({"tag": "||"}, "names no tag"),
    ):
        with pytest.raises(UsageError, match=text):
            run(options(cluster, tmp_path / "out", **fields))
    with pytest.raises(UsageError, match="no output directory"):
        run(options(cluster, None))
