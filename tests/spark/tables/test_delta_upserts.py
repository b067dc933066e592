"""The latest message of each key in a Delta table, compared with a dict that gets the same messages."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pymq.errors import UsageError
from pymq.model.properties import encode_properties
from pymq.spark.export.logs import open_log
from pymq.spark.export.options import ExportOptions
from pymq.spark.lake import parquet_parts
from pymq.spark.places.places import OutputBusyError
from pymq.spark.planning.ranges import ResumeError
from pymq.spark.tables import delta_upserts
from pymq.spark.tables.delta_log import DeltaLog
from pymq.spark.tables.delta_upserts import latest
from tests.spark.fake_cluster import BROKER, FakeCluster
from tests.spark.record_bytes import BORN_MS, record
from tests.spark.tables.exports import settings, written

COLUMNS = ("topic", "queueId", "queueOffset", "keys", "body", "storeTimestamp")


def opened(output: Path, **fields: Any) -> Any:
    options = ExportOptions(output=output, format="delta", mode="upsert", partition_by=("topic",))
    values = {"columns": COLUMNS, "levels": ("topic",), "mode": "upsert", "key": "keys"}
    return open_log(options, settings(**{**values, **fields}), pa.binary())


def found(output: Path) -> dict[tuple[str, str], bytes]:
    rows = DeltaTable(str(output)).to_pyarrow_table().to_pylist()
    by_key = {(row["topic"], row["keys"]): row["body"] for row in rows}
    assert len(by_key) == len(rows), "a key is there twice"
    return by_key


@pytest.mark.parametrize("seed", range(4))
def test_the_table_is_what_an_oracle_says(tmp_path: Path, seed: int) -> None:
    numbers = random.Random(seed)
    oracle: dict[tuple[str, str], tuple[tuple[int, int], bytes]] = {}
    with FakeCluster() as cluster:
        ends = {("A", 0): 0, ("A", 1): 0, ("B", 0): 0}
        for number in range(7):
            with opened(tmp_path) as log:
                parts = []
                for (topic, queue_id), first in ends.items():
                    stored, count = [], numbers.randrange(12)
                    for offset in range(first, first + count):
                        name = numbers.choice(["", "k", "l", "m'", "ü", f"n{offset}"])
                        key = f"{name}{queue_id}" if name else ""  # a key stays in its queue
                        body = numbers.choice([b"", b"%d" % offset])
                        time_ms = BORN_MS + offset // 3
                        properties = encode_properties({"KEYS": key} if key else {})
                        stored.append(
                            record(
                                offset, body, topic=topic, queue_id=queue_id, properties=properties,
                                store_timestamp_ms=time_ms,
                            )
                        )  # fmt: skip
                        if key:
                            oracle[topic, key] = max(
                                oracle.get((topic, key), ((0, -1), b"")), ((time_ms, offset), body)
                            )
                    cluster.add(topic, queue_id, stored)
                    ends[topic, queue_id] = first + count
                    again = max(0, first - numbers.randrange(4))  # what was merged before comes once more
                    if again < first + count:
                        parts.append(written(log, cluster, again, first + count, topic=topic, queue_id=queue_id))
                numbers.shuffle(parts)
                assert log.commit(parts) == number + 1
            expected = {key: body for key, (_, body) in oracle.items() if body}
            assert found(tmp_path) == expected, (seed, number)
        with opened(tmp_path) as log:
            assert log.positions == {(topic, BROKER, queue): end for (topic, queue), end in ends.items() if end}


def test_many_bytes_are_merged_by_several_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit ends between two row groups, and a run that is killed there goes on from that offset."""
    monkeypatch.setattr(parquet_parts, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(delta_upserts, "MERGED_BYTES", 2_000)
    with FakeCluster() as cluster:
        cluster.add("T", 0, [record(n, b"x" * 100) for n in range(100)])
        with opened(tmp_path) as log:
            part = written(log, cluster, 0, 100, batch_rows=10)
            commits = DeltaLog.commit
            seen: list[int] = []

            def commit_and_die(self: Any, parts: Any, marks: Any = ()) -> int:
                seen.append(max(part["to_offset"] for part in parts))
                number = commits(self, parts, marks)
                if len(seen) == 2:
                    raise InterruptedError
                return number

            monkeypatch.setattr(DeltaLog, "commit", commit_and_die)
            with pytest.raises(InterruptedError):
                log.commit([part])
        with opened(tmp_path) as log:
            (end,) = log.positions.values()
            assert end == seen[1] < 100 and len(found(tmp_path)) == end
            log.commit([written(log, cluster, end, 100, batch_rows=10)])
    assert len(found(tmp_path)) == 100 and len(seen) >= 4 and seen == sorted(seen)


def test_a_second_export_and_other_settings_are_refused(tmp_path: Path) -> None:
    with FakeCluster() as cluster:
        cluster.add("T", 0, [record(n) for n in range(20)])
        with opened(tmp_path) as first, opened(tmp_path) as second:
            parts = [written(log, cluster, 0, 10) for log in (first, second)]
            first.commit([parts[0]])
            with pytest.raises(OutputBusyError):
                second.commit([parts[1]])
        for fields in ({"mode": "append"}, {"key": "msgId"}):
            with pytest.raises(ResumeError, match="other settings"):
                opened(tmp_path, **fields)
    assert len(found(tmp_path)) == 10


def test_the_last_row_of_a_key_by_time_and_then_by_offset() -> None:
    rows = pa.table(
        {
            "topic": ["a", "a", "a", "b", "a", "a"],
            "keys": ["k", "k", "k", "k", None, "x"],
            "storeTimestamp": [5, 7, 7, 1, 9, 1],
            "queueOffset": [9, 1, 2, 0, 3, 4],
            "body": [b"1", b"2", None, b"4", b"5", b""],
        }
    )
    kept = latest(rows, "keys").select(["topic", "keys", "queueOffset", "_deleted"]).to_pylist()
    assert [tuple(row.values()) for row in kept] == [("a", "k", 2, True), ("a", "x", 4, True), ("b", "k", 0, False)]
    assert latest(rows.slice(0, 0), "keys").num_rows == 0


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"format": "iceberg"}, "is for Delta tables, not iceberg"),
        ({"partition_by": ("topic", "dt")}, "use --partition-by topic"),
        ({"body": "json"}, "so bodies stay as they are"),
        ({"keep_days": 2.0}, "with date in --partition-by"),
        ({"columns": ("topic", "body")}, "needs the column keys"),
        ({"key": "property_id"}, "needs the column property_id"),
        ({"mode": "merge"}, "mode 'merge' is unknown"),
    ],
)
def test_what_does_not_fit_is_refused(fields: dict[str, Any], reason: str, tmp_path: Path) -> None:
    values = {"output": tmp_path, "format": "delta", "mode": "upsert", "partition_by": ("topic",), **fields}
    with pytest.raises(UsageError, match=reason):
        ExportOptions(**values).check()
