"""Topics and positions become ranges."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.errors import NotFoundError, RequestTimeoutError, UnreachableError, UsageError
from pymq.spark.planning import cluster as cluster_module
from pymq.spark.planning.cluster import Queue, RemoteCluster
from pymq.spark.planning.identity import Known
from pymq.spark.planning.planner import (
    PartitionSizes,
    Plan,
    make_plan,
    rounds,
    split_ranges,
)
from pymq.spark.planning.positions import LATEST, Position, parse_position
from pymq.spark.planning.ranges import Identity, QueueRange, ResumeError, total_count
from pymq.spark.planning.topics import TopicChoice
from pymq.wire.codes import RequestCode
from tests.spark.fake_cluster import BROKER, FakeCluster
from tests.spark.record_bytes import BORN_MS, record

NOW_MS = BORN_MS + 1000
EARLIEST = Position()
END = Position(symbol=LATEST)


@pytest.mark.parametrize("has_stats", [True, False])
def test_many_queues_are_asked_for_at_once(cluster: FakeCluster, view: RemoteCluster, has_stats: bool) -> None:
    for n in range(300):
        cluster.add("many", n, [record(offset, queue_id=n, topic="many") for offset in range(n % 3)])
    cluster.min_offsets["many", 2] = 1
    cluster.has_stats = has_stats
    plan = make_plan(view, chosen("many"), EARLIEST, END)
    assert [(part.from_offset, part.to_offset) for part in plan.queues[:4]] == [(0, 0), (0, 1), (1, 2), (0, 0)]
    assert plan.rows == 299
    asked = cluster.asked
    assert asked[RequestCode.GET_TOPIC_STATS_INFO] == 1
    assert asked[RequestCode.GET_MIN_OFFSET] == asked[RequestCode.GET_MAX_OFFSET] == (0 if has_stats else 300)
    queues = plan.origins
    digests = view.record_digests({queue: queue.queue_id % 3 - 1 for queue in queues if queue.queue_id % 3})
    assert len(digests) == 200 and view.record_digests({queues[2]: 2}) == {}
    view.commit_offsets("g", dict.fromkeys(queues, 7))
    assert cluster.committed == {("g", "many", n): 7 for n in range(300)}


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_topic_of_many_queues_is_asked_for_in_small_answers(
    cluster: FakeCluster, view: RemoteCluster, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    monkeypatch.setattr(cluster_module, "STATISTICS_QUEUES_MAX", 20)
    for n in range(20 + beyond):
        cluster.add("large", n, [record(offset, queue_id=n, topic="large") for offset in range(2)])
    assert make_plan(view, chosen("large", "orders"), EARLIEST, END).rows == 190 + 2 * beyond
    asked = cluster.asked
    assert asked[RequestCode.GET_TOPIC_STATS_INFO] == 2 - beyond
    assert asked[RequestCode.GET_MIN_OFFSET] == asked[RequestCode.GET_MAX_OFFSET] == 21 * beyond


def test_slow_servers_are_asked_again_for_what_is_left_within_the_budget(cluster: FakeCluster) -> None:
    pauses: list[float] = []
    cluster.has_stats = False
    cluster.silent[RequestCode.GET_MIN_OFFSET] = 3

    def view(budget_s: float) -> RemoteCluster:
        return RemoteCluster(
            cluster.address,
            timeout_s=0.05,
            retry_budget_s=budget_s,
            sleep=pauses.append,
            monotonic=lambda: sum(pauses),
        )

    with view(60) as patient:
        assert make_plan(patient, chosen("orders"), EARLIEST, END).rows == 150
    assert 2 <= len(pauses) <= 3 and cluster.asked[RequestCode.GET_MAX_OFFSET] == 2
    cluster.silent[RequestCode.GET_MIN_OFFSET] = 100
    pauses.clear()
    with view(2) as hasty, pytest.raises(RequestTimeoutError, match=r"did not answer within 0\.05 s"):
        make_plan(hasty, chosen("orders"), EARLIEST, END)
    assert sum(pauses) == 2
    with RemoteCluster("127.0.0.1:1", retry_budget_s=60) as wrong, pytest.raises(UnreachableError):
        wrong.all_topics()


def test_questions_to_a_server_that_is_gone_go_to_the_next_one(cluster: FakeCluster, view: RemoteCluster) -> None:
    gone, here = "127.0.0.1:1", cluster.address
    queues = [Queue("orders", BROKER, 0, (gone, here)), Queue("orders", BROKER, 1, (here,))]
    assert [bounds.high for bounds in view.bounds(queues).values()] == [100, 50]
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1"):
        view.record_digests({Queue("orders", BROKER, 0, (gone,)): 1})
    with pytest.raises(UnreachableError, match="a queue has no broker"):
        view.record_digests({Queue("orders", BROKER, 0, ()): 1})


def test_without_a_size_this_machine_s_cores_share_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    for rows, parts in ((0, 0), (1, 1), (100_000, 1), (400_000, 4), (1_000_000, 4), (9_000_000, 5)):
        ranges = [QueueRange("T", BROKER, 0, 0, rows, ())]
        assert len(PartitionSizes().split(ranges)) == parts
    assert len(PartitionSizes(rows_max=500_000).split(ranges)) == 18
    assert len(PartitionSizes(count_min=30).split(ranges)) == 30


def test_small_ranges_share_a_task() -> None:
    ranges = [QueueRange("T", BROKER, n, 0, 1_000, ()) for n in range(45)]
    assert [len(parts) for parts in PartitionSizes().tasks(ranges)] == [20, 20, 5]
    assert [part for parts in PartitionSizes().tasks(ranges) for part in parts] == ranges
    assert [len(parts) for parts in PartitionSizes(rows_max=10_000).tasks(ranges)] == [10, 10, 10, 10, 5]
    assert len(PartitionSizes(count_min=3).tasks(ranges)) == 3
    assert len(PartitionSizes(count_min=4).tasks(ranges)) == 45
    assert PartitionSizes().tasks([]) == []


@pytest.fixture
def cluster() -> Any:
    with FakeCluster() as fake:
        fake.add("orders", 0, [record(n) for n in range(100)])
        fake.add("orders", 1, [record(n) for n in range(50)])
        fake.add("orders-eu", 0, [record(n) for n in range(7)])
        yield fake


@pytest.fixture
def view(cluster: FakeCluster) -> Any:
    with RemoteCluster(f"127.0.0.1:1;{cluster.address}") as remote:
        yield remote


def chosen(*names: str) -> TopicChoice:
    return TopicChoice(names)


def spans(plan: Plan) -> list[tuple]:
    return [(part.topic, part.queue_id, part.from_offset, part.to_offset) for part in plan.queues]


def test_ranges_that_filter_servers_serve(cluster: FakeCluster, view: RemoteCluster) -> None:
    with pytest.raises(UnreachableError, match=f"pymq filter-server --broker {cluster.address}"):
        make_plan(view, chosen("orders"), EARLIEST, END, via_filter_servers=True)
    cluster.filter_servers += ["a:1", "b:2"]
    plan = make_plan(view, chosen("orders"), EARLIEST, END, via_filter_servers=True)
    assert [part.addresses for part in plan.ranges] == [("a:1", "b:2"), ("b:2", "a:1")]
    assert make_plan(view, chosen("orders"), EARLIEST, END).ranges[0].addresses == (cluster.address,)


def test_whole_topics(view: RemoteCluster, cluster: FakeCluster) -> None:
    cluster.min_offsets["orders", 1] = 20
    plan = make_plan(view, chosen("orders", "orders-eu"), EARLIEST, END)
    assert spans(plan) == [("orders", 0, 0, 100), ("orders", 1, 20, 50), ("orders-eu", 0, 0, 7)]
    assert plan.rows == 137 and plan.queues[0].addresses == (cluster.address,)
    assert spans(plan.limited(110))[1:] == [("orders", 1, 20, 30), ("orders-eu", 0, 0, 0)]
    assert len(plan.limited(110).ranges) == 2 and plan.limited(0) is plan


def test_an_unknown_topic_and_an_unreachable_name_server() -> None:
    with FakeCluster() as fake, RemoteCluster(fake.address) as view, pytest.raises(NotFoundError, match="'nope'"):
        make_plan(view, chosen("nope"), EARLIEST, END)
    with RemoteCluster("127.0.0.1:1") as view, pytest.raises(UnreachableError):
        view.all_topics()
    with pytest.raises(UsageError):
        RemoteCluster(" ; ")


def test_times(view: RemoteCluster) -> None:
    # Message n was stored at BORN_MS + n + 1.
    start, end = parse_position("-1s", BORN_MS + 1031), parse_position(str(BORN_MS + 61), NOW_MS)
    assert spans(make_plan(view, chosen("orders"), start, end)) == [("orders", 0, 30, 60), ("orders", 1, 30, 50)]


def test_an_end_before_the_start_is_empty(view: RemoteCluster) -> None:
    plan = make_plan(view, chosen("orders"), END, Position(offsets={"orders": {BROKER: {"0": 3}}}))
    assert spans(plan) == [("orders", 0, 100, 100), ("orders", 1, 50, 50)]
    assert plan.ranges == []


def test_offsets_by_queue_with_the_two_symbols(view: RemoteCluster) -> None:
    text = json.dumps({"orders": {BROKER: {"0": 40, "1": -1}}})
    plan = make_plan(view, chosen("orders"), parse_position(text, 0), END)
    assert spans(plan) == [("orders", 0, 40, 100), ("orders", 1, 50, 50)]
    text = json.dumps({"orders": {BROKER: {"0": 500, "1": -2}}})
    plan = make_plan(view, chosen("orders"), EARLIEST, parse_position(text, 0))
    assert spans(plan) == [("orders", 0, 0, 100), ("orders", 1, 0, 0)]


def test_a_group_s_position(view: RemoteCluster, cluster: FakeCluster) -> None:
    cluster.committed["g", "orders", 0] = 33
    plan = make_plan(view, chosen("orders"), parse_position("group:g", 0), END)
    assert spans(plan) == [("orders", 0, 33, 100), ("orders", 1, 0, 50)]


def at(offset: int) -> Known:
    return Known(offset, Identity())


def test_an_offset_below_the_queue_stays_for_the_reader_to_report(view: RemoteCluster, cluster: FakeCluster) -> None:
    cluster.min_offsets["orders", 0] = 10
    plan = make_plan(
        view, chosen("orders"), EARLIEST, END, resume={("orders", BROKER, 0): at(5), ("orders", BROKER, 1): at(49)}
    )
    assert spans(plan) == [("orders", 0, 5, 100), ("orders", 1, 49, 50)]


def test_a_resumed_queue_that_is_shorter_now_is_refused(view: RemoteCluster) -> None:
    with pytest.raises(ResumeError, match="it was read up to 101 and ends at 100, so the topic was deleted"):
        make_plan(view, chosen("orders"), EARLIEST, END, resume={("orders", BROKER, 0): at(101)})


@settings(deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=6), st.integers(1, 700), st.integers(1, 20), st.integers(1, 2000))
def test_splits_and_rounds_keep_every_offset(counts: Any, rows_max: Any, count_min: Any, round_rows: Any) -> None:
    ranges = [QueueRange("T", BROKER, n, 10, 10 + count, ()) for n, count in enumerate(counts)]
    parts = split_ranges(ranges, rows_max=rows_max, count_min=count_min)
    assert all(0 < part.count <= rows_max for part in parts)
    assert len(parts) >= min(count_min, total_count(ranges))
    groups = rounds(parts, round_rows)
    assert [part for group in groups for part in group] == parts
    assert all(len(group) == 1 or total_count(group) <= round_rows for group in groups)
    covered = [(part.queue_id, n) for part in parts for n in range(part.from_offset, part.to_offset)]
    assert covered == [(part.queue_id, n) for part in ranges for n in range(part.from_offset, part.to_offset)]
