"""Repeated messages are left out, and which ones does not depend on how a queue is split."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.spark.planning.planner import PartitionSizes
from pymq.spark.planning.ranges import QueueRange, ReadSettings
from pymq.spark.planning.selection import ALL
from pymq.spark.reading.unrepeated import DUPLICATE_WINDOW_ROWS
from pymq.spark.source.options import UNSPLIT_ROWS, SourceOptions
from pymq.spark.source.sources_of_rows import open_reader
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record


def kept(part: QueueRange, window: int, batch_rows: int = 8192) -> list[int]:
    reading = ReadSettings(columns=("queueOffset",), duplicate_window_rows=window, batch_rows=batch_rows)
    reader = open_reader(part, reading)
    batches = list(reader.batches())
    assert reader.lost == 0 and all(batch.schema.names == ["queueOffset"] and batch.num_rows for batch in batches)
    return [offset for batch in batches for offset in batch.column("queueOffset").to_pylist()]


@given(st.lists(st.integers(0, 8), min_size=1, max_size=40), st.integers(1, 12), st.integers(0, 40), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_the_rows_are_the_same_however_a_queue_is_split(
    numbers: list[int], window: int, middle: int, batch_rows: int
) -> None:
    expected = [at for at, number in enumerate(numbers) if number not in numbers[max(at - window, 0) : at]]
    with FakeCluster() as cluster:
        cluster.add("T", 0, [record(at, b"%d" % n, properties=b"UNIQ_KEY\x01U\x02") for at, n in enumerate(numbers)])
        whole = cluster.range()
        assert kept(whole, window, batch_rows) == expected
        cut = min(middle, len(numbers))
        parts = [replace(whole, to_offset=cut), replace(whole, from_offset=cut)]
        assert [offset for part in parts if part.count for offset in kept(part, window)] == expected


def test_an_equal_body_with_another_id_is_no_repetition_and_rows_before_the_first_one_may_be_gone() -> None:
    with FakeCluster() as cluster:
        ids = (b"A", b"A", b"B", b"A")
        cluster.add("T", 0, [record(at, b"x", properties=b"UNIQ_KEY\x01%b\x02" % one) for at, one in enumerate(ids)])
        assert kept(cluster.range(), 10) == [0, 2]
        cluster.min_offsets["T", 0] = 1
        assert kept(cluster.range(start=2), 10) == [2]


def test_the_option() -> None:
    for text, rows in (("true", DUPLICATE_WINDOW_ROWS), ("false", 0), ("20000", 20_000), ("1", DUPLICATE_WINDOW_ROWS)):
        options = SourceOptions({"dropDuplicates": text})
        assert options.read_settings((), ALL).duplicate_window_rows == rows
        assert options.partition_sizes() == PartitionSizes(UNSPLIT_ROWS if rows else None, 1)
    with pytest.raises(UsageError, match="dropDuplicates is 'maybe'"):
        SourceOptions({"dropDuplicates": "maybe"}).read_settings((), ALL)
