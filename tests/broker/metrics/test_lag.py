"""Lag of groups by topic: messages and the age of the oldest one, by committed and by pulled offset."""

from __future__ import annotations

import pytest

from pymq.broker.metadata.topics import read_topics
from pymq.broker.metrics.lag import MESSAGES, PAIRS_AT_ONCE, QUEUES_AT_ONCE, LagMetrics, _label_text
from pymq.broker.metrics.traffic import is_system, truth
from pymq.broker.replication.roles.role import Role
from pymq.metrics.family import PAUSE, label_text
from pymq.model.tables import DataVersion, TopicConfig
from pymq.wire.bodies_client import ConsumerData, SubscriptionData
from tests.broker.disk import failing
from tests.broker.metrics.readings import Table, left_out, table
from tests.broker.world import FakePeer, World

KEY = ("g", "orders", "false", "false")


@pytest.fixture
def world() -> World:
    world = World(metricsOtelCardinalityLimit=100)
    world.parts.metadata.topics.put([TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=2)])
    return world


def connect(world: World, group: str, *topics: str, model: str = "CLUSTERING") -> None:
    clients = world.parts.metadata.clients
    wanted = [SubscriptionData(topic=topic, sub_string="*") for topic in topics]
    data = ConsumerData(group_name=group, message_model=model, subscription_data_set=wanted)
    clients.register_consumer(clients.client("c", FakePeer(), "JAVA", 479), data)


def lag(world: World) -> Table:
    return table(LagMetrics(world.parts))


def row(found: Table, key: tuple[str, ...] = KEY) -> tuple[float, ...]:
    """Return (lag, its age, in flight, age of the oldest not pulled, ready)."""
    names = ("lag_messages", "lag_latency_milliseconds", "inflight_messages", "queueing_latency_milliseconds")
    return tuple(found[f"rocketmq_consumer_{name}"][key] for name in (*names, "ready_messages"))


def fill(world: World) -> None:
    """Put five messages a second apart in queues 0, 1, 0, 1, 0."""
    for number in range(5):
        world.put("orders", queue_id=number % 2)
        world.clock.advance(1000)


def test_committed_and_pulled(world: World) -> None:
    fill(world)
    cursors = world.parts.metadata.cursors
    cursors.commit("g", "orders", 0, 1)
    cursors.commit("g", "orders", 1, 0)
    cursors.note_pulled("g", "orders", 0, 2)
    cursors.note_pulled("g", "orders", 1, 1)
    # Not committed: the messages of the seconds 1, 2, 3 and 4; not pulled: those of 3 and 4. It is second 5 now.
    assert row(lag(world)) == (4, 4000, 2, 2000, 2)


def test_a_group_that_has_all_lags_by_nothing(world: World) -> None:
    fill(world)
    world.parts.metadata.cursors.commit("g", "orders", 0, 3)
    world.parts.metadata.cursors.commit("g", "orders", 1, 2)
    assert row(lag(world)) == (0, 0, 0, 0, 0)


def test_a_connected_group_that_never_committed_lags_by_nothing(world: World) -> None:
    fill(world)
    connect(world, "g", "orders")
    assert row(lag(world)) == (0, 0, 0, 0, 0)


def test_a_group_without_consumers_is_reported(world: World) -> None:
    fill(world)
    world.parts.metadata.cursors.commit("g", "orders", 0, 0)
    world.parts.metadata.cursors.commit("g", "orders", 1, 2)
    assert row(lag(world))[:2] == (3, 5000)


def test_offsets_of_a_topic_that_a_connected_group_left_are_not(world: World) -> None:
    fill(world)
    world.parts.metadata.cursors.commit("g", "orders", 0, 1)
    connect(world, "g", "others")
    assert lag(world)["rocketmq_consumer_lag_messages"] == {}


@pytest.mark.parametrize("topic", ["%RETRY%g", "nowhere"])
def test_retry_topics_and_those_that_are_gone_are_not(world: World, topic: str) -> None:
    world.parts.metadata.cursors.commit("g", topic, 0, 0)
    assert lag(world)["rocketmq_consumer_lag_messages"] == {}


def test_a_broadcasting_group_keeps_its_offsets_to_itself(world: World) -> None:
    fill(world)
    connect(world, "g", "orders", model="BROADCASTING")
    assert lag(world)["rocketmq_consumer_lag_messages"] == {}


def test_a_slave_reports_its_connected_groups() -> None:
    world = World(role=Role(1), brokerId=1)
    world.parts.metadata.topics.take_over(
        read_topics({"topicConfigTable": {"orders": {"topicName": "orders"}}}), DataVersion()
    )
    world.parts.metadata.cursors.commit("gone", "orders", 0, 0)
    world.parts.metadata.cursors.commit("here", "orders", 0, 0)
    connect(world, "here", "orders")
    assert list(lag(world)["rocketmq_consumer_lag_messages"]) == [("here", "orders", "false", "false")]


def test_messages_that_were_deleted_are_not_waited_for(world: World) -> None:
    fill(world)
    world.parts.metadata.cursors.commit("g", "orders", 0, 0)
    queue = world.parts.store.queue_view("orders", 0)
    assert queue is not None
    queue.min_offset = 2  # the messages of the seconds 0 and 2
    assert row(lag(world))[1] == 1000


def test_the_age_of_one_place_is_read_once(world: World) -> None:
    fill(world)
    world.parts.metadata.cursors.commit("g", "orders", 0, 1)
    metrics = LagMetrics(world.parts)
    first = row(table(metrics))
    reads: list[int] = []
    log = world.parts.store._log
    find = log.find
    log.find = lambda offset: reads.append(offset) or find(offset)  # type: ignore[method-assign]
    world.clock.advance(500)
    again = row(table(metrics))
    assert not reads
    assert again[1] == first[1] + 500


@pytest.mark.parametrize(("count", "expected"), [(100, 0), (102, 2)])
def test_groups_over_the_limit_are_left_out_and_counted(world: World, count: int, expected: int) -> None:
    for number in range(count):
        world.parts.metadata.cursors.commit(f"g{number}", "orders", 0, 0)
    assert len(lag(world)["rocketmq_consumer_lag_messages"]) == 100
    assert left_out(LagMetrics(world.parts))["rocketmq_consumer_lag_messages"] == expected


def test_a_queue_file_that_cannot_be_read_costs_its_age_alone(world: World) -> None:
    fill(world)
    world.parts.metadata.cursors.commit("g", "orders", 0, 0)
    queue = world.parts.store._queues.get("orders", 0)
    assert queue is not None
    queue.write_tail()
    with failing(world, "pread", queue.directory):
        assert row(lag(world))[:2] == (3, 0)


@pytest.mark.parametrize("limit", [100, 1000])
@pytest.mark.parametrize("is_behind", [False, True])
def test_a_scrape_of_many_groups_may_rest_often(limit: int, is_behind: bool) -> None:
    world = World(metricsOtelCardinalityLimit=limit)
    world.parts.metadata.topics.put([TopicConfig(topic_name="orders", read_queue_nums=600, write_queue_nums=600)])
    for queue_id in range(600 if is_behind else 0):
        world.put("orders", queue_id=queue_id)
    for number in range(300):
        world.parts.metadata.cursors.commit(f"g{number}", "orders", 0, 0)
    pauses = sum(family is PAUSE for family in LagMetrics(world.parts).collect())
    shown, of_queues = min(limit, 300), 600 // QUEUES_AT_ONCE
    # While pairs are listed, within the topic's queues, behind each pair, and within the queues of one that is behind.
    assert pauses == 300 // PAIRS_AT_ONCE + of_queues + shown + shown * of_queues * is_behind


def test_groups_of_few_queues_are_looked_at_together(world: World) -> None:
    for number in range(100):
        world.parts.metadata.cursors.commit(f"g{number}", "orders", 0, 0)
    found = list(LagMetrics(world.parts).collect())
    assert sum(family is PAUSE for family in found) == 1
    assert all(count == 100 for count in map(len, lag(world).values()))


def test_a_group_that_has_committed_everything_has_no_lag_until_it_is_reset(world: World) -> None:
    fill(world)
    cursors = world.parts.metadata.cursors
    cursors.commit("g", "orders", 0, 3)
    cursors.commit("g", "orders", 1, 2)
    assert row(lag(world)) == (0, 0, 0, 0, 0)
    cursors.reset("g", "orders", 1, 0)
    assert row(lag(world)) == (2, 4000, 0, 4000, 2)


def test_names_with_special_characters_are_written_as_other_metrics_write_them(world: World) -> None:
    for group, topic in (('a"b', "orders"), ("CID_RMQ_SYS_x", "TBW102"), ("back\\slash", "line\n")):
        labels = (group, topic, "false", truth(is_system(topic, group)))
        assert _label_text(group, topic) == label_text(MESSAGES.labels, labels)
