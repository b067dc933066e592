"""``readStream.format("pymq")``: batches, restarts, limits, and queues that come, go and are made again."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pymq.clock import ManualClock
from pymq.errors import NotFoundError, PymqError, UnreachableError, UsageError
from pymq.spark.planning.ranges import DataLossError
from pymq.spark.session import gateway
from pymq.spark.session.failures import translated
from pymq.spark.source.options import SourceOptions
from pymq.spark.source.stream import PymqStreamReader
from pymq.wire.codes import RequestCode
from tests.spark.fake_cluster import BROKER, FakeCluster
from tests.spark.kills.attack import committed_files
from tests.spark.kills.victims import descendants, is_daemon, kill
from tests.spark.record_bytes import record

ALL = ReadAllAvailable()


def fill(cluster: FakeCluster, topic: str, *sizes: int) -> None:
    for queue_id, size in enumerate(sizes):
        start = len(cluster.queues[topic, queue_id])
        cluster.add(topic, queue_id, [record(n, topic=topic, queue_id=queue_id) for n in range(start, start + size)])


def reader(cluster: FakeCluster, *, clock: Any = None, sleep: Any = time.sleep, **options: str) -> PymqStreamReader:
    given = {"namesrv": cluster.address, "startingOffsets": "earliest", **options}
    return PymqStreamReader(SourceOptions(given), ("queueId", "queueOffset"), clock=clock, sleep=sleep)


def offsets(**topics: list[int]) -> dict[str, Any]:
    return {
        topic: {BROKER: {str(queue_id): end for queue_id, end in enumerate(ends)}} for topic, ends in topics.items()
    }


def latest(stream: PymqStreamReader, start: dict[str, Any], limit: Any = ALL) -> dict[str, Any]:
    """Return the end of the next batch without its digests."""
    end = stream.latestOffset(start, limit)
    return {topic: brokers for topic, brokers in end.items() if not topic.startswith("#")}


def rows(stream: PymqStreamReader, start: dict, end: dict) -> list[tuple]:
    """Return the rows of a batch as (queue id, offset)."""
    return sorted(
        row
        for partition in stream.partitions(start, end)
        for batch in stream.read(partition)
        for row in zip(*(batch.column(name).to_pylist() for name in ("queueId", "queueOffset")), strict=True)
    )


def test_a_query_begins_at_its_start_and_latest_is_resolved_once(cluster: FakeCluster) -> None:
    fill(cluster, "T", 5, 3)
    assert reader(cluster).initialOffset() == offsets(T=[0, 0])
    stream = reader(cluster, startingOffsets="latest")
    assert stream.initialOffset() == offsets(T=[5, 3])
    fill(cluster, "T", 2, 0)
    assert stream.initialOffset() == offsets(T=[5, 3])
    assert latest(stream, offsets(T=[5, 3])) == offsets(T=[7, 3])
    assert rows(stream, offsets(T=[5, 3]), offsets(T=[7, 3])) == [(0, 5), (0, 6)]
    assert stream.reportLatestOffset() == offsets(T=[7, 3])


def test_new_topics_and_queues_appear(cluster: FakeCluster) -> None:
    fill(cluster, "T", 5)
    stream = reader(cluster)
    fill(cluster, "T", 0, 2)
    fill(cluster, "U", 1)
    end = latest(stream, offsets(T=[5]))
    assert end == offsets(T=[5, 2], U=[1])
    assert rows(stream, offsets(T=[5]), offsets(T=[5, 2])) == [(1, 0), (1, 1)]


def test_a_limit_and_the_shares_of_queues(cluster: FakeCluster) -> None:
    fill(cluster, "T", 100, 50)
    stream = reader(cluster, maxOffsetsPerTrigger="30")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(30)
    assert latest(stream, offsets(T=[0, 0]), limit) == offsets(T=[20, 10])
    assert latest(stream, offsets(T=[0, 0])) == offsets(T=[100, 50])


def test_available_now_ends_with_what_was_there(cluster: FakeCluster) -> None:
    fill(cluster, "T", 10)
    stream = reader(cluster, minOffsetsPerTrigger="1000")
    stream.prepareForTriggerAvailableNow()
    fill(cluster, "T", 5, 5)
    assert latest(stream, offsets(T=[0])) == offsets(T=[10, 0])
    assert latest(stream, offsets(T=[10, 0])) == offsets(T=[10, 0])
    # The end that an earlier run has planned counts, also when it is beyond the target.
    assert latest(stream, offsets(T=[12, 0])) == offsets(T=[12, 0])


def test_small_batches_wait_for_rows_or_for_the_delay(cluster: FakeCluster) -> None:
    clock = ManualClock()
    fill(cluster, "T", 10)
    stream = reader(cluster, clock=clock, minOffsetsPerTrigger="20", maxTriggerDelay="30s")
    begin = offsets(T=[0])
    assert latest(stream, begin) == begin
    clock.advance(29_999)
    assert latest(stream, begin) == begin
    clock.advance(1)
    assert latest(stream, begin) == offsets(T=[10])
    fill(cluster, "T", 20)
    assert latest(stream, offsets(T=[10])) == offsets(T=[30])
    clock.advance(60_000)
    assert latest(stream, offsets(T=[30])) == offsets(T=[30])


def test_a_queue_that_was_made_again_fails_or_is_read_from_its_begin(cluster: FakeCluster) -> None:
    fill(cluster, "T", 10)
    with pytest.raises(DataLossError, match=r"T broker-a/0 \[10, 40\): it was read up to 40 and ends at 10, so"):
        reader(cluster).latestOffset(offsets(T=[40]), ALL)
    stream = reader(cluster, failOnDataLoss="false")
    end = latest(stream, offsets(T=[40]))
    assert end == offsets(T=[10])
    assert rows(stream, offsets(T=[40]), end) == [(0, n) for n in range(10)]


def test_a_queue_that_was_made_again_with_more_messages_is_noticed(cluster: FakeCluster) -> None:
    fill(cluster, "T", 10)
    at = reader(cluster).latestOffset(offsets(T=[0]), ALL)
    assert latest(reader(cluster), at) == offsets(T=[10])
    cluster.queues["T", 0] = [record(n, b"other", topic="T") for n in range(25)]
    with pytest.raises(DataLossError, match=r"T broker-a/0 \[10, 25\): it holds another message at offset 9 than"):
        latest(reader(cluster), at)
    stream = reader(cluster, failOnDataLoss="false")
    again = stream.latestOffset(at, ALL)
    assert again == offsets(T=[0]) and rows(stream, at, again) == []
    end = stream.latestOffset(again, ALL)
    assert latest(stream, again) == offsets(T=[25]) and len(rows(stream, again, end)) == 25


def other(count: int) -> list[bytes]:
    """Return the records of a topic that was made again."""
    return [record(n, b"other", topic="T") for n in range(count)]


BOTH_KINDS = pytest.mark.parametrize("is_pymq", [False, True], ids=["rocketmq", "pymq"])


def rows_of_looks(stream: PymqStreamReader, at: dict[str, Any], limit: Any = ALL, count: int = 3) -> tuple[list, dict]:
    """Return the rows of the next batches in order, and the offsets after them, as a restart would read them."""
    seen: list[tuple] = []
    for _ in range(count):
        end = json.loads(json.dumps(stream.latestOffset(at, limit)))
        seen += rows(stream, at, end)
        at = end
    return seen, at


@BOTH_KINDS
@pytest.mark.parametrize("count", [25, 11, 10, 4])
def test_a_topic_made_again_while_the_query_runs_is_read_whole(cluster: FakeCluster, is_pymq: bool, count: int) -> None:
    cluster.deleted_below = {} if is_pymq else None
    fill(cluster, "T", 10)
    stream = reader(cluster, failOnDataLoss="false")
    at = stream.latestOffset(stream.initialOffset(), ALL)
    assert latest(stream, at) == offsets(T=[10])  # a look without news
    cluster.make_again("T", other(count))
    if not is_pymq and count == 10:  # of the same length: its next message shows it
        assert latest(stream, at) == offsets(T=[10])
        cluster.add("T", 0, other(11)[10:])
    with pytest.raises(DataLossError, match="was made again"):
        reader(cluster).latestOffset(at, ALL)
    seen, at = rows_of_looks(stream, at)
    assert seen == [(0, n) for n in range(len(cluster.queues["T", 0]))]
    assert stream.latestOffset(at, ALL) == at


@BOTH_KINDS
@pytest.mark.parametrize("count", [25, 10])
def test_a_topic_made_again_between_plan_and_read_gives_each_row_once(
    cluster: FakeCluster, is_pymq: bool, count: int
) -> None:
    cluster.deleted_below = {} if is_pymq else None
    fill(cluster, "T", 10)
    stream = reader(cluster, failOnDataLoss="false")
    begin = stream.initialOffset()
    at = stream.latestOffset(begin, ALL)
    cluster.make_again("T", other(count))
    with pytest.raises(DataLossError, match="made again"):
        rows(reader(cluster), begin, at)
    assert rows(stream, begin, at) == []
    if not is_pymq and count == 10:
        cluster.add("T", 0, other(11)[10:])
    assert rows_of_looks(stream, at)[0] == [(0, n) for n in range(len(cluster.queues["T", 0]))]


def test_a_topic_made_again_in_the_middle_of_a_read_is_noticed(cluster: FakeCluster) -> None:
    """RocketMQ's brokers don't say it: the read fails, so that no batch has rows of both."""
    fill(cluster, "T", 100)

    def select(raw: bytes, expression: str) -> bool:
        if int.from_bytes(raw[20:28], "big") == 40:
            cluster.queues["T", 0] = other(100)
        return True

    cluster.select = select
    stream = reader(cluster, failOnDataLoss="false")
    begin = stream.initialOffset()
    at = stream.latestOffset(begin, ALL)
    with pytest.raises(DataLossError, match="rows of both came: read it again"):
        rows(stream, begin, at)
    assert rows(stream, begin, at) == []


@pytest.mark.parametrize("lie", [2**63, -(2**63) - 1, "x", "1" * 5000])
def test_a_broker_s_number_of_deleted_records_that_is_none_fails_the_look(cluster: FakeCluster, lie: Any) -> None:
    cluster.deleted_below = {}
    fill(cluster, "T", 5)
    stream = reader(cluster, subscribe="T")
    at = stream.latestOffset(stream.initialOffset(), ALL)
    cluster.deleted_below = {"T": lie}
    with pytest.raises(PymqError, match="pymqDeletedBelow"):
        stream.latestOffset(at, ALL)
    cluster.deleted_below = {}
    fill(cluster, "T", 5)
    assert rows_of_looks(stream, at)[0] == [(0, n) for n in range(5, 10)]


def test_a_number_of_deleted_records_that_falls_repeats_no_row(cluster: FakeCluster) -> None:
    cluster.deleted_below = {"T": 2**63 - 1}
    fill(cluster, "T", 5)
    stream = reader(cluster, subscribe="T")
    at = stream.latestOffset(stream.initialOffset(), ALL)
    for number in (7, 0, -1, -(2**63)):
        cluster.deleted_below = {"T": number}
        fill(cluster, "T", 5)
        seen, at = rows_of_looks(stream, at)
        end = len(cluster.queues["T", 0])
        assert seen == [(0, n) for n in range(end - 5, end)]


def test_a_limited_batch_lets_a_topic_that_was_made_again_begin(cluster: FakeCluster) -> None:
    cluster.deleted_below = {}
    fill(cluster, "T", 10)
    fill(cluster, "U", 100)
    stream = reader(cluster, failOnDataLoss="false")
    at = stream.latestOffset(offsets(T=[0], U=[0]), ALL)
    fill(cluster, "U", 100)
    cluster.make_again("T", other(30))
    seen, _ = rows_of_looks(stream, at, ReadMaxRows(7), 30)
    assert sorted(seen) == sorted([*((0, n) for n in range(30)), *((0, n) for n in range(100, 200))])


def test_a_slave_that_is_behind_is_no_loss(cluster: FakeCluster) -> None:
    """The master is killed, and its slave lacks the last messages: the query waits, and no row comes twice."""
    fill(cluster, "T", 40)
    clock = ManualClock()
    pauses: list[float] = []
    with FakeCluster() as slave:
        fill(slave, "T", 10)
        slave.brokers = {"0": "127.0.0.1:1", "1": slave.address}

        def pause(seconds: float) -> None:
            clock.advance(int(seconds * 1000))
            pauses.append(seconds)
            if len(pauses) == 4:
                slave.queues["T", 0] = list(cluster.queues["T", 0])

        at = reader(cluster).latestOffset(offsets(T=[0]), ALL)
        for loss in ("true", "false"):
            stream = reader(slave, clock=clock, sleep=pause, failOnDataLoss=loss)
            stream._is_connected = True
            assert latest(stream, at) == offsets(T=[40]) and len(pauses) == 4
            pauses.clear()
            slave.queues["T", 0] = slave.queues["T", 0][:10]
        pauses += [0] * 9  # so that it does not catch up
        with pytest.raises(UnreachableError, match="its master does not answer, and a slave ends at 10, before 40"):
            latest(stream, at)
        slave.brokers = {"1": slave.address}  # the name server has forgotten the master
        with pytest.raises(UnreachableError, match="its master does not answer"):
            latest(stream, at)


def test_queues_and_topics_that_are_gone(cluster: FakeCluster) -> None:
    fill(cluster, "T", 10, 10)
    fill(cluster, "U", 5)
    del cluster.queues["T", 1]
    stream = reader(cluster)
    assert latest(stream, offsets(T=[3, 4], U=[0])) == offsets(T=[10, 4], U=[5])
    with pytest.raises(DataLossError, match=r"T broker-a/1 \[4, 10\): its queue is gone"):
        stream.partitions(offsets(T=[3, 4]), offsets(T=[10, 10]))
    del cluster.queues["U", 0]
    named = reader(cluster, topics="T,U")
    with pytest.raises(DataLossError, match="topic U was deleted"):
        latest(named, offsets(T=[3], U=[5]))
    reporting = reader(cluster, topics="T,U", failOnDataLoss="false")
    assert latest(reporting, offsets(T=[3], U=[5])) == offsets(T=[10], U=[5])
    with pytest.raises(NotFoundError, match="'nope'"):
        reader(cluster, topics="nope").latestOffset({}, ALL)


@pytest.mark.parametrize(
    "choice",
    [{"topics": "T"}, {"topics": "T,U"}, {"topics": "T*"}, {"subscribePattern": "T"}, {"assign": '{"T": [0]}'}],
)
def test_a_topic_that_was_deleted_does_not_end_a_bounded_run(cluster: FakeCluster, choice: dict[str, str]) -> None:
    fill(cluster, "U", 5)
    stream = reader(cluster, failOnDataLoss="false", **choice)
    stream.prepareForTriggerAvailableNow()
    begin = offsets(T=[3], U=[0])
    end = latest(stream, begin)
    assert end == offsets(T=[3], U=[5] if "U" in choice.get("topics", "") else [0])
    assert rows(stream, begin, end) == [(0, n) for n in range(end["U"][BROKER]["0"])]


@pytest.mark.parametrize("loss", ["true", "false"])
def test_a_broker_that_is_away_is_no_loss_and_is_waited_for(cluster: FakeCluster, loss: str) -> None:
    fill(cluster, "T", 10)
    clock = ManualClock()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        clock.advance(int(seconds * 1000))
        pauses.append(seconds)
        cluster.is_registered = len(pauses) % 8 == 0

    stream = reader(cluster, clock=clock, sleep=pause, topics="T", failOnDataLoss=loss)
    begin, end = offsets(T=[3]), offsets(T=[10])
    cluster.is_registered = False
    with pytest.raises(UnreachableError, match="broker broker-a is not registered"):
        PymqStreamReader(
            SourceOptions({"namesrv": cluster.address, "topics": "T", "retryBudgetSeconds": "0"}), ("queueOffset",)
        )._ask(lambda view: stream._next_end(view, begin, ALL))
    assert not pauses
    cluster.is_registered = True
    assert latest(stream, begin) == end
    for count, ask in enumerate((lambda: latest(stream, begin) == end, lambda: len(rows(stream, begin, end)) == 7), 1):
        cluster.is_registered = False
        assert ask() and len(pauses) == count * 8
    short = reader(cluster, clock=clock, sleep=pause, topics="T", failOnDataLoss=loss, retryBudgetSeconds="2")
    assert latest(short, begin) == end
    cluster.is_registered = False
    with pytest.raises(UnreachableError, match="broker broker-a is not registered"):
        short.partitions(begin, end)
    assert len(pauses) == 20


def test_an_assigned_queue_that_is_gone_keeps_its_offset(cluster: FakeCluster) -> None:
    fill(cluster, "T", 10, 10)
    stream = reader(cluster, assign='{"T": [0, 1]}')
    del cluster.queues["T", 1]
    stream.prepareForTriggerAvailableNow()
    assert latest(stream, offsets(T=[3, 4])) == offsets(T=[10, 4])


def test_a_batch_asks_for_each_route_once(cluster: FakeCluster) -> None:
    fill(cluster, "T", 10)
    fill(cluster, "U", 10)
    stream = reader(cluster, topics="T,U", commitGroup="g")
    latest(stream, offsets(T=[3], U=[4]))
    assert cluster.asked[RequestCode.GET_ROUTEINFO_BY_TOPIC] == 2


def test_deleted_messages_fail_or_are_left_out(cluster: FakeCluster) -> None:
    fill(cluster, "T", 10)
    cluster.min_offsets["T", 0] = 4
    with pytest.raises(DataLossError, match="no longer has 4 messages"):
        rows(reader(cluster), offsets(T=[0]), offsets(T=[10]))
    assert len(rows(reader(cluster, failOnDataLoss="no"), offsets(T=[0]), offsets(T=[10]))) == 6


def test_the_finished_position_is_shown_as_a_group_s(cluster: FakeCluster) -> None:
    fill(cluster, "T", 10, 5)
    stream = reader(cluster, commitGroup="g")
    latest(stream, stream.initialOffset())
    latest(stream, offsets(T=[10, 5]))
    assert cluster.committed == {("g", "T", 0): 10, ("g", "T", 1): 5}


def test_a_broker_without_the_group_gets_it(cluster: FakeCluster) -> None:
    """Apache's brokers take no offsets of a group that they don't have."""
    fill(cluster, "T", 10, 5)
    cluster.groups = set()
    latest(reader(cluster, commitGroup="g"), offsets(T=[10, 5]))
    assert cluster.groups == {"g"} and cluster.committed == {("g", "T", 0): 10, ("g", "T", 1): 5}


def test_a_batch_does_not_need_a_master_to_show_progress(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(cluster, "T", 10)
    stream = reader(cluster, commitGroup="g")
    with monkeypatch.context() as patch:
        patch.setattr(
            "pymq.spark.planning.cluster.RemoteCluster.commit_offsets", Mock(side_effect=UnreachableError("away"))
        )
        assert latest(stream, offsets(T=[4])) == offsets(T=[10])
    latest(stream, offsets(T=[4]))
    assert cluster.committed == {("g", "T", 0): 4}


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "pushFilters"])
def test_options_of_batches_are_refused(cluster: FakeCluster, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is for spark.read: "):
        reader(cluster, **{name: "latest"})


def test_a_checkpoint_of_another_query_is_refused(cluster: FakeCluster) -> None:
    fill(cluster, "T", 1)
    with pytest.raises(UsageError, match="another query's"):
        reader(cluster).latestOffset({"logOffset": 5}, ALL)


def run_once(spark: Any, cluster: FakeCluster, home: Path, **options: str) -> Any:
    """Read all there is, to JSON lines; return the query."""
    stream = spark.readStream.format("pymq").option("namesrv", cluster.address)
    given = {"topics": "T", "columns": "topic,queueId,queueOffset", "startingOffsets": "earliest", **options}
    for name, value in given.items():
        stream = stream.option(name, value)
    with translated():
        query = (
            stream.load()
            .writeStream.format("json")
            .option("checkpointLocation", str(home / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(home / "out"))
        )
        query.awaitTermination()
    return query


def written(home: Path) -> list[tuple]:
    lines = [line for path in (home / "out").glob("*.json") for line in path.read_text().splitlines()]
    return sorted((row["queueId"], row["queueOffset"]) for row in map(json.loads, lines))


@pytest.mark.slow
@pytest.mark.spark
def test_a_query_continues_where_it_ended(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    fill(cluster, "T", 0, 0)
    run_once(spark, cluster, tmp_path)
    assert written(tmp_path) == []
    fill(cluster, "T", 70, 30)
    first = run_once(spark, cluster, tmp_path, maxOffsetsPerTrigger="40", commitGroup="g")
    assert sum(progress["numInputRows"] for progress in first.recentProgress) == 100
    assert len([progress for progress in first.recentProgress if progress["numInputRows"]]) == 3
    assert cluster.committed == {("g", "T", 0): 70, ("g", "T", 1): 30}
    fill(cluster, "T", 5, 5)
    run_once(spark, cluster, tmp_path)
    assert written(tmp_path) == sorted([*((0, n) for n in range(75)), *((1, n) for n in range(35))])
    with pytest.raises(PymqError, match="did you mean"):
        run_once(spark, cluster, tmp_path, colums="body")


@pytest.mark.slow
@pytest.mark.spark
def test_killed_workers_cost_no_row_and_double_none(spark: Any, cluster: FakeCluster, tmp_path: Path) -> None:
    """The short form of scripts/kill-streams: the workers die in the middle of a batch, twice.

    Daemons without workers live on: other tests share the JVM.
    """
    fill(cluster, "T", 70, 30)
    assert gateway._Current.gateway is not None
    jvm = gateway._Current.gateway.process.pid
    deaths: list[int] = []

    def select(raw: bytes, expression: str) -> bool:
        if int.from_bytes(raw[20:28], "big") == 64 and len(deaths) < 2:
            workers = [pid for pid in descendants(jvm) if not descendants(pid) and not is_daemon(pid)]
            deaths.append(len(workers))
            for pid in workers:
                kill(pid)
        return True

    cluster.select = select
    for _ in range(2):
        with pytest.raises(PymqError):
            run_once(spark, cluster, tmp_path, maxOffsetsPerTrigger="90")
    assert len(deaths) == 2 and all(deaths)
    run_once(spark, cluster, tmp_path)
    lines = [line for path in committed_files(tmp_path / "out") for line in Path(path).read_text().splitlines()]
    rows = sorted((row["queueId"], row["queueOffset"]) for row in map(json.loads, lines))
    assert rows == sorted([*((0, n) for n in range(70)), *((1, n) for n in range(30))])
