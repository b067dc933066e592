"""Batches of ``maxBytesPerTrigger``: what fits, shares of queues, the search by places, and a row above the limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from pymq.errors import UsageError
from pymq.model.layout import RECORD_OVERHEAD_BYTES
from pymq.spark.planning.cluster import Entry, Queue
from pymq.spark.source.byte_limit import ADDED_ENTRIES_MAX, within_bytes
from pymq.spark.source.options import SourceOptions
from pymq.spark.source.stream import PymqStreamReader
from pymq.wire.codes import RequestCode
from tests.spark.fake_cluster import BROKER, FakeCluster
from tests.spark.record_bytes import record

KIB, MIB = 1024, 1024**2


class Log:
    """Queues of messages in one log, in the order in which they were stored."""

    def __init__(self, *messages: tuple[int, int]) -> None:
        """``messages``: (queue id, size)."""
        self.queues: dict[Queue, list[Entry]] = {}
        self.listed = 0
        place = 0
        for queue_id, size in messages:
            self.queues.setdefault(Queue("T", BROKER, queue_id, ()), []).append(Entry(place, size))
            place += size

    def ask(self, asks: Sequence[tuple[Queue, int, int]]) -> list[list[Entry]]:
        found = [self.queues[queue][first : first + count] for queue, first, count in asks]
        self.listed += sum(map(len, found))
        return found

    def cut(self, bytes_max: int, begin: dict[int, int] | None = None, turn: int = 0) -> dict[int, int]:
        lows = {queue: (begin or {}).get(queue.queue_id, 0) for queue in self.queues}
        ends = {queue: len(entries) for queue, entries in self.queues.items()}
        return {queue.queue_id: end for queue, end in within_bytes(lows, ends, bytes_max, self.ask, turn).items()}

    def size(self, ends: dict[int, int], begin: dict[int, int] | None = None) -> int:
        return sum(
            entry.size_bytes
            for queue, entries in self.queues.items()
            for entry in entries[(begin or {}).get(queue.queue_id, 0) : ends[queue.queue_id]]
        )


@pytest.mark.parametrize(("bytes_max", "end"), [(299, 2), (300, 3), (301, 3), (1000, 4)])
def test_a_batch_ends_at_the_last_row_that_fits(bytes_max: int, end: int) -> None:
    assert Log(*[(0, 100)] * 4).cut(bytes_max) == {0: end}


@pytest.mark.parametrize("bytes_max", [1, RECORD_OVERHEAD_BYTES, 4 * MIB - 1])
def test_a_row_above_the_limit_comes_alone(bytes_max: int) -> None:
    assert Log((0, 4 * MIB), (0, 100), (1, 4 * MIB)).cut(bytes_max) == {0: 1, 1: 0}


def test_each_queue_has_its_turn_when_one_row_fills_a_batch() -> None:
    log = Log(*[(queue_id, 4 * MIB) for queue_id in range(3)] * 5)
    begin = dict.fromkeys(range(3), 0)
    for turn in range(15):
        end = log.cut(MIB, begin, turn)
        assert sum(end.values()) == sum(begin.values()) + 1
        begin = end
    assert begin == {0: 5, 1: 5, 2: 5}


def test_large_rows_beside_small_ones_fill_batches_to_near_the_limit() -> None:
    log = Log(*[(0, 4 * MIB), *[(1, 100)] * 50] * 40)
    begin = {0: 0, 1: 0}
    batches: list[int] = []
    while begin != {0: 40, 1: 2000}:
        end = log.cut(16 * MIB, begin, len(batches))
        batches.append(log.size(end, begin))
        begin = end
    assert max(batches) <= 16 * MIB and min(batches[:-1]) > 11 * MIB and len(batches) <= 14


def test_a_queue_leaves_what_it_does_not_need() -> None:
    log = Log(*[(0, 100)] * 3, *[(1, 100)] * 50)
    assert log.cut(2300) == {0: 3, 1: 20}


@pytest.mark.parametrize("more", [-1, 0, 1, 500_000])
def test_beyond_the_added_entries_places_are_searched(more: int) -> None:
    rows = ADDED_ENTRIES_MAX + more
    log = Log(*[(0, 100)] * (rows + 9))
    assert log.cut(rows * 100 + 99) == {0: rows}
    assert log.listed <= ADDED_ENTRIES_MAX + 1 + 17 * 6


def test_messages_of_others_between_make_a_batch_smaller_but_never_larger() -> None:
    log = Log(*[(0, 100), (1, 300)] * 30_000)
    end = log.cut(6_000_000, {1: 30_000})
    assert end == {0: ADDED_ENTRIES_MAX + (6_000_000 - ADDED_ENTRIES_MAX * 100) // 400, 1: 30_000}


@pytest.mark.parametrize("bytes_max", [6_000_000, 11_999_900, 12_000_000])
def test_queues_of_one_log_are_searched_together(bytes_max: int) -> None:
    log = Log(*[(queue_id, 100) for queue_id in range(4)] * 30_000)
    end = log.cut(bytes_max)
    assert bytes_max - 400 <= log.size(end) <= bytes_max


def test_the_queue_that_is_behind_is_searched_first() -> None:
    log = Log(*[(0, 100)] * 20_000, *[(1, 100)] * 20_000)
    end = log.cut(2_000_000)
    assert end == {0: 12_000, 1: ADDED_ENTRIES_MAX}


def test_messages_of_an_inner_batch_have_one_place_and_count_once() -> None:
    queue = Queue("T", BROKER, 0, ())
    entries = [Entry(n // 10 * 1000, 1000) for n in range(100)]
    assert within_bytes({queue: 0}, {queue: 100}, 2500, lambda asks: [entries[a : a + n] for _, a, n in asks], 0) == {
        queue: 20
    }


def test_rows_that_no_broker_lists_come_one_by_one() -> None:
    queue = Queue("T", BROKER, 0, ())
    assert within_bytes({queue: 4}, {queue: 9}, 10**6, lambda asks: [[] for _ in asks], 0) == {queue: 5}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(RECORD_OVERHEAD_BYTES, 5000)), min_size=1, max_size=60),
    st.integers(1, 20_000),
    st.integers(0, 9),
)
def test_batches_are_within_the_limit_or_of_one_row_and_reach_the_end(
    messages: list[tuple[int, int]], bytes_max: int, turn: int
) -> None:
    log = Log(*messages)
    begin = {queue.queue_id: 0 for queue in log.queues}
    goal = {queue.queue_id: len(entries) for queue, entries in log.queues.items()}
    while begin != goal:
        end = log.cut(bytes_max, begin, turn)
        rows = sum(end[key] - begin[key] for key in end)
        assert rows == 1 or (rows > 1 and log.size(end, begin) <= bytes_max)
        begin, turn = end, turn + 1


def reader(cluster: FakeCluster, **options: str) -> PymqStreamReader:
    given_options = {"namesrv": cluster.address, "startingOffsets": "earliest", **options}
    return PymqStreamReader(SourceOptions(given_options), ("queueId", "queueOffset"))


def fill(cluster: FakeCluster, sizes: Sequence[int]) -> list[int]:
    """Add messages with bodies of these sizes to a queue; return their stored sizes."""
    place, stored = 0, []
    for offset, size in enumerate(sizes):
        raw = record(offset, bytes(size), physical_offset=place)
        cluster.add("T", 0, [raw])
        stored.append(len(raw))
        place += len(raw)
    return stored


def at(offset: int) -> dict[str, Any]:
    return {"T": {BROKER: {"0": offset}}}


def end_of(stream: PymqStreamReader, begin: int) -> int:
    return stream.latestOffset(at(begin), stream.getDefaultReadLimit())["T"][BROKER]["0"]


def test_a_stream_ends_its_batches_by_bytes(cluster: FakeCluster) -> None:
    sizes = fill(cluster, [100, 100, 50_000, 100, 100])
    stream = reader(cluster, maxBytesPerTrigger="20KB")
    assert stream.getDefaultReadLimit() == ReadMaxBytes(20 * KIB)
    assert [end_of(stream, begin) for begin in (0, 2, 3)] == [2, 3, 5]
    assert end_of(reader(cluster, maxBytesPerTrigger=str(sum(sizes[:3]))), 0) == 3
    assert end_of(reader(cluster, maxBytesPerTrigger=str(sum(sizes[:3]) - 1)), 0) == 2


def test_the_lower_of_two_limits_counts(cluster: FakeCluster) -> None:
    fill(cluster, [100] * 50)
    few_rows = reader(cluster, maxBytesPerTrigger="1MB", maxOffsetsPerTrigger="7")
    assert few_rows.getDefaultReadLimit() == ReadMaxRows(7) and end_of(few_rows, 0) == 7
    few_bytes = reader(cluster, maxBytesPerTrigger="1KB", maxOffsetsPerTrigger="40")
    assert 0 < end_of(few_bytes, 0) < 7


def test_available_now_reaches_its_target_in_batches_of_bytes(cluster: FakeCluster) -> None:
    fill(cluster, [5000] * 10)
    stream = reader(cluster, maxBytesPerTrigger="12KB")
    stream.prepareForTriggerAvailableNow()
    fill_more = [record(n, bytes(10), physical_offset=10**6 + n * 1000) for n in range(10, 14)]
    cluster.add("T", 0, fill_more)
    assert [end_of(stream, begin) for begin in (0, 2, 4, 6, 8, 10)] == [2, 4, 6, 8, 10, 10]


def test_a_trigger_without_limits_asks_for_no_sizes(cluster: FakeCluster) -> None:
    fill(cluster, [5000] * 10)
    stream = reader(cluster, maxBytesPerTrigger="12KB")
    assert stream.latestOffset(at(0), ReadAllAvailable())["T"][BROKER]["0"] == 10
    assert not cluster.asked[RequestCode.QUERY_CONSUME_QUEUE]


def test_messages_that_were_deleted_take_no_bytes(cluster: FakeCluster) -> None:
    fill(cluster, [5000] * 10)
    cluster.min_offsets["T", 0] = 6
    assert end_of(reader(cluster, maxBytesPerTrigger="12KB", failOnDataLoss="false"), 0) == 8


def test_a_queue_that_was_made_again_stays_until_its_rows_come(cluster: FakeCluster) -> None:
    for queue_id, size in ((0, 500), (1, 500)):
        cluster.add("T", queue_id, [record(n, bytes(size), queue_id=queue_id) for n in range(4)])
    stream = reader(cluster, maxBytesPerTrigger="1", failOnDataLoss="false")
    begin = {"T": {BROKER: {"0": 9, "1": 9}}}
    end = stream.latestOffset(begin, stream.getDefaultReadLimit())["T"][BROKER]
    assert sorted(end.values()) == [1, 9]


def test_a_broker_that_says_no_sizes_is_named_with_what_to_write(cluster: FakeCluster) -> None:
    fill(cluster, [100])
    cluster.lists_entries = False
    with pytest.raises(UsageError, match=r"maxBytesPerTrigger needs .* no 321.*: write maxOffsetsPerTrigger"):
        end_of(reader(cluster, maxBytesPerTrigger="1MB"), 0)


@pytest.mark.parametrize("text", ["0", "-1", "many", "1 XB", "", "0.4"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"maxBytesPerTrigger|is not a size"):
        assert SourceOptions({"maxBytesPerTrigger": text}).batch_bytes_max


@pytest.mark.slow
def test_spark_runs_a_query_in_batches_of_bytes(spark: Any, cluster: FakeCluster, tmp_path: Any) -> None:
    fill(cluster, [100, 100, 50_000, 100, 100])
    source = spark.readStream.format("pymq").option("namesrv", cluster.address).option("startingOffsets", "earliest")
    lines = source.option("maxBytesPerTrigger", "20KB").option("columns", "queueOffset").load("T")
    counts: dict[int, int] = {}
    query = (
        lines.writeStream.foreachBatch(lambda frame, number: counts.update({number: frame.count()}))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert list(counts.values()) == [2, 1, 2]
