"""Dumps: a real broker's messages exactly, selections, damage that is reported and left out, equal Parquet rows."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from pymq.model import sysflag
from pymq.model.compression import compress_body
from pymq.model.draft import Draft
from pymq.offline.dump import CLOCK_SLACK_MS, DumpedMessages, DumpSelection, as_row
from pymq.store.disk.fs import RealFiles
from tests.golden_stores import unpack
from tests.offline.support import GOLDEN_NAMES, flip, log_place, opened, records, small_store, write_at
from tests.store.support import BORN, make_store

MEMBERS = [
    "topic",
    "queueId",
    "queueOffset",
    "commitLogOffset",
    "storeSize",
    "msgId",
    "keys",
    "tags",
    "properties",
    "bodyBase64",
]


def dumped(root: Path, selection: DumpSelection | None = None) -> tuple[list[dict], list[str], DumpedMessages]:
    complaints: list[str] = []
    with opened(root) as directory:
        messages = DumpedMessages(directory.log, selection or DumpSelection(), complaints.append)
        rows = [as_row(message, content) for message, content in messages]
    return rows, complaints, messages


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_a_dump_is_what_the_real_broker_served(name: str, tmp_path: Path) -> None:
    root, manifest = unpack(name, tmp_path)
    rows, complaints, messages = dumped(root)
    assert all(list(row) == MEMBERS for row in rows)
    found = {(row["topic"], row["queueId"], row["queueOffset"]): row for row in rows}
    assert len(found) == len(rows) == manifest["messageCount"] == messages.message_count
    for expected in manifest["messages"]:
        row = found[expected["topic"], expected["queueId"], expected["queueOffset"]]
        for member in ("commitLogOffset", "storeSize", "msgId", "keys", "tags"):
            assert row[member] == expected[member]
        body = base64.b64decode(row["bodyBase64"])
        assert (len(body), hashlib.sha256(body).hexdigest()) == (expected["bodyLen"], expected["bodySha256"])
        # The manifest omits properties that every client adds on reading, also where a retry stored them.
        stored = {key: value for key, value in row["properties"].items() if key not in ("MIN_OFFSET", "MAX_OFFSET")}
        assert stored == expected["properties"]
    assert bool(complaints) == (name == "store-torn")
    assert messages.damaged_count == 0


def test_a_dump_selects_by_topic_and_offset(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    rows, _, _ = dumped(root, DumpSelection(topics=frozenset({"orders"}), from_offset=3, to_offset=5))
    assert [(row["queueOffset"], row["topic"]) for row in rows] == [(n, "orders") for n in (3, 3, 4, 4)]


def test_a_dump_selects_by_time_without_the_end(tmp_path: Path) -> None:
    root, _ = unpack("store-clean", tmp_path)
    times = [record.store_ms for record in records(root)]
    begin, end = times[100], times[400]
    rows, _, _ = dumped(root, DumpSelection(from_ms=begin, to_ms=end))
    assert len(rows) == len([time for time in times if begin <= time < end])


def test_segments_that_are_too_old_are_not_read(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    flip(*log_place(root, records(root)[2].offset + 90))
    newest = records(root)[-1].store_ms
    assert dumped(root, DumpSelection(from_ms=newest))[1]
    assert not dumped(root, DumpSelection(from_ms=newest + CLOCK_SLACK_MS + 1))[1]


def test_damage_is_reported_counted_and_left_out(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s")
    victim = records(root)[30]
    path, position = log_place(root, victim.offset)
    flip(path, position + 90)
    rows, complaints, messages = dumped(root)
    assert len(rows) == 99
    assert messages.damaged_count == 1
    assert f"{path} at {position + 88}" in complaints[0]


def test_a_body_that_cannot_be_inflated_is_null_and_reported(tmp_path: Path) -> None:
    store = make_store(RealFiles(), root=str(tmp_path / "s"))
    store.open()
    flags = sysflag.COMPRESSED | sysflag.COMPRESSION_ZLIB
    store.stage("orders", 0, Draft(b"no zlib", b"", 1, BORN, 0, sys_flag=flags))
    store.commit()
    store.close()
    rows, complaints, messages = dumped(tmp_path / "s")
    assert [row["bodyBase64"] for row in rows] == [None]
    assert messages.damaged_count == 1
    assert "orders queue 0 offset 0" in complaints[0]


def test_all_bodies_together_inflate_to_no_more_than_a_multiple_of_their_messages(tmp_path: Path) -> None:
    store = make_store(RealFiles(), root=str(tmp_path / "s"))
    store.open()
    body, flags = compress_body(bytes(1_000_000), "zlib")
    for _ in range(80):
        store.stage("bombs", 0, Draft(body, b"", 1, BORN, 0, sys_flag=flags))
        store.commit()
    store.close()
    complaints: list[str] = []
    with opened(tmp_path / "s") as directory:
        messages = DumpedMessages(directory.log, DumpSelection(), complaints.append, inflation_ratio_max=1)
        sizes = [len(content) if content is not None else None for _, content in messages]
    assert sizes == [1_000_000] * 67 + [None] * 13  # 64 MiB
    assert len(complaints) == messages.damaged_count == 13
    assert "1 times the size of their messages; allow a higher ratio" in complaints[0]


def test_parquet_holds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    from pymq.offline import dump_parquet

    monkeypatch.setattr(dump_parquet, "ROWS_PER_GROUP_MAX", 100)
    root, _ = unpack("store-clean", tmp_path)
    rows, _, _ = dumped(root)
    with opened(root) as directory:
        dump_parquet.write_parquet(str(tmp_path / "f"), DumpedMessages(directory.log, DumpSelection(), lambda _: None))
    table = pq.read_table(tmp_path / "f").to_pylist()
    assert pq.ParquetFile(tmp_path / "f").num_row_groups == 6
    for row, shown in zip(rows, table, strict=True):
        body = shown.pop("body")
        assert base64.b64encode(body).decode() == row.pop("bodyBase64")
        assert shown | {"properties": dict(shown["properties"])} == row


def test_remains_behind_the_log_are_reported(tmp_path: Path) -> None:
    root = small_store(tmp_path / "s", 5)
    last = records(root)[-1]
    write_at(*log_place(root, last.offset + last.size), b"remains")
    rows, complaints, _ = dumped(root)
    assert len(rows) == 5
    assert "the log ends here" in complaints[0]
