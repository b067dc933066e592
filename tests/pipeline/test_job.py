"""Pipelines on Spark and a real broker: topic to windows to topic, a join with files, restarts, and refusals."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pymq.client import Message
from pymq.client.sync import Producer
from pymq.errors import UnsafeError, UsageError
from pymq.pipeline import job
from pymq.pipeline.job import Job
from pymq.pipeline.load import PipelineFile, PipelineFileError
from pymq.pipeline.report import Batch
from pymq.spark.session.failures import WorkerLostError
from pymq.testing.standalone import StandaloneProcess
from tests.spark.fake_cluster import FakeCluster
from tests.spark.kills.victims import below, is_daemon, kill
from tests.spark.record_bytes import record
from tests.spark.sink.test_sink import stored

EXAMPLE = Path(__file__).resolve().parents[2] / "conf" / "pipelines" / "sessions.toml"
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server() -> Iterator[StandaloneProcess]:
    with StandaloneProcess() as process:
        yield process


def send(server: StandaloneProcess, topic: str, bodies: list[str]) -> None:
    with Producer("pipelines", namesrv=server.namesrv) as producer:
        for body in bodies:
            producer.send(Message(topic, body.encode()))


def event(user: str, minute: int) -> str:
    return json.dumps({"user": user, "at": f"2026-01-31T{12 + minute // 60}:{minute % 60:02d}:00Z"})


def run(file: PipelineFile, spark: Any, server: StandaloneProcess, checkpoint: Path) -> list[Batch]:
    batches: list[Batch] = []
    changed = {"namesrv": server.namesrv, "trigger": "available-now", "checkpoint": str(checkpoint)}
    Job(file.changed(changed), spark).run(batches.append)
    return batches


@pytest.mark.slow
def test_sessions_of_the_example_are_counted_once_over_restarts(
    spark: Any, server: StandaloneProcess, tmp_path: Path
) -> None:
    file = PipelineFile(EXAMPLE, EXAMPLE.read_text(encoding="utf-8"))
    send(server, "Events", [event("ann", 0), event("ann", 20), event("bob", 5), "no JSON"])
    batches = run(file, spark, server, tmp_path)
    assert sum(batch.input_rows for batch in batches) == 4 and batches[-1].behind_rows == 0
    send(server, "Events", [event("ann", 45), event("ann", 120), event("cid", 300)])
    run(file, spark, server, tmp_path)
    run(file, spark, server, tmp_path)
    found = [(keys, json.loads(body)) for keys, body in stored(server, "Sessions", "keys", "body")]
    assert sorted((keys, session["user"], session["events"]) for keys, session in found) == [
        ("ann", "ann", 1),
        ("ann", "ann", 3),
        ("bob", "bob", 1),
    ]
    other = PipelineFile(EXAMPLE, EXAMPLE.read_text(encoding="utf-8").replace('name = "sessions"', 'name = "o"', 1))
    with pytest.raises(UnsafeError, match="is of the pipeline sessions, not of o"):
        run(other, spark, server, tmp_path)


COUNTS = """\
name = "counts"
checkpoint = "cp"
[[source]]
name = "words"
topic = "pipeline-words"
body = "text"
[[step]]
name = "counts"
sql = "SELECT body AS word, count(*) AS count FROM words GROUP BY body"
[[sink]]
from = "counts"
topic = "pipeline-counts"
mode = "update"
key = "word"
"""


@pytest.mark.slow
def test_a_sink_of_updates_writes_a_group_again_when_it_changes(
    spark: Any, server: StandaloneProcess, tmp_path: Path
) -> None:
    file = PipelineFile(Path("counts.toml"), COUNTS)
    send(server, "pipeline-words", ["ann", "bob", "ann"])
    assert [batch.sink for batch in run(file, spark, server, tmp_path)] == ["counts"]
    send(server, "pipeline-words", ["ann"])
    run(file, spark, server, tmp_path)
    run(file, spark, server, tmp_path)  # nothing is left to write
    found = [(keys, json.loads(body)) for keys, body in stored(server, "pipeline-counts", "keys", "body")]
    assert sorted((keys, row["word"], row["count"]) for keys, row in found) == [
        ("ann", "ann", 2),
        ("ann", "ann", 3),
        ("bob", "bob", 1),
    ]
    wrong = PipelineFile(Path("counts.toml"), COUNTS + "options = { maxBodyBytes = 5 }\n")
    send(server, "pipeline-words", ["a long word"])
    with pytest.raises(UsageError, match="its body has 32 bytes, the limit is 5: shorten it"):
        run(wrong, spark, server, tmp_path)


KILLED = """\
name = "killed"
checkpoint = "CP"
trigger = "available-now"
[[source]]
name = "sold"
topic = "sold"
body = "text"
[[source]]
name = "prices"
path = "PRICES"
format = "json"
fields = "item string"
[[sink]]
from = "prices"
path = "COPY"
[[sink]]
from = "sold"
path = "OUT"
"""


@pytest.fixture
def killed(tmp_path: Path) -> PipelineFile:
    """A pipeline of a stream and of a fixed table, in the test's directory."""
    (tmp_path / "prices.json").write_text('{"item": "tea"}\n', "utf-8")
    text = KILLED
    for word, name in (("PRICES", "prices.json"), ("OUT", "out"), ("COPY", "copy"), ("CP", "cp")):
        text = text.replace(word, str(tmp_path / name))
    return PipelineFile(Path("killed.toml"), text)


@pytest.mark.slow
def test_a_pipeline_goes_on_when_a_python_process_is_killed(spark: Any, killed: PipelineFile, tmp_path: Path) -> None:
    victims: list[int] = []

    def select(raw: bytes, expression: str) -> bool:
        if not victims:  # a task reads now
            jvms = below([os.getpid()], "java")
            victims.extend(pid for pid in below(jvms, "python") if not is_daemon(pid))
            for pid in victims:
                kill(pid)
        return True

    reasons: list[str] = []
    with FakeCluster() as cluster:
        cluster.add("sold", 0, [record(n, topic="sold") for n in range(100)])
        cluster.select = select
        Job(killed.changed({"namesrv": cluster.address}), spark).run(lambda _: None, reasons.append)
    assert victims and len(reasons) == 1 and "Python worker" in reasons[0]
    assert spark.read.parquet(str(tmp_path / "out")).count() == 100
    assert spark.read.parquet(str(tmp_path / "copy")).count() == 1  # a fixed table is written once


def test_a_pipeline_that_loses_each_process_gives_up(
    spark: Any, killed: PipelineFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons: list[str] = []
    tries: list[int] = []

    def lose(*_: object) -> None:
        tries.append(1)
        raise WorkerLostError("a Spark task failed: Python worker exited unexpectedly (crashed)")

    monkeypatch.setattr(Job, "_run_once", lose)
    monkeypatch.setattr(job, "RESTART_PAUSE_S", 0.01)
    monkeypatch.setattr(job, "RETRY_BUDGET_S", 0.1)
    with FakeCluster() as cluster:
        cluster.add("sold", 0, [])
        with pytest.raises(WorkerLostError):
            Job(killed.changed({"namesrv": cluster.address}), spark).run(lambda _: None, reasons.append)
    assert len(tries) > 2 and len(reasons) == 1


JOIN = """\
name = "join"
checkpoint = "cp"
master = "local[2]"
trigger = "available-now"
[[source]]
name = "sold"
topic = "pipeline-sold"
body = "text"
[[source]]
name = "prices"
path = "PRICES"
format = "json"
fields = "item string, price double"
[[step]]
name = "bills"
sql = "SELECT body AS item, price FROM sold JOIN prices ON body = item"
[[sink]]
from = "bills"
path = "OUT"
format = "json"
[[sink]]
from = "prices"
path = "COPY"
"""


@pytest.mark.slow
def test_topics_join_files_into_files(spark: Any, server: StandaloneProcess, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text('{"item": "tea", "price": 2.5}\n{"item": "jam", "price": 4}\n', "utf-8")
    send(server, "pipeline-sold", ["tea", "jam", "tea", "ink"])
    text = JOIN
    for word, name in (("PRICES", "prices.json"), ("OUT", "out"), ("COPY", "copy")):
        text = text.replace(word, str(tmp_path / name))
    run(PipelineFile(Path("join.toml"), text), spark, server, tmp_path / "cp")
    rows = spark.read.json(str(tmp_path / "out")).collect()
    assert sorted((row["item"], row["price"]) for row in rows) == [("jam", 4.0), ("tea", 2.5), ("tea", 2.5)]
    assert spark.read.parquet(str(tmp_path / "copy")).count() == 2


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("SELECT body AS item", "SELECT bdy AS item", r"join.toml:16: .*bdy.*cannot be resolved.*`body`"),
        ("FROM sold", "FORM sold", r"join.toml:16: Syntax error at or near 'sold'"),
        ("FROM sold", "FROM sald", r"join.toml:16: The table or view `sald` cannot be found"),
        ("price double", "price dabble", r"join.toml:13: Unsupported data type \"DABBLE\""),
        ('"available-now"', '"5 seconds"', r"join.toml:22: prices reads no stream, so it ends: write trigger"),
        ('body = "text"', 'options = {colums = "body"}', r"join.toml:6: .*colums.*did you mean columns\?"),
    ],
)
def test_what_spark_refuses_is_named_with_its_line(
    spark: Any, server: StandaloneProcess, tmp_path: Path, old: str, new: str, reason: str
) -> None:
    (tmp_path / "prices.json").write_text('{"item": "tea", "price": 2.5}\n', "utf-8")
    assert old in JOIN
    text = JOIN.replace("PRICES", str(tmp_path / "prices.json")).replace(old, new)
    file = PipelineFile(Path("join.toml"), text).changed({"namesrv": server.namesrv})
    with pytest.raises(PipelineFileError, match=reason):
        Job(file, spark)
