"""After a crash at any moment each row is visible once or not yet, and the next run continues."""

from __future__ import annotations

import errno
import hashlib
import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from pymq.errors import UsageError
from pymq.spark.export.arrow_writer import WriteJob, finished_results, read_settings, write_range
from pymq.spark.lake import commit_files, parquet_parts
from pymq.spark.lake.commits import ExportDirectory
from pymq.spark.lake.parquet_parts import Layout, OutputFullError, PartWriter
from pymq.spark.places.places import OutputBusyError
from pymq.spark.planning.ranges import QueueRange, ReadSettings, ResumeError
from pymq.spark.reading.reader import RangeReader
from pymq.spark.session.failures import translate
from tests.spark.fake_cluster import BROKER, FakeCluster
from tests.spark.record_bytes import BORN_MS, record

SETTINGS = {"columns": ["queueOffset"], "partition_by": ["topic", "dt"], "tag": "*"}
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
KEY = ("T", BROKER, 0)


@pytest.fixture
def cluster() -> Any:
    with FakeCluster() as fake:
        fake.add("T", 0, [record(n) for n in range(100)])
        yield fake


def job(log: ExportDirectory, cluster: FakeCluster, start: int, stop: int, name: str, **fields: Any) -> WriteJob:
    columns = fields.pop("columns", ("queueOffset",))
    values = {
        "ranges": (cluster.range(start=start, stop=stop),),
        "read": read_settings(ReadSettings(), columns),
        "layout": Layout(str(log.output), columns, fields.pop("partition_by", ("topic", "dt"))),
        "staging": str(log.new_staging(name)),
        "compression": "zstd",
    }
    return WriteJob(**{**values, **fields})


def stage(
    log: ExportDirectory, cluster: FakeCluster, start: int, stop: int, name: str = "round", **fields: Any
) -> dict:
    work = job(log, cluster, start, stop, name, **fields)
    return write_range(work.ranges[0], WriteJob.from_json(work.to_json()))


def commit(log: ExportDirectory, result: dict) -> int:
    return log.commit([result])


def visible(output: Path) -> list[int]:
    """Return the rows that a reader sees without knowing the commit log."""
    table = pyarrow.dataset.dataset(output, partitioning="hive").to_table()
    return sorted(table.column("queueOffset").to_pylist())


def parquet_files(output: Path) -> list[str]:
    return sorted(path.relative_to(output).as_posix() for path in output.rglob("*.parquet"))


def test_a_level_of_compression_changes_the_size_only(tmp_path: Path, cluster: FakeCluster) -> None:
    cluster.add("T", 0, [record(n, bytes(random.Random(n).choices(b"abcdefgh ", k=400))) for n in range(100, 400)])
    sizes = {}
    for level in ("zstd:1", "zstd:2", "zstd", "zstd:19", "gzip:9"):
        with ExportDirectory(tmp_path / level, SETTINGS) as log:
            fields: dict[str, Any] = {"columns": ("queueOffset", "body"), "compression": level}
            sizes[level] = stage(log, cluster, 0, 400, **fields)["files"][0]["bytes"]
    assert sizes["zstd:2"] != sizes["zstd:1"] == sizes["zstd"] != sizes["zstd:19"]


def test_a_commit_makes_its_files_visible_and_is_recorded(tmp_path: Path, cluster: FakeCluster) -> None:
    with ExportDirectory(tmp_path / "out", SETTINGS) as log:
        assert not log.resumed and log.positions == {}
        result = stage(log, cluster, 0, 60)
        assert parquet_files(tmp_path / "out") == [] and result["rows"] == 60
        assert commit(log, result) == 0
        assert visible(tmp_path / "out") == list(range(60))
    name = f"topic=T/dt=2026-01-01/{BROKER}-0-000000000000-000000000060.parquet"
    assert parquet_files(tmp_path / "out") == [name]
    with ExportDirectory(tmp_path / "out", SETTINGS) as log:
        assert log.resumed and log.positions == {KEY: 60}
        assert commit(log, stage(log, cluster, 60, 100)) == 1
    assert visible(tmp_path / "out") == list(range(100))
    described = json.loads((tmp_path / "out/_pymq/commits/0.json").read_text())["files"][0]
    assert (described["rows"], described["from_offset"], described["to_offset"]) == (60, 0, 60)
    assert described["min_time_us"] == (BORN_MS + 1) * 1000 and len(described["sha256"]) == 64


def test_a_crash_before_the_commit_leaves_no_files(tmp_path: Path, cluster: FakeCluster) -> None:
    output = tmp_path / "out"
    log = ExportDirectory(output, SETTINGS)
    commit(log, stage(log, cluster, 0, 30, "first"))
    stage(log, cluster, 30, 100, "second")
    (output / "_pymq" / "commits" / "1.tmp").write_text("{half a comm")
    log._lock.close()  # as the kernel does for a killed process
    assert visible(output) == list(range(30))
    with ExportDirectory(output, SETTINGS) as log:
        assert log.positions == {KEY: 30}
        assert not (output / "_pymq" / "staging").exists()
        commit(log, stage(log, cluster, 30, 100, "third"))
    assert visible(output) == list(range(100))


def test_a_crash_after_the_commit_is_finished_by_the_next_run(
    tmp_path: Path, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    log = ExportDirectory(output, SETTINGS)
    commit(log, stage(log, cluster, 0, 30, "first"))
    result = stage(log, cluster, 30, 100, "second")
    with monkeypatch.context() as patch:
        patch.setattr(ExportDirectory, "_publish", lambda self, entry: None)
        commit(log, result)
    log._lock.close()
    assert visible(output) == list(range(30))
    with ExportDirectory(output, SETTINGS) as log:
        assert log.positions == {KEY: 100}
    assert visible(output) == list(range(100))
    with ExportDirectory(output, SETTINGS):
        assert visible(output) == list(range(100))


def test_files_that_a_user_removed_stay_removed(tmp_path: Path, cluster: FakeCluster) -> None:
    output = tmp_path / "out"
    with ExportDirectory(output, SETTINGS) as log:
        commit(log, stage(log, cluster, 0, 30))
    shutil.rmtree(output / "topic=T")
    with ExportDirectory(output, SETTINGS) as log:
        assert log.positions == {KEY: 30}
    assert parquet_files(output) == []


def test_only_one_export_at_a_time(tmp_path: Path) -> None:
    with ExportDirectory(tmp_path / "out", SETTINGS), pytest.raises(OutputBusyError, match="another export"):
        ExportDirectory(tmp_path / "out", SETTINGS)
    ExportDirectory(tmp_path / "out", SETTINGS).close()


def test_settings_bind_from_the_first_commit_on(tmp_path: Path, cluster: FakeCluster) -> None:
    other = {**SETTINGS, "tag": "B"}
    ExportDirectory(tmp_path / "out", other).close()
    with ExportDirectory(tmp_path / "out", SETTINGS) as log:
        commit(log, stage(log, cluster, 0, 10))
    with pytest.raises(ResumeError):
        ExportDirectory(tmp_path / "out", other)


def test_other_settings_and_foreign_directories_are_refused(tmp_path: Path, cluster: FakeCluster) -> None:
    with ExportDirectory(tmp_path / "out", SETTINGS) as log:
        commit(log, stage(log, cluster, 0, 10))
    with pytest.raises(ResumeError, match=r"tag was '\*', is 'A'"):
        ExportDirectory(tmp_path / "out", {**SETTINGS, "tag": "A"})
    ExportDirectory(tmp_path / "out", SETTINGS).close()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "x.jpg").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        ExportDirectory(tmp_path / "photos", SETTINGS)
    with pytest.raises(UsageError, match="is a file"):
        ExportDirectory(tmp_path / "photos" / "x.jpg", SETTINGS)


def test_rows_of_several_days_go_to_several_files(tmp_path: Path, cluster: FakeCluster) -> None:
    # The clock goes back once: day 2 occurs twice and yields two files, each named by its own offsets.
    days = [0, 0, 1, 1, 1, 0, 2]
    cluster.add("D", 0, [record(n, topic="D", store_timestamp_ms=BORN_MS + day * DAY_MS) for n, day in enumerate(days)])
    with ExportDirectory(tmp_path / "out", SETTINGS) as log:
        work = job(log, cluster, 0, 0, "round")
        commit(log, write_range(cluster.range("D"), work))
    assert parquet_files(tmp_path / "out") == [
        f"topic=D/dt=2026-01-01/{BROKER}-0-000000000000-000000000002.parquet",
        f"topic=D/dt=2026-01-01/{BROKER}-0-000000000005-000000000006.parquet",
        f"topic=D/dt=2026-01-02/{BROKER}-0-000000000002-000000000005.parquet",
        f"topic=D/dt=2026-01-03/{BROKER}-0-000000000006-000000000007.parquet",
    ]
    assert visible(tmp_path / "out") == list(range(7))


def test_hours_are_directories_too(tmp_path: Path, cluster: FakeCluster) -> None:
    hours = [0, 0, 7, 31, 31, 7, None]
    times = [2**62 if hour is None else BORN_MS + hour * HOUR_MS for hour in hours]
    cluster.add("D", 0, [record(n, topic="D", store_timestamp_ms=time_ms) for n, time_ms in enumerate(times)])
    found = {}
    for levels in (("hour",), ("dt", "hour")):
        with ExportDirectory(tmp_path / str(len(levels)), SETTINGS) as log:
            commit(log, write_range(cluster.range("D"), job(log, cluster, 0, 0, "round", partition_by=levels)))
        found[levels] = [path.rpartition(f"/D-{BROKER}-0-")[::2] for path in parquet_files(tmp_path / str(len(levels)))]
        assert visible(tmp_path / str(len(levels))) == list(range(7))
    none = "__HIVE_DEFAULT_PARTITION__"
    files = ["000000000000-000000000002", "000000000002-000000000003", "000000000003-000000000005"]
    files = [f"{name}.parquet" for name in [*files, "000000000005-000000000006", "000000000006-000000000007"]]
    first, second, third, fourth, last = files
    assert found["hour",] == [
        ("hour=00", first), ("hour=07", second), ("hour=07", third), ("hour=07", fourth), (f"hour={none}", last),
    ]  # fmt: skip
    assert found["dt", "hour"] == [
        ("dt=2026-01-01/hour=00", first), ("dt=2026-01-01/hour=07", second), ("dt=2026-01-01/hour=07", fourth),
        ("dt=2026-01-02/hour=07", third), (f"dt={none}/hour={none}", last),
    ]  # fmt: skip


def test_times_out_of_calendar_range_get_the_default_partition(tmp_path: Path, cluster: FakeCluster) -> None:
    cluster.add("D", 0, [record(0, topic="D", store_timestamp_ms=2**62)])
    with ExportDirectory(tmp_path / "out", SETTINGS) as log:
        commit(log, write_range(cluster.range("D"), job(log, cluster, 0, 0, "round")))
    (path,) = parquet_files(tmp_path / "out")
    assert path.startswith("topic=D/dt=__HIVE_DEFAULT_PARTITION__/")


def test_topic_names_become_safe_paths(tmp_path: Path, cluster: FakeCluster) -> None:
    odd = "%RETRY%_a|b"
    cluster.add(odd, 0, [record(0, topic=odd)])
    with ExportDirectory(tmp_path / "out", SETTINGS) as log:
        for name, levels in (("one", ("topic",)), ("two", ())):
            commit(log, write_range(cluster.range(odd), job(log, cluster, 0, 0, name, partition_by=levels)))
    tail = f"{BROKER}-0-000000000000-000000000001.parquet"
    quoted = "%25RETRY%25_a%7Cb"
    assert parquet_files(tmp_path / "out") == [f"{quoted}-{tail}", f"topic={quoted}/{tail}"]
    table = pyarrow.dataset.dataset(tmp_path / "out" / f"topic={quoted}", partitioning="hive").to_table()
    assert table.num_rows == 1


def test_a_failed_task_commits_nothing_and_leaves_no_visible_file(tmp_path: Path, cluster: FakeCluster) -> None:
    cluster.queues["T", 0][70] = b"broken"
    with ExportDirectory(tmp_path / "out", SETTINGS) as log:
        with pytest.raises(Exception, match="record"):
            stage(log, cluster, 0, 100)
        assert parquet_files(tmp_path / "out") == []
    assert not (tmp_path / "out/_pymq/staging").exists()


def test_a_full_disk_is_named_and_leaves_no_visible_file(
    tmp_path: Path, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    output = tmp_path / "out"
    with ExportDirectory(output, SETTINGS) as log:
        with monkeypatch.context() as patch, pytest.raises(OutputFullError, match=r"out has no room \(No space left"):
            patch.setattr(parquet_parts, "sync_below", full)
            stage(log, cluster, 0, 100)
        result = stage(log, cluster, 0, 100, "again")
        with monkeypatch.context() as patch, pytest.raises(OutputFullError, match="run the same command again"):
            patch.setattr(commit_files, "write_durably", full)
            commit(log, result)
    assert parquet_files(output) == []
    with ExportDirectory(output, SETTINGS) as log:
        assert log.positions == {}
        commit(log, stage(log, cluster, 0, 100))
    assert visible(output) == list(range(100))
    text = "pymq.spark.lake.parquet_parts.OutputFullError: lake has no room"
    assert type(translate(f"Job aborted\n{text}\n")) is OutputFullError


def test_two_attempts_of_one_task_write_different_files(tmp_path: Path, cluster: FakeCluster) -> None:
    """A slow attempt goes on beside a speculative one; either may be the one that is committed."""
    part = cluster.range()
    for committed in (0, 1):
        output = tmp_path / f"out{committed}"
        with ExportDirectory(output, SETTINGS) as log:
            work = job(log, cluster, 0, 100, "round")
            read = replace(work.read, batch_rows=10)
            slow, fast = (part_writer(work, part, attempt) for attempt in ("slow", "fast"))
            begun = slow.write(RangeReader(part, read).batches())
            assert next(begun) > 0
            assert sum(fast.write(RangeReader(part, read).batches())) == 100
            assert sum(begun) > 0
            files = [writer.close() for writer in (slow, fast)][committed]
            fields = {**part.to_dict(), "rows": 100, "lost": 0}
            log.commit([{**fields, "files": [file.to_dict() for file in files]}])
        (path,) = output.rglob("*.parquet")
        assert hashlib.sha256(path.read_bytes()).hexdigest() == files[0].sha256
        assert visible(output) == list(range(100))


def part_writer(work: WriteJob, part: QueueRange, attempt: str) -> PartWriter:
    return PartWriter(part, work.layout, staging=Path(work.staging), attempt=attempt, compression=work.compression)


def test_results_before_a_gap_can_be_committed_after_a_failure(tmp_path: Path, cluster: FakeCluster) -> None:
    cluster.add("T", 1, [record(n, queue_id=1) for n in range(30)])
    ranges = [cluster.range("T", 0, start, start + 20) for start in (0, 20, 40, 60)] + [cluster.range("T", 1)]
    with ExportDirectory(tmp_path / "out", SETTINGS) as log:
        work = job(log, cluster, 0, 0, "round", ranges=tuple(ranges))
        for number in (0, 1, 1, 3, 4):
            write_range(ranges[number], work)
        results = finished_results(work)
        assert [(result["queue_id"], result["to_offset"]) for result in results] == [(0, 20), (0, 40), (1, 30)]
        log.commit(results)
    with ExportDirectory(tmp_path / "out", SETTINGS) as log:
        assert log.positions == {KEY: 40, ("T", BROKER, 1): 30}
    assert visible(tmp_path / "out") == sorted([*range(40), *range(30)])
