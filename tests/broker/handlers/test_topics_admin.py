"""Codes 17, 18, 215, 5002, 351, 21, 202, 305, 316."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pymq.broker.handlers.name_lists import LISTED_COUNT_MAX
from pymq.model.message import MessageQueue
from pymq.model.tables import TopicConfig
from pymq.wire.bodies_admin import TopicStats, decode_admin_body
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.headers.admin import TopicStatsAnswer
from tests.broker.disk import Threads, failing
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
    waiting: list[Callable[[], None]] = []
    world = World()
    world.parts.registration_requests.when_registered = waiting.append  # type: ignore[method-assign, assignment]
    caller = Caller(world)
    assert caller.ask(Code.UPDATE_AND_CREATE_TOPIC, **CREATE) is None
    assert caller.peer.answers == []
    waiting[0]()
    assert [reply.code for reply in caller.peer.answers] == [0]


def test_on_a_slow_disk_the_answer_waits_and_heartbeats_don_t() -> None:
    world = World()
    world.run_in_thread = threads = Threads()
    operator, client = Caller(world), Caller(world)
    assert operator.ask(Code.UPDATE_AND_CREATE_TOPIC, **CREATE) is None
    body = {"clientID": "c", "consumerDataSet": [{"groupName": "g"}], "producerDataSet": []}
    beat = client.ask(Code.HEART_BEAT, json.dumps(body).encode())
    assert beat is not None and beat.code == 0 and world.parts.metadata.topics.get("%RETRY%g") is not None
    assert operator.refused(Code.GET_TOPIC_CONFIG, topic="T")[0] == ResponseCode.TOPIC_NOT_EXIST
    assert operator.peer.answers == []
    while threads.waiting:
        threads.run_one()
    assert [reply.code for reply in operator.peer.answers] == [0]
    assert operator.json(Code.GET_TOPIC_CONFIG, topic="T")["writeQueueNums"] == 4
    again = World(world.files.after_kill(), world.clock).parts
    assert (
        again.metadata.topics.all() == world.parts.metadata.topics.all()
        and again.metadata.groups.all() == world.parts.metadata.groups.all()
    )


def test_a_topic_that_can_t_be_saved_is_refused_and_is_not_there() -> None:
    world = World()
    caller = Caller(world)
    with failing(world, "open", "/config/topics"):
        assert caller.ask(Code.UPDATE_AND_CREATE_TOPIC, **CREATE) is None
    (reply,) = caller.peer.answers
    assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE and "topics.json" in (reply.remark or "")
    assert world.parts.metadata.topics.get("T") is None


def test_messages_go_with_their_topic_once_its_deletion_is_saved() -> None:
    world = World()
    caller = Caller(world)
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **CREATE)
    world.put("T")
    world.parts.metadata.cursors.commit("g", "T", 0, 1)
    with failing(world, "open", "/config/topics"):
        assert caller.ask(Code.DELETE_TOPIC_IN_BROKER, topic="T") is None
    assert caller.peer.answers.pop().code == ResponseCode.SERVICE_NOT_AVAILABLE
    world.run_in_thread = threads = Threads()
    assert caller.ask(Code.DELETE_TOPIC_IN_BROKER, topic="T") is None
    world.put("T", b"sent while the deletion is being saved")
    assert len(world.messages("T")) == 2 and world.parts.metadata.cursors.query("g", "T", 0) == 1
    threads.run_one()
    assert [reply.code for reply in caller.peer.answers] == [0]
    assert world.parts.store.max_offset("T", 0) == 0 and world.parts.metadata.cursors.query("g", "T", 0) == -1


def test_a_deletion_that_fails_after_its_save_is_reported() -> None:
    world = World()
    caller = Caller(world)
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **CREATE)
    world.put("T")
    with failing(world, "open", "/config/deletedTopics"):
        assert caller.ask(Code.DELETE_TOPIC_IN_BROKER, topic="T") is None
    reply = caller.peer.answers.pop()
    assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE and "deletedTopics.json" in (reply.remark or "")
    caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert world.parts.store.max_offset("T", 0) == 0


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
    topics: list[dict[str, Any]] = [
        {"topicName": name, "perm": 6, "readQueueNums": 1, "writeQueueNums": 1} for name in ("A", "B")
    ]
    topics[0]["attributes"] = {"+message.type": "DELAY"}
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC_LIST, json.dumps({"topicConfigList": topics}).encode())
    assert world.parts.metadata.topics.require("A").attributes == {"message.type": "DELAY"}
    topics[0]["topicName"], topics[1]["perm"] = "C", 99
    code, _ = caller.refused(Code.UPDATE_AND_CREATE_TOPIC_LIST, json.dumps({"topicConfigList": topics}).encode())
    assert code == ResponseCode.INVALID_PARAMETER and world.parts.metadata.topics.get("C") is None


def test_a_deleted_topic_leaves_nothing_behind() -> None:
    world = World()
    caller = Caller(world)
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **CREATE)
    world.put("T")
    world.parts.metadata.cursors.commit("g", "T", 0, 1)
    caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert world.parts.store.max_offset("T", 0) == 0
    assert world.parts.metadata.cursors.groups_of("T") == []
    assert caller.refused(Code.GET_TOPIC_CONFIG, topic="T")[0] == ResponseCode.TOPIC_NOT_EXIST
    caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert caller.refused(Code.DELETE_TOPIC_IN_BROKER, topic="TBW102")[0] == ResponseCode.INVALID_PARAMETER
    assert caller.refused(Code.DELETE_TOPIC_IN_BROKER, topic="a/b")[0] == ResponseCode.INVALID_PARAMETER


def test_a_planned_deletion_of_a_topic_that_was_made_again_is_refused() -> None:
    world = World()
    caller = Caller(world, language="PYTHON")
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **CREATE)
    world.put("T", b"former")
    caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T", pymqDeletedBelow=0)
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **CREATE)
    world.put("T", b"new")
    end = world.parts.store.deletions.end("T")
    for known in (0, end - 1):
        code, remark = caller.refused(Code.DELETE_TOPIC_IN_BROKER, topic="T", pymqDeletedBelow=known)
        assert code == ResponseCode.INVALID_PARAMETER and "made again, after this deletion was planned" in remark
    assert world.parts.store.max_offset("T", 0) == 1
    caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T", pymqDeletedBelow=end)
    assert world.parts.store.queue_end("T", 0) is None


def test_clients_of_pymq_learn_what_was_deleted_of_a_topic() -> None:
    world = World()
    caller, other = Caller(world, language="PYTHON"), Caller(world)
    ends = []
    for _ in range(3):
        caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **CREATE)
        ext = caller.ok(Code.GET_TOPIC_STATS_INFO, topic="T").ext
        assert isinstance(ext, TopicStatsAnswer) and ext.pymq_deleted_below is not None
        ends.append(ext.pymq_deleted_below)
        world.put("T", b"body")
        assert other.ok(Code.GET_TOPIC_STATS_INFO, topic="T").ext is None
        caller.ok(Code.DELETE_TOPIC_IN_BROKER, topic="T")
    assert ends[0] == 0 and ends == sorted(set(ends))


def test_stats_have_every_queue_that_can_be_read_or_written() -> None:
    world = World()
    caller = Caller(world)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=3, write_queue_nums=2)])
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
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    world.put("T")
    caller = Caller(world)
    caller.ok(Code.CLEAN_UNUSED_TOPIC)
    assert {topic for topic, _ in world.parts.store.queues()} == {"T"}
    assert "TBW102" in caller.json(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)["topicList"]


def test_a_change_made_from_an_older_version_is_refused() -> None:
    world = World()
    caller, pymqs = Caller(world), Caller(world, language="PYTHON")
    fields: dict[str, Any] = {"topic": "T", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6"}
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **fields)
    assert caller.ok(Code.GET_TOPIC_CONFIG, topic="T").ext is None, "for other clients nothing changes"
    seen = pymqs.header(Code.GET_TOPIC_CONFIG, topic="T")["pymqVersion"]
    done = pymqs.header(Code.UPDATE_AND_CREATE_TOPIC, **fields | {"perm": "4"}, pymqExpectedVersion=seen)
    assert int(done["pymqVersion"]) == int(seen) + 1
    code, _ = pymqs.refused(Code.UPDATE_AND_CREATE_TOPIC, **fields, pymqExpectedVersion=seen)
    assert code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert caller.json(Code.GET_TOPIC_CONFIG, topic="T")["perm"] == 4


def _listed(topics: list[str]) -> bytes:
    return json.dumps({"topicList": topics}).encode()


def test_listed_topics_go_with_all_that_belongs_to_them() -> None:
    world = World()
    caller = Caller(world)
    for topic in ("A", "B", "C"):
        caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **{**CREATE, "topic": topic})
        world.put(topic)
        world.parts.metadata.cursors.commit("g", topic, 0, 1)
    world.parts.metadata.topics.ensure_internal("%RETRY%g+B")
    caller.ok(Code.DELETE_TOPIC_IN_BROKER_LIST, _listed(["A", "B", "B", "never"]))
    topics = world.parts.metadata.topics
    assert [topics.get(name) is None for name in ("A", "B", "C", "%RETRY%g+B")] == [True, True, False, True]
    assert [world.parts.store.max_offset(name, 0) for name in ("A", "B", "C")] == [0, 0, 1]
    assert [world.parts.metadata.cursors.query("g", name, 0) for name in ("A", "B", "C")] == [-1, -1, 1]
    again = World(world.files.after_kill(), world.clock).parts
    assert again.metadata.topics.all() == topics.all() and again.store.max_offset("A", 0) == 0


@pytest.mark.parametrize(
    ("topics", "part"),
    [
        ([], "empty"),
        (["T", "TBW102"], "system topic"),
        (["T", "a/b"], "character"),
        (["T", ""], "name"),
        ([f"t{number}" for number in range(LISTED_COUNT_MAX + 1)], f"at most {LISTED_COUNT_MAX}"),
        ([f"t{number}" for number in range(100_000)], "has 100000 topics"),
        (["x" * 200_000], "127"),
    ],
)
def test_a_list_that_can_t_be_deleted_deletes_nothing(topics: list[str], part: str) -> None:
    world = World()
    caller = Caller(world)
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **CREATE)
    world.put("T")
    code, remark = caller.refused(Code.DELETE_TOPIC_IN_BROKER_LIST, _listed(topics))
    assert code == ResponseCode.INVALID_PARAMETER and part in remark and len(remark) < 1000
    assert world.parts.metadata.topics.get("T") is not None and world.parts.store.max_offset("T", 0) == 1


def test_the_longest_list_is_deleted() -> None:
    world = World()
    names = [f"t{number}" for number in range(LISTED_COUNT_MAX)]
    topics = [{"topicName": name, "readQueueNums": 1, "writeQueueNums": 1} for name in names]
    caller = Caller(world)
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC_LIST, json.dumps({"topicConfigList": topics}).encode())
    caller.ok(Code.DELETE_TOPIC_IN_BROKER_LIST, _listed(names))
    assert not [name for name in world.parts.metadata.topics.all() if name.startswith("t")]


def test_a_list_whose_deletion_can_t_be_saved_is_refused_and_stays() -> None:
    world = World()
    caller = Caller(world)
    caller.ok(Code.UPDATE_AND_CREATE_TOPIC, **CREATE)
    with failing(world, "open", "/config/topics"):
        assert caller.ask(Code.DELETE_TOPIC_IN_BROKER_LIST, _listed(["T"])) is None
    assert caller.peer.answers.pop().code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert world.parts.metadata.topics.get("T") is not None


@pytest.mark.parametrize("body", [b"", b"[[", b"{}", b'{"topicList": "T"}', b'{"topicList": [1]}'])
def test_a_body_that_is_no_list_is_refused(body: bytes) -> None:
    code, remark = Caller(World()).refused(Code.DELETE_TOPIC_IN_BROKER_LIST, body)
    assert code in (ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER) and remark
