"""``option("store", DIR)`` in queries and exports: columns, WHERE, resumed runs, and refusals in one line."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest

from pymq.clock import ManualClock
from pymq.errors import StoreError, UsageError
from pymq.spark.export.export import ExportOptions, run
from pymq.spark.planning.ranges import DataLossError, ResumeError
from pymq.spark.planning.store_place import StorePlace
from pymq.spark.session.failures import translated
from pymq.spark.source.options import SourceOptions
from pymq.store.disk.fs import RealFiles
from tests.offline.support import fill, flip, log_place, records, small_store
from tests.store.support import make_store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_store(tmp_path / "broker-a")


def grown(root: Path, count: int) -> None:
    """Add messages as a broker would that was started again."""
    store = make_store(RealFiles(), ManualClock(), str(root), index_slot_count=5, digests_enabled=False)
    store.open()
    fill(store, count, 100)
    store.close()


def rows_of(output: Path) -> list[tuple[str, int, int]]:
    rows = pyarrow.dataset.dataset(output, partitioning="hive").to_table().to_pylist()
    assert {row["brokerName"] for row in rows} == {"broker-a"}
    return sorted((row["topic"], row["queueId"], row["queueOffset"]) for row in rows)


@pytest.mark.spark
def test_queries_and_exports(spark: Any, root: Path, tmp_path: Path) -> None:
    frame = spark.read.format("pymq").option("store", str(root)).option("pushFilters", "true")
    orders = frame.option("columns", "queueId,queueOffset,tags,keys").load("orders")
    found = orders.where("tags = 'T2' and queueId = 1").collect()
    wanted = [one for one in records(root) if one.topic == "orders" and one.queue_id == 1]
    assert sorted(row["queueOffset"] for row in found) == [
        one.queue_offset for one in wanted if b"TAGS\x01T2" in one.properties
    ]
    options = ExportOptions(store=StorePlace(str(root)), output=tmp_path / "lake", master="local[2]")
    first = run(options)
    assert (first.rows, first.lost, first.resumed) == (100, 0, False)
    grown(root, 30)
    second = run(options)
    assert (second.rows, second.resumed) == (30, True)
    wanted_rows = sorted((one.topic, one.queue_id, one.queue_offset) for one in records(root))
    assert rows_of(tmp_path / "lake") == wanted_rows
    path, position = log_place(root, records(root)[50].offset)
    flip(path, position + 90)
    with pytest.raises(DataLossError, match=f"{path} at {position + 88}: the body's CRC"), translated():
        frame.option("columns", "body").load().collect()
    shutil.rmtree(root)
    other = small_store(root, 40)
    with pytest.raises(ResumeError):
        run(ExportOptions(store=StorePlace(str(other)), output=tmp_path / "lake", master="local[2]"))


def test_a_dry_run_needs_no_spark(root: Path) -> None:
    summary = run(ExportOptions(store=StorePlace(str(root), broker_name="b"), topics=("orders",), dry_run=True))
    assert summary.planned_rows == 66
    assert {queue.broker_name for queue in summary.queues} == {"b"}
    store = make_store(RealFiles(), ManualClock(), str(root), index_slot_count=5, digests_enabled=False)
    store.open()
    with pytest.raises(StoreError, match="a broker holds"):
        run(ExportOptions(store=StorePlace(str(root)), dry_run=True))
    store.close()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"store": "/s", "namesrv": "h:1"}, "store and namesrv exclude each other"),
        ({"store": "/s", "filterVia": "filter-server"}, "store and filterVia exclude each other"),
        ({"commitLog": "/c"}, "commitLog is for a store directory"),
        ({"brokerName": "b"}, "brokerName is for a store directory"),
        ({"store": "/s", "whileRunning": "perhaps"}, "write true or false"),
    ],
)
def test_options_that_exclude_each_other(given: dict[str, str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        SourceOptions(given).store()


def test_a_directory_is_no_stream_and_is_not_followed() -> None:
    place = SourceOptions({"store": "/s", "commitLog": "/c", "brokerName": "b", "whileRunning": "true"}).store()
    assert place is not None and place == StorePlace("/s", "/c", "b", True)
    assert SourceOptions(place.options()).store() == place
    with pytest.raises(UsageError, match=r"store is for spark\.read: a stream needs a broker"):
        SourceOptions({"store": "/s"}).refuse_batch_options()
    with pytest.raises(UsageError, match="is read once"):
        ExportOptions(store=place, follow=True, output=Path("o")).check()
    with pytest.raises(UsageError, match="no filter servers"):
        ExportOptions(store=place, filter_via="filter-server", output=Path("o")).check()
