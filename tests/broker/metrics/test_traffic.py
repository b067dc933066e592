"""Messages in and out, dead letters, delays: the meters appear under RocketMQ's names."""

from __future__ import annotations

import pytest

from pymq.broker.metrics.traffic import TrafficMetrics, is_system
from pymq.model.draft import Draft
from pymq.model.tables import TopicConfig
from tests.broker.disk import failing
from tests.broker.metrics.readings import left_out, table
from tests.broker.replication.fake_slaves import FakeSlaves
from tests.broker.world import BORN_HOST, FakePeer, World


@pytest.fixture
def world() -> World:
    world = World(metricsOtelCardinalityLimit=100)
    world.parts.metadata.topics.put([TopicConfig(topic_name="orders")])
    return world


def collector(world: World) -> TrafficMetrics:
    return TrafficMetrics(world.parts)


def test_sends_by_topic(world: World) -> None:
    world.parts.stats.message_put("orders", 3, 700)
    world.parts.stats.message_put("orders", 1, 200)
    world.parts.stats.message_put("BenchmarkTest", 1, 10)
    found = table(collector(world))
    orders, system = ("orders", "unspecified", "false"), ("BenchmarkTest", "unspecified", "true")
    assert found["rocketmq_messages_in_total"] == {orders: 4, system: 1}
    assert found["rocketmq_throughput_in_total"] == {orders: 900, system: 10}
    assert found["pymq_send_requests_total"] == {("orders",): 2, ("BenchmarkTest",): 1}


def test_pulls_by_topic_and_group_without_retries(world: World) -> None:
    stats = world.parts.stats
    stats.messages_got("g", "orders", 32, 5000)
    stats.messages_got("g", "orders", 1, 100)
    stats.messages_got("g", "%RETRY%g", 1, 100)
    stats.messages_got("CID_RMQ_SYS_x", "orders", 1, 100)
    found = table(collector(world))
    key, system = ("orders", "g", "false"), ("orders", "CID_RMQ_SYS_x", "true")
    assert found["rocketmq_messages_out_total"] == {key: 33, system: 1}
    assert found["rocketmq_throughput_out_total"] == {key: 5100, system: 100}
    assert found["pymq_pull_requests_total"][("orders", "g")] == 2


def test_send_backs_and_dead_letters(world: World) -> None:
    stats = world.parts.stats
    stats.message_sent_back("orders", "g")
    stats.message_sent_back("orders", "g")
    stats.message_dead("orders", "g")
    found = table(collector(world))
    assert found["pymq_messages_sent_back_total"] == {("orders", "g"): 2}
    assert found["rocketmq_send_to_dlq_messages_total"] == {("orders", "g", "false"): 1}


@pytest.mark.parametrize("forget", ["topic", "group"])
def test_deleted_topics_and_groups_are_not_reported(world: World, forget: str) -> None:
    stats = world.parts.stats
    stats.messages_got("g", "orders", 1, 1)
    stats.message_sent_back("orders", "g")
    stats.message_dead("orders", "g")
    if forget == "topic":
        stats.forget_topic("orders")
    else:
        stats.forget_group("g")
    found = table(collector(world))
    names = ("rocketmq_messages_out_total", "pymq_messages_sent_back_total", "rocketmq_send_to_dlq_messages_total")
    assert [found[name] for name in names] == [{}, {}, {}]


def test_broker_figures(world: World) -> None:
    found = table(collector(world))
    assert found["rocketmq_broker_permission"] == {(): 6}
    assert found["rocketmq_topic_number"] == {(): len(world.parts.metadata.topics.all())}
    assert found["rocketmq_consumer_group_number"] == {(): len(world.parts.metadata.groups.all())}
    assert found["pymq_pulls_parked"] == {(): 0}


def test_delayed_messages_wait_by_level_until_they_are_delivered(world: World) -> None:
    world.put("orders", DELAY="1")
    world.put("orders", DELAY="1")
    world.put("orders", DELAY="2")
    waiting = table(collector(world))["pymq_delayed_messages_waiting"]
    assert {level: count for level, count in waiting.items() if count} == {("1",): 2, ("2",): 1}
    world.clock.advance(1000)
    world.parts.messages.delays.tick()
    world.parts.messages.writer.commit()
    world.parts.messages.delays.tick()
    found = table(collector(world))
    assert found["pymq_delayed_messages_delivered_total"] == {(): 2}
    assert found["pymq_delayed_messages_waiting"][("1",)] == 0


def test_sends_that_wait_for_slaves_and_those_that_failed(world: World) -> None:
    world.config.broker_role = "SYNC_MASTER"
    slaves = FakeSlaves(world, count=1)
    peer = FakePeer()
    stage = world.parts.messages.writer.put
    for _ in range(2):
        stage("orders", 0, Draft(b"x", b"", 1, BORN_HOST))
        world.parts.messages.writer.hold(peer, b"answer")
    world.parts.messages.writer.commit()
    assert table(collector(world))["pymq_sends_waiting"] == {(): 2}
    peer.write = lambda frame: None  # type: ignore[method-assign]
    peer.write_all = lambda frames: None  # type: ignore[method-assign]
    slaves.ack()
    assert table(collector(world))["pymq_sends_waiting"] == {(): 0}
    stage("orders", 0, Draft(b"x", b"", 1, BORN_HOST))
    with failing(world, "pwrite", "commitlog"):
        world.parts.messages.writer.commit()
    assert table(collector(world))["pymq_failed_commits_total"] == {(): 1}


@pytest.mark.parametrize(("count", "expected"), [(100, 0), (101, 1)])
def test_topics_over_the_limit_are_left_out_and_counted(world: World, count: int, expected: int) -> None:
    for number in range(count):
        world.parts.stats.message_put(f"t{number}", 1, 1)
    assert len(table(collector(world))["rocketmq_messages_in_total"]) == 100
    assert left_out(collector(world))["rocketmq_messages_in_total"] == expected


@pytest.mark.parametrize(
    ("topic", "group", "expected"),
    [
        ("orders", "g", False),
        ("SCHEDULE_TOPIC_XXXX", "g", True),
        ("rmq_sys_x", "g", True),
        ("orders", "cid_rmq_sys_x", True),
    ],
)
def test_what_belongs_to_the_system(topic: str, group: str, expected: bool) -> None:
    assert is_system(topic, group) is expected
