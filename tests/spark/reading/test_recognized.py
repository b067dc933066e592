"""A queue of RocketMQ's brokers is recognized by one record, before a range of it is read and after that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pymq.errors import UnreachableError
from pymq.model.record import decode_record
from pymq.spark.planning.ranges import DataLossError, Identity, QueueRange, ReadSettings
from pymq.spark.planning.single_records import record_digest
from pymq.spark.reading.recognized import RecognizedReader
from tests.spark.fake_cluster import FakeCluster
from tests.spark.record_bytes import record

FAIL = ReadSettings(columns=("queueOffset",))
REPORT = replace(FAIL, on_data_loss="report")


def planned(cluster: FakeCluster, offset: int) -> QueueRange:
    """Return the whole queue as a range that was planned when the queue held this record."""
    digest = record_digest(decode_record(cluster.queues["T", 0][offset]))
    return replace(cluster.range(), identity=Identity(None, offset, digest))


def read(part: QueueRange, settings: ReadSettings = FAIL) -> tuple[list[int], RecognizedReader]:
    sleeps: list[float] = []
    reader = RecognizedReader(part, settings, sleep=sleeps.append, monotonic=lambda: sum(sleeps))
    return [n for batch in reader.batches() for n in batch.column("queueOffset").to_pylist()], reader


def test_only_what_has_a_digest_and_no_word_of_its_broker_is_looked_at(cluster: FakeCluster) -> None:
    part = cluster.range("T", stop=1)
    looks = [(None, False), (Identity(5), False), (Identity(5, 3, "x"), False), (Identity(None, 3, "x"), True)]
    for identity, expected in looks:
        assert replace(part, identity=identity).needs_look is expected


def test_the_same_queue_is_read(cluster: FakeCluster) -> None:
    cluster.add("T", 0, [record(n) for n in range(60)])
    part = planned(cluster, 59)
    assert read(part)[0] == list(range(60))
    cluster.min_offsets["T", 0] = 60  # the record was deleted by its age, and so were those of the range
    assert read(part, REPORT)[1].lost == 60


@pytest.mark.parametrize("count", [60, 90, 30])
def test_another_queue_is_a_loss(cluster: FakeCluster, count: int) -> None:
    cluster.add("T", 0, [record(n) for n in range(60)])
    part = planned(cluster, 59)
    cluster.make_again("T", [record(n, b"other") for n in range(count)])
    offsets, reader = read(part, REPORT)
    assert (offsets, reader.lost) == ([], 60)
    with pytest.raises(DataLossError, match="60 messages are gone: the topic was deleted and made again after"):
        read(part)


@pytest.mark.parametrize("count", [60, 41])
@pytest.mark.parametrize("settings", [FAIL, REPORT])
def test_rows_of_two_queues_fail_the_read(cluster: FakeCluster, count: int, settings: Any) -> None:
    cluster.add("T", 0, [record(n) for n in range(60)])
    part = planned(cluster, 59)

    def select(raw: bytes, expression: str) -> bool:
        if int.from_bytes(raw[20:28], "big") == 40:
            cluster.queues["T", 0] = [record(n, b"other") for n in range(count)]
        return True

    cluster.select = select
    with pytest.raises(DataLossError, match=r"rows of both came|no longer has"):
        read(part, settings)


def test_a_slave_that_lacks_the_record_says_nothing(cluster: FakeCluster) -> None:
    cluster.add("T", 0, [record(n) for n in range(60)])
    part = replace(planned(cluster, 59), to_offset=40)
    cluster.queues["T", 0] = cluster.queues["T", 0][:40]
    assert read(replace(part, has_master=False))[0] == list(range(40))
    with pytest.raises(DataLossError, match="made again"):
        read(part)


def test_a_broker_that_is_away_is_waited_for() -> None:
    part = QueueRange("T", "broker-a", 0, 0, 5, ("127.0.0.1:1",), identity=Identity(None, 4, "digest"))
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        read(part)
