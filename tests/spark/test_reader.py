"""A range is read whole, once and in order, whatever the broker's caps, hiccups and losses."""

from __future__ import annotations

import pytest

from pymq.errors import RefusedError, UnreachableError, UsageError
from pymq.model.record import MalformedRecordError
from pymq.spark.ranges import DataLossError, QueueRange, ReadSettings, parse_tags
from pymq.spark.reader import RangeReader
from pymq.wire.codes import ResponseCode
from tests.spark.fake_cluster import FakeCluster
from tests.spark.records import record

OFFSETS = ReadSettings(columns=("queueOffset",))


def filled(count: int, **caps) -> FakeCluster:
    cluster = FakeCluster(**caps)
    cluster.add("T", 0, [record(n, b"x" * (n % 200)) for n in range(count)])
    return cluster


def read(part: QueueRange, settings: ReadSettings = OFFSETS) -> tuple[list[int], RangeReader, list[float]]:
    sleeps: list[float] = []
    reader = RangeReader(part, settings, sleep=sleeps.append)
    offsets = [offset for batch in reader.batches() for offset in batch.column("queueOffset").to_pylist()]
    return offsets, reader, sleeps


@pytest.mark.parametrize("caps", [{"count_cap": 32}, {"count_cap": 5000}, {"bytes_cap": 3000, "count_cap": 999}])
def test_reads_everything_in_order(caps):
    with filled(3000, **caps) as cluster:
        offsets, reader, sleeps = read(cluster.range())
    assert offsets == list(range(3000))
    assert (reader.rows, reader.lost, sleeps) == (3000, 0, [])
    assert reader.bytes_read == sum(map(len, cluster.queues["T", 0]))


def test_reads_only_its_range():
    with filled(500) as cluster:
        assert read(cluster.range(start=17, stop=303))[0] == list(range(17, 303))
        assert read(cluster.range(start=9, stop=9))[0] == []


def test_batches_are_cut_by_rows_and_by_bytes():
    with filled(1000, count_cap=100) as cluster:
        rows = RangeReader(cluster.range(), ReadSettings(columns=("queueId",), batch_rows=200))
        assert all(200 <= batch.num_rows < 300 for batch in list(rows.batches())[:-1])
        size = RangeReader(cluster.range(), ReadSettings(columns=("queueId",), batch_size_bytes=1))
        assert max(batch.num_rows for batch in size.batches()) <= 100


def test_a_lost_connection_is_mended():
    with filled(400) as cluster:
        cluster.answers += [-1]
        offsets, reader, sleeps = read(cluster.range())
        assert offsets == list(range(400)) and len(sleeps) == 1
        assert reader.lost == 0


def test_a_busy_broker_is_asked_again():
    with filled(100) as cluster:
        cluster.answers += [ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL]
        offsets, _, sleeps = read(cluster.range())
        assert offsets == list(range(100)) and len(sleeps) == 2


def test_another_address_serves_when_the_first_is_gone():
    with filled(50) as cluster:
        gone = "127.0.0.1:1"
        part = QueueRange("T", "broker-a", 0, 0, 50, (gone, cluster.address))
        assert read(part)[0] == list(range(50))


def test_nobody_there_is_unreachable_after_some_tries():
    part = QueueRange("T", "broker-a", 0, 0, 50, ("127.0.0.1:1",))
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        read(part)


def test_a_refusal_is_raised_at_once():
    with filled(10) as cluster:
        cluster.answers += [ResponseCode.NO_PERMISSION]
        with pytest.raises(RefusedError, match="code 16"):
            read(cluster.range())


def test_messages_gone_from_the_front_fail_or_are_reported():
    with filled(300) as cluster:
        cluster.min_offsets["T", 0] = 120
        part = cluster.range(start=50)
        with pytest.raises(DataLossError, match=r"no longer has 70 messages of \[50, 120\)"):
            read(part)
        offsets, reader, _ = read(part, ReadSettings(columns=("queueOffset",), on_data_loss="report"))
        assert offsets == list(range(120, 300)) and reader.lost == 70


def test_a_queue_that_became_shorter_is_a_loss_too():
    with filled(100) as cluster:
        part = QueueRange("T", "broker-a", 0, 90, 130, (cluster.address,))
        with pytest.raises(DataLossError):
            read(part)
        offsets, reader, _ = read(part, ReadSettings(columns=("queueOffset",), on_data_loss="report"))
        assert offsets == list(range(90, 100)) and reader.lost == 30


def test_a_hole_in_the_middle_is_counted():
    with filled(100) as cluster:
        cluster.queues["T", 0][40] = b""
        offsets, reader, _ = read(cluster.range(), ReadSettings(columns=("queueOffset",), on_data_loss="report"))
        assert offsets == [n for n in range(100) if n != 40] and reader.lost == 1


def test_tags_are_checked_exactly_and_no_match_is_progress():
    with filled(200) as cluster:
        # The broker lets the tag B through as well as the wanted one: equal hashes. Most of the range matches nothing.
        cluster.select = lambda raw, wanted: wanted == "A || C" and int.from_bytes(raw[20:28], "big") % 40 < 2
        reader = RangeReader(cluster.range(), ReadSettings(columns=("queueOffset",), tag="A || C"))
        rows = [row for batch in reader.batches() for row in batch.to_pylist()]
    assert rows == [{"queueOffset": n} for n in (1, 41, 81, 121, 161)]
    assert reader.rows == 5 and reader.lost == 0


def test_damaged_bytes_are_refused():
    with filled(10) as cluster:
        cluster.queues["T", 0][3] = cluster.queues["T", 0][3][:-1]
        with pytest.raises(MalformedRecordError):
            read(cluster.range())


def test_tag_expressions():
    assert parse_tags("*") is None and parse_tags("") is None and parse_tags("A || *") is None
    assert parse_tags("A||B ") == {"A", "B"}
    with pytest.raises(UsageError):
        parse_tags("||")
    with pytest.raises(UsageError, match="pull_depth is 0"):
        ReadSettings(pull_depth=0)
