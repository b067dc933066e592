"""Rows from a store directory: those that a broker's consumers would get, decoded like one by one, damage by name."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pymq.cli import main as cli
from pymq.clock import ManualClock
from pymq.errors import EXIT_FAILED, NotFoundError, StoreError, UsageError
from pymq.model.draft import Draft
from pymq.model.inner_batch import unwrapped
from pymq.model.javahash import tags_code
from pymq.model.record import StoredMessage, decode_record
from pymq.offline.log_files import LogFiles, SegmentFile
from pymq.offline.log_walk import Block, walk
from pymq.offline.walked_queues import QueueRecords
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import LATEST, Position, parse_position
from pymq.spark.planning.ranges import DataLossError, QueueRange, ReadSettings
from pymq.spark.planning.selection import Selection
from pymq.spark.planning.store_place import StorePlace
from pymq.spark.planning.store_view import StoreView
from pymq.spark.planning.topics import TopicChoice
from pymq.spark.reading import store_reader
from pymq.spark.reading.store_reader import StoreReader
from pymq.spark.records.layout import Positions
from pymq.spark.records.read_buffer import ReadBuffer
from pymq.spark.records.schema import BY_NAME, OF_REGISTRY
from pymq.store.disk.fs import RealFiles
from tests.golden_stores import unpack
from tests.offline.support import (
    GOLDEN_NAMES,
    compress_all,
    fill,
    flip,
    log_place,
    opened,
    records,
    small_store,
    snapshot,
)
from tests.spark.bodies.body_schemas import json_format
from tests.spark.plain_rows import decode_plain
from tests.spark.record_bytes import LIES, lying
from tests.store.support import BORN, die, make_store
from tests.store.test_batch_model import BATCHES, stage_batch, write_topics

Key = tuple[str, int, int]
EVERY_COLUMN = tuple(name for name in BY_NAME if name != OF_REGISTRY)


def plan(
    root: Path, *topics: str, start: str = "earliest", on_data_loss: Any = "fail", **place: Any
) -> list[QueueRange]:
    """Return the ranges of these topics, or of all, in reading order."""
    with StoreView(StorePlace(str(root), **place), on_data_loss) as view:
        chosen = TopicChoice(topics or tuple(view.all_topics()))
        return view.split(make_plan(view, chosen, parse_position(start, 0), Position(symbol=LATEST)).ranges)


def read(root: Path, parts: Sequence[QueueRange], columns: tuple[str, ...] = EVERY_COLUMN, **fields: Any) -> pa.Table:
    """Return all rows of the ranges."""
    choice = ReadSettings(columns=columns, store=StorePlace(str(root)), **fields)
    batches = [batch for part in parts for batch in StoreReader(part, choice).batches()]
    return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in columns})


def keyed(table: pa.Table) -> dict[Key, dict[str, Any]]:
    rows = table.to_pylist()
    for row in rows:
        # Of equal names the last pair counts, and its place doesn't.
        row["properties"] = dict(row["properties"])
        row["propertiesJson"] = json.loads(row["propertiesJson"])
        row["headers"] = {pair["key"]: pair["value"] for pair in row["headers"]}
    found = {(row["topic"], row["queueId"], row["queueOffset"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def messages(root: Path) -> list[StoredMessage]:
    """Return every message of the log, decoded one by one."""
    found: list[StoredMessage] = []
    with opened(root) as directory:
        for step in walk(directory.log):
            if isinstance(step, Block):
                found += [decode_record(step.view, record.offset - step.base) for record in step.records]
    return list(unwrapped(found))


def expected(root: Path, broker_name: str = "s") -> dict[Key, dict[str, Any]]:
    """Return the rows of all messages, from the plain decoder."""
    return keyed(pa.Table.from_batches([decode_plain(messages(root), broker_name, EVERY_COLUMN)]))


@pytest.mark.parametrize(("name", "has_queues"), [*((name, True) for name in GOLDEN_NAMES), ("store-killed", False)])
def test_a_store_of_rocketmq(tmp_path: Path, name: str, has_queues: bool) -> None:
    root, manifest = unpack(name, tmp_path)
    if not has_queues:
        shutil.rmtree(root / "consumequeue")
    with StoreView(StorePlace(str(root))) as view:
        users = view.user_topics()
    assert [topic for topic in users if not topic.startswith("Topic")] == []
    rows = keyed(read(root, plan(root)))
    wanted = {(one["topic"], one["queueId"], one["queueOffset"]): one for one in manifest["messages"]}
    assert rows.keys() == wanted.keys()
    for key, one in wanted.items():
        assert rows[key]["physicalOffset"] == one["commitLogOffset"]
        assert rows[key]["brokerName"] == "broker-golden"
    plain = expected(root, "broker-golden")
    assert rows == {key: plain[key] for key in rows}


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[int, bytes, bytes]]:
    """Generate (queue, body, properties) of messages."""
    pairs = st.sampled_from([b"TAGS\x01A\x02", b"TAGS\x01B\x02KEYS\x01k\x02", b"", b"UNIQ_KEY\x01U\x02x\x01\xff\x02"])
    return draw(st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=200), pairs), min_size=1, max_size=40))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps(), st.booleans(), st.integers(1, 7), st.integers(1, 30))
def test_rows_are_those_of_the_plain_decoder(
    tmp_path: Path, given: list[tuple[int, bytes, bytes]], clean: bool, batch_rows: int, task_rows: int
) -> None:
    root = tmp_path / "s"
    shutil.rmtree(root, ignore_errors=True)
    store = make_store(RealFiles(), ManualClock(), str(root))
    store.open()
    for number, (queue_id, body, properties) in enumerate(given):
        code = tags_code(properties[5:6].decode()) if properties.startswith(b"TAGS") else 0
        store.stage("orders", queue_id, Draft(body, properties, 5, BORN, code))
        store.commit()
        if number % 9 == 5:
            store.tick()
    store.close() if clean else die(store)
    parts = [piece for part in plan(root) for piece in part.split(task_rows)]
    assert keyed(read(root, parts, batch_rows=batch_rows)) == expected(root)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0, 0, 3, 50, 200]), st.integers(4, 40)), min_size=1, max_size=30),
    st.sampled_from([(0, 4 << 20), (10, 4 << 20), (100, 128), (1 << 20, 4 << 20)]),
)
def test_records_read_together_are_those_read_one_by_one(spans: list[tuple[int, int]], limits: tuple[int, int]) -> None:
    log = small_log()
    gaps, sizes = np.array(spans, np.int64).T
    places: Positions = np.cumsum(sizes + gaps) - sizes
    kept = places + sizes <= log.end_of_files + 100  # some lie behind the log's end
    own = QueueRecords(places, np.ones_like(places), places, sizes).part(kept)
    view: Any = SimpleNamespace(log=log)
    buffer = ReadBuffer(300)
    buffer.room(300)[:] = b"?" * 300  # what another batch left
    with patch.multiple(store_reader, GAP_MAX_BYTES=limits[0], READ_SIZE_MAX_BYTES=limits[1]):
        chunk, starts = store_reader.fetched(view, own, buffer)
    found = [bytes(chunk[at : at + size]) for at, size in zip(starts.tolist(), own.sizes.tolist(), strict=True)]
    # A record that reaches over its segment's end is none: the others are compared.
    for place, size, data in zip(own.places.tolist(), own.sizes.tolist(), found, strict=True):
        segment = log.find(place)
        if segment is None:
            assert data == bytes(size)
        elif place + size <= segment.end:
            assert data == segment.read(place - segment.start, size)


@functools.cache
def small_log() -> LogFiles:
    segments = [
        SegmentFile("", start, 256, _Octets(bytes((start + n) % 251 for n in range(256)))) for start in (0, 256)
    ]
    return LogFiles("", 256, [segments[0], segments[1]], [], [])


class _Octets:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def pread(self, at: int, size: int) -> bytes:
        return self._data[at : at + size]

    def pread_into(self, at: int, room: memoryview) -> int:
        data = self.pread(at, len(room))
        room[: len(data)] = data
        return len(data)

    def will_read(self, at: int, size: int) -> None:
        pass

    def next_data(self, at: int) -> int | None:
        return at

    def close(self) -> None:
        pass


def test_inner_batches_and_compressed_segments(tmp_path: Path) -> None:
    root = tmp_path / "s"
    write_topics(RealFiles(), str(root))
    store = make_store(RealFiles(), ManualClock(), str(root), batch_queue_file_size_bytes=46 * 5, digests_enabled=False)
    store.open()
    for number in range(40):
        stage_batch(store, BATCHES, number % 2, [b"%d-%d" % (number, at) * 20 for at in range(number % 5 + 1)])
        store.commit()
    die(store)
    wanted = expected(root)
    for part in (3, 1000):
        assert keyed(read(root, [one for each in plan(root) for one in each.split(part)])) == wanted
    (root / "abort").unlink()
    small_store(tmp_path / "small" / "s")
    wanted = expected(tmp_path / "small" / "s")
    assert compress_all(tmp_path / "small" / "s") > 2
    assert keyed(read(tmp_path / "small" / "s", plan(tmp_path / "small" / "s"))) == wanted


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_store(tmp_path / "s")


def test_parts_of_the_log_and_positions(root: Path) -> None:
    wanted, before = expected(root), snapshot(root)
    assert keyed(read(root, plan(root, start='{"orders": {"0": 3}}'))).keys() == {
        key for key in wanted if key[:2] != ("orders", 0) or key[2] >= 3
    }
    middle = wanted["orders", 1, 17]["storeTimestamp"]
    later = plan(root, "orders", start=str(int(middle.timestamp() * 1000)))
    assert keyed(read(root, later)).keys() == {
        key for key, row in wanted.items() if key[0] == "orders" and row["storeTimestamp"] >= middle
    }
    with StoreView(StorePlace(str(root))) as view:
        (queue,) = [queue for queue in view.queues_of(["orders"])["orders"] if queue.queue_id == 1]
        assert set(view.record_digests({queue: 17})) == {queue} and view.record_digests({queue: 1000}) == {}
        assert view.committed(queue, "nobody") is None
    assert snapshot(root) == before


def test_a_deleted_topic_does_not_come_back(root: Path) -> None:
    store = make_store(RealFiles(), ManualClock(), str(root), index_slot_count=5, digests_enabled=False)
    store.open()
    store.delete_topics("payments")
    store.close()
    assert {key[0] for key in keyed(read(root, plan(root)))} == {"orders"}
    shutil.rmtree(root / "consumequeue")
    assert {key[0] for key in keyed(read(root, plan(root)))} == {"orders"}


def test_selections(root: Path) -> None:
    wanted = expected(root)
    for selection, judge in (
        (Selection(tag="T1 || T3"), lambda row: row["tags"] in ("T1", "T3")),
        (Selection(sql="TAGS = 'T2' OR KEYS = 'key-5'"), lambda row: row["tags"] == "T2" or row["keys"] == "key-5"),
        (Selection(pushed_sql="KEYS = 'key-5'"), lambda row: row["keys"] == "key-5"),
        (Selection(filter="regex", expression="body-7"), lambda row: b"body-7" in row["body"]),
    ):
        found = keyed(read(root, plan(root), selection=selection))
        assert found.keys() == {key for key, row in wanted.items() if judge(row)}, selection
    with pytest.raises(UsageError, match="no filter servers"):
        StoreReader(plan(root)[0], ReadSettings(store=StorePlace(str(root)), selection=Selection(filter="f", via="x")))


def test_bodies_of_a_schema(root: Path) -> None:
    numbers = json_format("a int", on_bad="table")
    found = read(root, plan(root), ("queueOffset", "badRecord"), body_schema=numbers)
    assert found.column("badRecord").null_count == 0  # they are no JSON
    bodies = {row["body"] for row in expected(root).values()}
    assert {row["body"] for row in found.column("badRecord").to_pylist()} == bodies


def test_damage_is_named_or_counted(root: Path) -> None:
    record = next(one for one in records(root) if (one.topic, one.queue_id, one.queue_offset) == ("orders", 1, 11))
    path, position = log_place(root, record.offset)
    flip(path, position + 90)
    with pytest.raises(DataLossError, match=rf"{path} at {position + 88}: the body's CRC .*offset 11 of orders s/1"):
        read(root, plan(root))
    assert read(root, plan(root), ("queueOffset",)).num_rows == 100  # bodies are not read
    flip(path, position + 20)
    flip(path, position + 3, 0x40)
    with pytest.raises(DataLossError, match=rf"{path} at [0-9]+: topic length 6 .* don't add up"):
        read(root, plan(root), ("queueOffset",))
    readers = [
        StoreReader(part, ReadSettings(store=StorePlace(str(root)), on_data_loss="report", batch_rows=4))
        for part in plan(root)
    ]
    rows = sum(batch.num_rows for reader in readers for batch in reader.batches())
    assert (rows, sum(reader.lost for reader in readers)) == (99, 1)
    path.unlink()
    with pytest.raises(DataLossError, match="the file is missing"):
        read(root, plan(root))


def test_damage_that_only_the_walk_sees(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", clean=False)
    shutil.rmtree(root / "consumequeue")
    path, position = log_place(root, records(root)[30].offset)
    flip(path, position + 90)
    with pytest.raises(DataLossError, match=f"{path} at {position + 88}: the body's CRC"):
        plan(root)
    parts = plan(root, on_data_loss="report")
    assert read(root, parts, on_data_loss="report").num_rows == 99


def test_a_broker_that_runs_there_keeps_readers_out(root: Path) -> None:
    store = make_store(RealFiles(), ManualClock(), str(root), index_slot_count=5, digests_enabled=False)
    store.open()
    fill(store, 20, 100)
    with pytest.raises(StoreError, match=r"a broker holds .*lock: stop it first"):
        plan(root)
    place = StorePlace(str(root), while_running=True)
    parts = plan(root, while_running=True)
    choice = ReadSettings(columns=EVERY_COLUMN, store=place)
    fill(store, 20, 120)  # what comes after the plan is not in the rows
    found = [batch for part in parts for batch in StoreReader(part, choice).batches()]
    assert sum(batch.num_rows for batch in found) == 120
    store.close()
    assert read(root, plan(root)).num_rows == 140


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="is not a directory"):
        plan(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError, match="is not a store"):
        plan(tmp_path / "empty")
    (tmp_path / "empty" / "commitlog").mkdir()
    assert plan(tmp_path / "empty") == []


@pytest.mark.parametrize("part", LIES)
def test_a_record_whose_lengths_lie_hides_none(tmp_path: Path, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither from a reader of a directory, nor from a dump, nor from one that looks for a time or a message."""
    root = small_store(tmp_path / "s", 100)
    bad = records(root)[40]
    segment, position = log_place(root, bad.offset)
    raw = segment.read_bytes()
    segment.write_bytes(raw[:position] + lying(raw[position : position + bad.size], part) + raw[position + bad.size :])
    parts = plan(root, on_data_loss="report")
    found = read(root, parts, ("topic", "queueId", "queueOffset"), on_data_loss="report").to_pylist()
    places = {(row["topic"], row["queueId"], row["queueOffset"]) for row in found}
    assert len(places) == 99 and (bad.topic, bad.queue_id, bad.queue_offset) not in places
    with pytest.raises(DataLossError, match=f"this is offset {bad.queue_offset} of {bad.topic}"):
        read(root, plan(root), ("queueOffset",))
    with StoreView(StorePlace(str(root)), "report") as view:
        for queue in [queue for queues in view.queues_of(("orders", "payments")).values() for queue in queues]:
            low, high = view.bounds([queue])[queue][:2]
            assert view.offset_by_time(queue, 0) == low
            for offset in range(low, high):
                is_bad = (queue.topic, queue.queue_id, offset) == (bad.topic, bad.queue_id, bad.queue_offset)
                assert bool(view.record_digests({queue: offset})) != is_bad
    assert cli.run(["store", "dump", str(root)]) == EXIT_FAILED
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 99 and str(bad.offset) in err
