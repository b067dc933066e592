"""Codes 208, 317, 303, 308, 300, 343, 345."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.handlers import consumption
from pymq.broker.report.queue_ends import QUEUES_AT_ONCE
from pymq.model.message import MessageQueue
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_admin import (
    BrokerConsumeStats,
    ConsumeStats,
    ConsumeTimeSpans,
    CorrectionOffsets,
    TopicLag,
    decode_admin_body,
)
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_clients import beat
from tests.broker.handlers.test_pop import Popping
from tests.broker.world import Caller, World

QUEUE = MessageQueue("T", "broker-a", 0)


@pytest.fixture
def world() -> World:
    """T with queues 0 and 1; five messages, a second apart, in queue 0, of which g has consumed two."""
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    for _ in range(5):
        world.put("T")
        world.clock.advance(1000)
    world.parts.metadata.groups.ensure("g")
    world.parts.metadata.cursors.commit("g", "T", 0, 2)
    world.parts.metadata.cursors.note_pulled("g", "T", 0, 4)
    return world


def test_consume_stats(world: World) -> None:
    caller = Caller(world)
    stats = decode_admin_body(ConsumeStats, caller.ok(Code.GET_CONSUME_STATS, consumerGroup="g").body)
    row = stats.offset_table[QUEUE]
    assert (row.broker_offset, row.consumer_offset, row.pull_offset, row.lag) == (5, 2, 4, 3)
    assert row.last_timestamp == world.clock.now_ms() - 4000
    assert len(stats.offset_table) == 2
    narrower: list[dict[str, Any]] = [{"topic": "T"}, {"topicList": "T;Nope"}]
    for fields in narrower:
        found = decode_admin_body(ConsumeStats, caller.ok(Code.GET_CONSUME_STATS, consumerGroup="g", **fields).body)
        assert found.offset_table == stats.offset_table
    assert caller.json(Code.GET_CONSUME_STATS, consumerGroup="nobody")["offsetTable"] == {}


def test_a_group_that_has_committed_nothing_yet_lags_by_everything(world: World) -> None:
    caller = Caller(world)
    caller.ok(Code.HEART_BEAT, beat(group="fresh"))
    stats = decode_admin_body(ConsumeStats, caller.ok(Code.GET_CONSUME_STATS, consumerGroup="fresh").body)
    assert stats.offset_table[QUEUE].lag == 5
    caller.ok(Code.HEART_BEAT, beat(group="fresh").replace(b"CLUSTERING", b"BROADCASTING"))
    assert caller.json(Code.GET_CONSUME_STATS, consumerGroup="fresh")["offsetTable"] == {}


def test_sums_by_topic(world: World) -> None:
    caller = Caller(world)

    def sums(group: str, **fields: Any) -> dict[str, TopicLag] | None:
        reply = caller.ok(Code.GET_CONSUME_STATS, consumerGroup=group, pymqSummary="true", **fields)
        return decode_admin_body(ConsumeStats, reply.body).pymq_topics

    assert sums("g") == {"T": TopicLag(queues=2, lag=3, committed=2)}
    third_ms = world.clock.now_ms() - 3000
    assert sums("g", pymqTimes="true") == {
        "T": TopicLag(queues=2, lag=3, committed=2, pulled=4, waiting_since_ms=third_ms, consumed_ms=third_ms - 1000)
    }
    assert sums("g", topic="Nope") == sums("nobody") == {}
    caller.ok(Code.HEART_BEAT, beat(group="fresh"))
    assert sums("fresh", pymqTimes="true") == {"T": TopicLag(queues=2, unknown_queues=1, committed=0, pulled=0)}


def test_sums_of_many_topics_rest_after_each_topic() -> None:
    world = World()
    count = 200
    names = [f"T{number}" for number in range(count)]
    world.parts.metadata.topics.put([TopicConfig(topic_name=name, read_queue_nums=64) for name in names])
    world.parts.metadata.topics.put([TopicConfig(topic_name="T0", read_queue_nums=60 * QUEUES_AT_ONCE)])
    for name in names:
        world.parts.metadata.cursors.commit("g", name, 0, 0)
    rests: list[None] = []
    world.parts.runtime.sliced_work.answer = lambda request, peer, steps: rests.extend(steps)  # type: ignore[method-assign]
    Caller(world).ask(Code.GET_CONSUME_STATS, consumerGroup="g", pymqSummary="true")
    assert len(rests) >= 2 * count + 59, "also within a topic of many queues"


def test_queues_without_a_committed_offset_are_marked_for_pymqs_client(world: World) -> None:
    caller = Caller(world)
    stats = decode_admin_body(ConsumeStats, caller.ok(Code.GET_CONSUME_STATS, consumerGroup="g").body)
    marks = [row.pymq_uncommitted for row in stats.offset_table.values()]
    assert marks == [None, True]


def test_topics_that_a_connected_group_gave_up_are_left_out(world: World) -> None:
    caller = Caller(world)
    caller.ok(Code.HEART_BEAT, beat(topic="Other"))
    assert caller.json(Code.GET_CONSUME_STATS, consumerGroup="g")["offsetTable"] == {}


def test_what_pops_got_and_what_comes_again_is_counted() -> None:
    p = Popping()
    for _ in range(5):
        p.world.put("T")
    found = p.pop(count=3, invisible_ms=60_000)
    assert p.ack(found.receipt(0)) == p.change(found.receipt(1), 0)[0] == 0
    p.wait(1)
    p.caller.ok(Code.HEART_BEAT, beat())  # a push consumer that pops names the topic, not its retry topic
    table = decode_admin_body(ConsumeStats, p.caller.ok(Code.GET_CONSUME_STATS, consumerGroup="g").body).offset_table
    assert {queue.topic: (row.lag, row.pymq_invisible) for queue, row in table.items() if row.broker_offset} == {
        "T": (2, 1), "%RETRY%g+T": (1, None),
    }  # fmt: skip


def test_broker_consume_stats(world: World) -> None:
    caller = Caller(world)
    reply = caller.ok(Code.GET_BROKER_CONSUME_STATS, isOrder="false")
    stats = decode_admin_body(BrokerConsumeStats, reply.body)
    assert (stats.total_diff, stats.total_inflight_diff, stats.broker_addr) == (3, 2, "127.0.0.1:10911")
    assert [list(entry) for entry in stats.consume_stats_list] == [["g"]]
    assert caller.json(Code.GET_BROKER_CONSUME_STATS, isOrder="true")["consumeStatsList"] == []


def test_the_lag_of_more_queues_than_an_answer_holds_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller(world)
    entries = decode_admin_body(
        BrokerConsumeStats, caller.ok(Code.GET_BROKER_CONSUME_STATS, isOrder="false").body
    ).consume_stats_list
    count = sum(len(stats.offset_table) for entry in entries for found in entry.values() for stats in found)
    monkeypatch.setattr(consumption, "BODY_SIZE_MAX_BYTES", count * consumption.QUEUE_TEXT_BYTES_MIN)
    caller.ok(Code.GET_BROKER_CONSUME_STATS, isOrder="false")
    monkeypatch.setattr(consumption, "BODY_SIZE_MAX_BYTES", count * consumption.QUEUE_TEXT_BYTES_MIN - 1)
    code, remark = caller.refused(Code.GET_BROKER_CONSUME_STATS, isOrder="false")
    assert code == ResponseCode.SYSTEM_ERROR and "ask for each group (consumerProgress -g)" in remark
    caller.ok(Code.GET_CONSUME_STATS, consumerGroup="g")


def test_time_spans(world: World) -> None:
    caller = Caller(world)
    reply = caller.ok(Code.QUERY_CONSUME_TIME_SPAN, topic="T", group="g")
    first, empty = decode_admin_body(ConsumeTimeSpans, reply.body).consume_time_span_set
    now_ms = world.clock.now_ms()
    assert (first.min_time_stamp, first.max_time_stamp) == (now_ms - 5000, now_ms - 1000)
    assert (first.consume_time_stamp, first.delay_time) == (now_ms - 4000, 3000)
    assert (empty.min_time_stamp, empty.delay_time) == (-1, 0)
    assert caller.refused(Code.QUERY_CONSUME_TIME_SPAN, topic="Nope", group="g")[0] == ResponseCode.TOPIC_NOT_EXIST


def test_correction_offsets(world: World) -> None:
    world.parts.metadata.cursors.commit("h", "T", 0, 4)
    caller = Caller(world)

    def least(**fields: Any) -> dict[int, int]:
        reply = caller.ok(Code.QUERY_CORRECTION_OFFSET, topic="T", **fields)
        return decode_admin_body(CorrectionOffsets, reply.body).correction_offsets

    assert least(compareGroup="h") == {0: 2}
    assert least(compareGroup="h", filterGroups="g") == {0: 4}
    assert least(compareGroup="g", filterGroups="g") == {0: 2**63 - 1}


def test_consumers_of_a_topic_and_topics_of_a_consumer(world: World) -> None:
    caller = Caller(world)
    caller.ok(Code.HEART_BEAT, beat(group="online"))
    assert caller.json(Code.QUERY_TOPIC_CONSUME_BY_WHO, topic="T") == {"groupList": ["g", "online"]}
    assert caller.json(Code.QUERY_TOPICS_BY_CONSUMER, group="g")["topicList"] == ["T"]
    assert caller.json(Code.QUERY_TOPICS_BY_CONSUMER, group="online")["topicList"] == ["T"]
    shown = caller.json(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, group="online", topic="T")
    assert shown["subscriptionData"]["subString"] == "A || B"
    assert "subscriptionData" not in caller.json(Code.QUERY_SUBSCRIPTION_BY_CONSUMER, group="g", topic="T")
