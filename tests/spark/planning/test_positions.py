"""Starts and ends: what they resolve to, and the names in them that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.errors import NotFoundError, UsageError
from pymq.spark.planning.cluster import Queue, RemoteCluster
from pymq.spark.planning.planner import make_plan
from pymq.spark.planning.positions import EARLIEST, LATEST, Position, parse_by_queue, parse_position
from pymq.spark.planning.topics import TopicChoice
from tests.spark.fake_cluster import BROKER, FakeCluster
from tests.spark.record_bytes import BORN_MS, record

NOW_MS = BORN_MS + 1000
ORDERS = [Queue("orders", "broker-a", number, ()) for number in range(4)]
BOTH = [*ORDERS, Queue("orders", "broker-b", 0, ())]


@pytest.fixture
def cluster() -> Any:
    with FakeCluster() as fake:
        for queue_id in range(2):
            fake.add("orders", queue_id, [record(n) for n in range(50)])
        yield fake


def starts(cluster: FakeCluster, start: Position) -> list[int]:
    with RemoteCluster(cluster.address) as view:
        plan = make_plan(view, TopicChoice(("orders",)), start, Position(symbol=LATEST))
    return [part.from_offset for part in plan.queues]


def test_offsets_without_the_broker_level(cluster: FakeCluster) -> None:
    assert starts(cluster, parse_position('{"orders": {"1": 20}}', NOW_MS)) == [0, 20]
    assert parse_by_queue('{"t": {"b": {"0": -2}}}') == {"t": {"b": {"0": EARLIEST}}}


def test_times_by_queue(cluster: FakeCluster) -> None:
    """Message n was stored at BORN_MS + n + 1; queues without a time begin at the end."""
    times = parse_by_queue(f'{{"orders": {{"{BROKER}": {{"0": {BORN_MS + 31}}}}}}}')
    assert starts(cluster, Position(symbol=LATEST, times_ms=times)) == [30, 0]


@pytest.mark.parametrize(
    ("text", "queues", "expected"),
    [
        ('{"ordres": {"broker-a": {"0": 5}}}', ORDERS, "topic 'ordres', which is not read: did you mean 'orders'?"),
        ('{"orders": {"broker-x1": {"0": 5}}}', ORDERS, "broker 'broker-x1'.*did you mean 'broker-a'?"),
        ('{"orders": {"broker-a": {"99": 5}}}', ORDERS, "queue '99' of orders: broker-a has the queues 0 to 3"),
        ('{"orders": {"99": 5}}', ORDERS, "queue '99' of orders"),
        ('{"orders": {"0": 5}}', BOTH, "no broker, and it is on broker-a, broker-b"),
    ],
)
def test_names_that_are_not_read_are_refused(text: str, queues: list[Queue], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        parse_position(text, NOW_MS).check(queues)


def test_a_group_without_any_offset_is_refused(cluster: FakeCluster) -> None:
    with pytest.raises(NotFoundError, match="group 'typo' has no offset in orders"):
        starts(cluster, parse_position("group:typo", NOW_MS))
    cluster.committed["g", "orders", 1] = 7
    assert starts(cluster, parse_position("group:g", NOW_MS)) == [0, 7]


@pytest.mark.parametrize("text", ["yesterday", "group:", "{not json", '{"T": {"b": {"0": "x"}}}', ""])
def test_invalid_positions_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_position(text, NOW_MS)
