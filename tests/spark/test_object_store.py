"""Places in an object store: what tasks write there, what is visible, and what is refused."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from pymq.errors import UsageError
from pymq.spark.export.arrow_writer import WriteJob, finished_results, read_settings, write_range
from pymq.spark.export.options import ExportOptions
from pymq.spark.lake.parquet_parts import Layout
from pymq.spark.places import object_paths
from pymq.spark.places.object_paths import ObjectPath, ObjectStoreError
from pymq.spark.places.places import place_of, write_whole
from pymq.spark.planning.ranges import ReadSettings
from pymq.spark.session.failures import translate
from tests.spark.fake_cluster import FakeCluster
from tests.spark.object_store import MemoryStore
from tests.spark.record_bytes import record

URL = "s3a://bucket/lake"
ROWS = 40


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    found = MemoryStore()
    connect(monkeypatch, found)
    return found


def connect(monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> None:
    """Make the store the one of all URLs."""
    made = pafs.PyFileSystem(store)
    monkeypatch.setattr(object_paths, "file_system", lambda *_: made)


def test_tasks_write_the_files_of_a_table_to_their_places(store: MemoryStore) -> None:
    staging = place_of(URL) / "_pymq" / "staging" / "round"
    with FakeCluster() as cluster:
        cluster.add("T", 0, [record(n) for n in range(ROWS)])
        job = WriteJob(
            ranges=(cluster.range(),),
            read=read_settings(ReadSettings(), ()),
            layout=Layout(URL, (), ("topic", "dt"), in_place=True),
            staging=str(staging),
            compression="zstd",
        )
        result = write_range(job.ranges[0], WriteJob.from_json(job.to_json()))
        assert finished_results(job) == [result]
        write_range(job.ranges[0], job)
    (file,) = result["files"]
    content = store.objects[f"bucket/lake/{file['path']}"]
    assert (file["bytes"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert file["path"].startswith("topic=T/dt=") and file["path"] == file["staged"]
    rows = pq.read_table(pa.BufferReader(content)).column("queueOffset").to_pylist()
    assert rows == list(range(ROWS))
    assert len([name for name in store.objects if name.endswith(".parquet")]) == 2  # each attempt has its own


def test_a_request_without_an_answer_leaves_no_object(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(requests_left=0)
    connect(monkeypatch, store)
    with pytest.raises(ObjectStoreError):
        write_whole(place_of(URL) / "result.json", "{}")
    assert store.objects == {}


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
    assert path.key == "box/lake/a.b.parquet" and path.name == "a.b.parquet"
    assert str(path.parent) == "abfss://box@account.dfs.core.windows.net/lake" and path.parent / path.name == path


def test_plain_files_are_not_written_to_a_store() -> None:
    for name in ("parquet", "json"):
        with pytest.raises(UsageError, match=f"output {URL} is in an object store, .*use --format delta"):
            ExportOptions(output=place_of(URL), format=name).check()
    ExportOptions(output=place_of(URL), format="delta").check()


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
