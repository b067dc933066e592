"""Exports so small that they need no Spark: when that is so, and that they write what Spark's tasks write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pymq.model.record import MalformedRecordError
from pymq.spark.export import export, job_runners
from pymq.spark.export.options import ExportOptions, ExportSummary
from pymq.spark.planning.planner import Plan
from pymq.spark.planning.ranges import QueueRange, ReadSettings
from pymq.spark.session.failures import TaskFailedError
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record

BODY = b"x" * 100
ROWS = 50


@pytest.fixture
def filled(cluster: FakeCluster) -> FakeCluster:
    for queue_id in range(2):
        cluster.add("T", queue_id, [record(n, BODY, queue_id=queue_id) for n in range(ROWS)])
    return cluster


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it look as if no other test had a session."""
    monkeypatch.setattr(job_runners, "_has_session", lambda: False)


def options(cluster: FakeCluster, output: Path | None = None, **fields: Any) -> ExportOptions:
    return ExportOptions(namesrv=cluster.address, output=output, **fields)


def plan(cluster: FakeCluster, rows: int = ROWS) -> Plan:
    return Plan([QueueRange("T", "broker-a", 0, 0, rows, (cluster.address,))])


def is_here(cluster: FakeCluster, rows: int = ROWS, **fields: Any) -> bool:
    return job_runners.needs_no_spark(options(cluster, **fields), plan(cluster, rows), ReadSettings())


@pytest.mark.usefixtures("alone")
def test_small_plans_need_no_spark(filled: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_here(filled)
    assert is_here(filled, job_runners.ROWS_HERE_MAX) and not is_here(filled, job_runners.ROWS_HERE_MAX + 1)
    sampled_bytes = sum(map(len, filled.queues["T", 0][: job_runners.SAMPLED_ROWS]))
    monkeypatch.setattr(job_runners, "BYTES_HERE_MAX", 10 * sampled_bytes)
    assert is_here(filled, 10 * job_runners.SAMPLED_ROWS) and not is_here(filled, 10 * job_runners.SAMPLED_ROWS + 1)


@pytest.mark.usefixtures("alone")
def test_what_spark_is_for(filled: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_here(filled, follow=True)
    assert not is_here(filled, master="local[2]")
    assert not is_here(filled, driver_memory="2g")
    assert not is_here(filled, conf={"spark.ui.enabled": "true"})
    monkeypatch.setattr(job_runners, "_has_session", lambda: True)
    assert not is_here(filled)


@pytest.mark.usefixtures("alone")
def test_a_sample_that_can_not_be_read_says_nothing(filled: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runners, "BYTES_HERE_MAX", 1)
    assert not is_here(filled)
    filled.answers = [-1]  # the broker is away for a moment
    assert is_here(filled)
    filled.queues["T", 0][job_runners.SAMPLED_ROWS - 1] = b"broken"
    assert is_here(filled)


def files_of(output: Path) -> dict[str, bytes]:
    return {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*.parquet")}


def exported(cluster: FakeCluster, output: Path) -> ExportSummary:
    return export.run(options(cluster, output))


@pytest.mark.spark
def test_both_ways_write_the_same(
    spark: Any, filled: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_spark = exported(filled, tmp_path / "spark")
    monkeypatch.setattr(job_runners, "_has_session", lambda: False)
    here = exported(filled, tmp_path / "here")
    assert files_of(tmp_path / "here") == files_of(tmp_path / "spark")
    assert (here.rows, here.files, here.tasks) == (on_spark.rows, on_spark.files, on_spark.tasks) == (2 * ROWS, 2, 2)
    assert on_spark.java and not here.java and here.elapsed_s > 0
    again = exported(filled, tmp_path / "here")
    assert (again.rows, again.resumed) == (0, True)


@pytest.mark.usefixtures("alone")
def test_a_failure_here_keeps_what_is_finished(filled: FakeCluster, tmp_path: Path) -> None:
    filled.queues["T", 1][job_runners.SAMPLED_ROWS] = b"broken"
    with pytest.raises(MalformedRecordError):
        exported(filled, tmp_path / "out")
    (commit,) = (tmp_path / "out" / "_pymq" / "commits").glob("*.json")
    assert [(part["queue_id"], part["rows"]) for part in json.loads(commit.read_text())["ranges"]] == [(0, ROWS)]


@pytest.mark.usefixtures("alone")
def test_an_error_of_the_system_is_one_line(
    filled: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", "x.tmp")

    monkeypatch.setattr("pymq.spark.lake.parquet_parts.parquet_writer", refuse)
    with pytest.raises(TaskFailedError, match=r"a task failed: PermissionError: .*x\.tmp"):
        exported(filled, tmp_path / "out")
