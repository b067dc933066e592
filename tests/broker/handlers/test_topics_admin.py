"""Codes 17, 18, 215, 351, 21, 202, 305, 316."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pymq.model.message import MessageQueue
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_admin import TopicStats, decode_admin_body
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.world import Caller, World

CREATE: dict[str, Any] = {
    "topic": "T",
    "defaultTopic": "TBW102",
    "readQueueNums": 8,
    "writeQueueNums": 4,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0,
    "order": "false",
}


def test_create_change_show() -> None:
    world = World()
    caller = Caller(world)
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **CREATE, attributes="+message.type=FIFO")
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **{**CREATE, "writeQueueNums": 2})
    shown = caller.json(Code.GET_TOPIC_CONFIG, topic="T", lo="true")
    assert shown == {
        "topicName": "T",
        "readQueueNums": 8,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": {"message.type": "FIFO"},
    }
    assert caller.json(Code.GET_ALL_TOPIC_CONFIG)["topicConfigTable"]["T"] == shown


def test_the_answer_waits_until_the_name_servers_know() -> None:
    world = World()
    waiting: list[Callable[[], None]] = []
    world.parts.when_registered = waiting.append
    caller = Caller(world)
    assert caller.ask(Code.UPDATE_AND_CREATE_TOPIC, **CREATE) is None
    assert caller.peer.answers == []
    waiting[0]()
    assert [reply.code for reply in caller.peer.answers] == [0]


@pytest.mark.parametrize(
    ("change", "code", "part"),
    [
        ({"topic": "../T"}, ResponseCode.INVALID_PARAMETER, "character"),
        ({"topic": "x" * 128}, ResponseCode.INVALID_PARAMETER, "127"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.INVALID_PARAMETER, "system topic"),
        ({"readQueueNums": 0}, ResponseCode.INVALID_PARAMETER, "readQueueNums=0"),
        ({"writeQueueNums": "many"}, ResponseCode.SYSTEM_ERROR, "writeQueueNums"),
        ({"perm": 64}, ResponseCode.INVALID_PARAMETER, "perm=64"),
        ({"attributes": "+nope=1"}, ResponseCode.INVALID_PARAMETER, "nope"),
    ],
)
def test_bad_topics_are_refused(change: dict[str, Any], code: int, part: str) -> None:
    found, remark = Caller(World()).refused(Code.UPDATE_AND_CREATE_TOPIC, **{**CREATE, **change})
    assert found == code and part in remark


def test_a_list_is_taken_whole_or_not_at_all() -> None:
    world = World()
    caller = Caller(world)
    topics = [{"topicName": name, "perm": 6, "readQueueNums": 1, "writeQueueNums": 1} for name in ("A", "B")]
    topics[0]["attributes"] = {"+message.type": "DELAY"}
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC_LIST, json.dumps({"topicConfigList": topics}).encode())
    assert world.parts.topics.require("A").attributes == {"message.type": "DELAY"}
    topics[0]["topicName"], topics[1]["perm"] = "C", 99
    code, _ = caller.refused(Code.UPDATE_AND_CREATE_TOPIC_LIST, json.dumps({"topicConfigList": topics}).encode())
    assert code == ResponseCode.INVALID_PARAMETER and world.parts.topics.get("C") is None


def test_a_deleted_topic_leaves_nothing_behind() -> None:
    world = World()
    caller = Caller(world)
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **CREATE)
    world.put("T")
    world.parts.cursors.commit("g", "T", 0, 1)
    caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert world.parts.store.max_offset("T", 0) == 0
    assert world.parts.cursors.groups_of("T") == []
    assert caller.refused(Code.GET_TOPIC_CONFIG, topic="T")[0] == ResponseCode.TOPIC_NOT_EXIST
    caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert caller.refused(Code.DELETE_TOPIC_IN_BROKER, topic="TBW102")[0] == ResponseCode.INVALID_PARAMETER
    assert caller.refused(Code.DELETE_TOPIC_IN_BROKER, topic="a/b")[0] == ResponseCode.INVALID_PARAMETER


def test_stats_have_every_queue_that_can_be_read_or_written() -> None:
    world = World()
    caller = Caller(world)
    world.parts.topics.put([TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=2)])
    world.put("T", queue_id=1)
    stats = decode_admin_body(TopicStats, caller.ok(Code.GET_TOPIC_STATS_INFO, topic="T").body)
    assert [queue.queue_id for queue in stats.offset_table] == [0, 1, 2]
    row = stats.offset_table[MessageQueue("T", "broker-a", 1)]
    assert (row.min_offset, row.max_offset, row.last_update_timestamp) == (0, 1, world.clock.now_ms())
    assert stats.offset_table[MessageQueue("T", "broker-a", 0)].last_update_timestamp == 0
    assert caller.refused(Code.GET_TOPIC_STATS_INFO, topic="Nope")[0] == ResponseCode.TOPIC_NOT_EXIST


def test_queues_without_a_topic_are_cleaned() -> None:
    world = World()
    world.put("Orphan")
    world.parts.topics.put([TopicConfig(topic_name="T")])
    world.put("T")
    caller = Caller(world)
    caller.ok(Code.CLEAN_UNUSED_TOPIC)
    assert {topic for topic, _ in world.parts.store.queues()} == {"T"}
    assert "TBW102" in caller.json(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)["topicList"]
