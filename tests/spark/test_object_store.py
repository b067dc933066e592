"""Exports to an object store: each row is visible once or not yet, after a kill between any two requests."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from pymq.errors import PymqError, UsageError
from pymq.spark.export.arrow_writer import WriteJob, finished_results, read_settings, write_range
from pymq.spark.export.options import ExportOptions
from pymq.spark.lake.commits import ExportDirectory
from pymq.spark.lake.lake import Lake, Span
from pymq.spark.lake.lake_reader import LakeReader
from pymq.spark.lake.parquet_parts import PartWriter
from pymq.spark.places import object_lease, object_paths, places
from pymq.spark.places.object_lease import ObjectLease
from pymq.spark.places.object_paths import ObjectPath, ObjectStoreError
from pymq.spark.places.places import OutputBusyError, hadoop_url, place_of
from pymq.spark.planning.ranges import QueueRange, ReadSettings
from pymq.spark.records.schema import USUAL
from pymq.spark.session.failures import translate
from tests.spark.fake_cluster import BROKER, FakeCluster
from tests.spark.object_store import MemoryStore
from tests.spark.record_bytes import record

URL = "s3a://bucket/lake"
SETTINGS = {"columns": list(USUAL), "partition_by": ["topic", "dt"], "tag": "*"}
ROWS = 40
BUSY = OutputBusyError("busy")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    found = MemoryStore()
    connect(monkeypatch, found)
    return found


def connect(monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> None:
    """Make the store the one of all URLs."""
    made = pafs.PyFileSystem(store)
    monkeypatch.setattr(object_paths, "file_system", lambda *_: made)


def staged(log: ExportDirectory, start: int, stop: int, rows_of_a_batch: int = ROWS) -> dict[str, Any]:
    """Write rows in the way of a task; return its result."""
    part = QueueRange("T", BROKER, 0, start, stop, ())
    writer = PartWriter(
        part,
        output=log.output,
        staging=log.new_staging(f"round-{start}"),
        attempt="0",
        columns=("queueOffset",),
        partition_by=("topic",),
        compression="zstd",
    )
    firsts = range(start, stop, rows_of_a_batch)
    list(writer.write(batch(first, min(first + rows_of_a_batch, stop)) for first in firsts))
    files = [file.to_dict() for file in writer.close()]
    return {"topic": "T", "broker_name": BROKER, "queue_id": 0, "from_offset": start, "to_offset": stop, "files": files}


def batch(start: int, stop: int) -> pa.RecordBatch:
    times = pa.array([0] * (stop - start), pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_pydict({"queueOffset": list(range(start, stop)), "storeTimestamp": times})


def commit(log: ExportDirectory, result: dict[str, Any]) -> None:
    log.commit([{name: value for name, value in result.items() if name != "files"}], result["files"])


def export() -> None:
    """Export what the log has not, with a commit for each half of it."""
    with ExportDirectory(place_of(URL), SETTINGS, commits_max=1) as log:
        begin = log.positions.get(("T", BROKER, 0), 0)
        middle = (begin + ROWS) // 2
        for start, stop in ((begin, middle), (middle, ROWS)):
            if start < stop:
                commit(log, staged(log, start, stop))


def visible(store: MemoryStore) -> list[int]:
    """Return the offsets that a reader of all visible files finds."""
    names = [name for name in store.objects if name.endswith(".parquet")]
    tables = [pq.read_table(pa.BufferReader(store.objects[name]), columns=["queueOffset"]) for name in names]
    return sorted(row for table in tables for row in table.column("queueOffset").to_pylist())


def test_a_kill_between_any_two_requests_costs_no_row_and_doubles_none(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for requests in range(1000):
        store = MemoryStore(requests_left=requests)
        connect(monkeypatch, store)
        try:
            export()
        except ObjectStoreError:
            pass
        else:
            break
        seen = visible(store)
        assert seen in ([], list(range(ROWS // 2)), list(range(ROWS))), requests
        counts.append(len(seen))
        again = MemoryStore(store)
        for name in [name for name in again.objects if "/_pymq/writers/" in name]:
            del again.objects[name]  # a lease has tests of its own, and takes time
        connect(monkeypatch, again)
        export()
        assert visible(again) == list(range(ROWS)), requests
        assert not [name for name in again.objects if "/staging/" in name]
        assert Lake(place_of(URL)).spans(("T", BROKER, 0)) == [Span(0, ROWS)]
    assert sorted(set(counts)) == [0, ROWS // 2, ROWS] and counts == sorted(counts)


def test_readers_find_the_rows_that_tasks_wrote(store: MemoryStore) -> None:
    with FakeCluster() as cluster, ExportDirectory(place_of(URL), SETTINGS) as log:
        cluster.add("T", 0, [record(n) for n in range(ROWS)])
        job = WriteJob(
            ranges=(cluster.range(),),
            read=read_settings(ReadSettings(), ()),
            output=URL,
            staging=str(log.new_staging("round")),
            columns=(),
            partition_by=("topic", "dt"),
            compression="zstd",
        )
        result = write_range(job.ranges[0], WriteJob.from_json(job.to_json()))
        assert finished_results(job) == [result]
        commit(log, result)
    settings = ReadSettings(columns=("queueOffset", "body"), archive=URL)
    batches = list(LakeReader(QueueRange("T", BROKER, 0, 5, 30, ()), settings).batches())
    assert [row for batch in batches for row in batch.column("queueOffset").to_pylist()] == list(range(5, 30))
    (file,) = json.loads(store.objects["bucket/lake/_pymq/commits/0.json"])["files"]
    content = store.objects[f"bucket/lake/{file['path']}"]
    assert (file["bytes"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert file["path"].startswith("topic=T/dt=")


def test_a_file_has_a_size_that_a_store_can_copy(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pymq.spark.lake.parquet_parts.ROW_GROUP_ROWS", 10)
    with ExportDirectory(place_of(URL), SETTINGS) as log:
        (whole,) = staged(log, 0, ROWS, 10)["files"]
        for limit, counts in ((whole["bytes"], [ROWS]), (5, [10] * 4)):
            monkeypatch.setattr(places, "OBJECT_BYTES_MAX", limit)
            result = staged(log, 0, ROWS, 10)
            assert [file["rows"] for file in result["files"]] == counts
        commit(log, result)
    assert visible(store) == list(range(ROWS))


def test_another_writer_is_refused_and_a_killed_one_is_not_waited_for_long(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_lease, "LEASE_S", 1.2)
    folder = ObjectPath(URL) / "writers"
    first = ObjectLease(folder, BUSY)
    with pytest.raises(OutputBusyError):
        ObjectLease(folder, BUSY)
    first.check()
    assert len(store.objects) == 1
    first.close()
    assert not store.objects

    begun_s = time.monotonic()
    store.objects["bucket/lake/writers/killed.json"] = json.dumps({"state": "holding"}).encode()
    ObjectLease(folder, BUSY).close()
    assert time.monotonic() - begun_s >= 1.2 and not store.objects


def test_of_writers_that_begin_at_once_one_goes_on(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_lease, "LEASE_S", 1.2)
    leases: list[ObjectLease] = []
    refused: list[PymqError] = []
    together = threading.Barrier(3)

    def begin() -> None:
        together.wait()
        try:
            leases.append(ObjectLease(ObjectPath(URL), BUSY))
        except OutputBusyError as error:
            refused.append(error)

    threads = [threading.Thread(target=begin) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(leases) == 1 and len(refused) == 2
    leases[0].close()


def test_a_writer_that_was_away_commits_no_more(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = time.monotonic()
    with ExportDirectory(place_of(URL), SETTINGS) as log:
        result = staged(log, 0, 10)
        monkeypatch.setattr(time, "monotonic", lambda: now_s + object_lease.LEASE_S)
        with pytest.raises(OutputBusyError, match=f"another export writes to {URL}"):
            commit(log, result)
        monkeypatch.undo()
        connect(monkeypatch, store)
    assert visible(store) == [] and not [name for name in store.objects if "/commits/" in name]


def test_errors_are_one_line(store: MemoryStore) -> None:
    store.requests_left = 0
    with pytest.raises(ObjectStoreError) as found:
        ObjectPath(URL).exists()
    assert str(found.value) == f"{URL}: AWS Error NETWORK_CONNECTION during a request: no answer"
    assert type(translate(f"x\npymq.spark.places.object_paths.ObjectStoreError: {URL}: no\n")) is ObjectStoreError


@pytest.mark.parametrize("url", ["s3a:/b/c", "s3a:///lake", "hdfs://n/lake", "s3a://b/a/../c", "s3a://b/c?x=1"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is no path of an object store: write s3a://BUCKET/NAME"):
        place_of(url)


def test_names() -> None:
    path = ObjectPath("abfss://box@account.dfs.core.windows.net/lake//a.b.parquet/")
    assert path.key == "box/lake/a.b.parquet" and path.name == "a.b.parquet" and path.stem == "a.b"
    assert str(path.parent) == "abfss://box@account.dfs.core.windows.net/lake" and path.parent / path.name == path
    assert hadoop_url(ObjectPath("s3://b/l")) == "s3a://b/l" and hadoop_url(Path("/lake")) == "/lake"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"format": "json"}, "where Spark's writer leaves parts of a failed job: write Parquet"),
        ({"compact": True}, "which can't exchange files: leave out compact"),
    ],
)
def test_what_an_export_to_a_store_can_not_do(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=f"output {URL} is in an object store, {reason}"):
        ExportOptions(output=place_of(URL), **fields).check()


def test_the_environment_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    object_paths.file_system.cache_clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost:9000")
    with pytest.raises(UsageError, match="AWS_ENDPOINT_URL is localhost:9000: write http://HOST:PORT"):
        ObjectPath(URL).exists()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    assert object_paths._s3_settings("bucket") == {
        "region": "us-east-1",
        "scheme": "http",
        "endpoint_override": "127.0.0.1:1",
    }
