"""Codes 14, 15, 29, 30, 31, 32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pymq.broker.assembly.wiring import broker_dispatcher
from pymq.broker.handlers.offsets import END_KEPT_COUNT_MAX, END_KEPT_MS
from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.world import Caller, World
from tests.store.support import stage

QUEUE: dict[str, Any] = {"topic": "T", "queueId": 0}


@pytest.fixture
def world() -> World:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    world.parts.metadata.groups.ensure("g")
    return world


def test_ends_and_times_of_a_queue(world: World) -> None:
    caller = Caller(world)
    assert caller.header(Code.GET_MAX_OFFSET, **QUEUE) == {"offset": "0"}
    assert caller.header(Code.GET_EARLIEST_MSG_STORETIME, **QUEUE) == {"timestamp": "-1"}
    start_ms = world.clock.now_ms()
    for _ in range(3):
        world.put("T")
        world.clock.advance(1000)
    assert caller.header(Code.GET_MAX_OFFSET, **QUEUE, committed="true") == {"offset": "3"}
    assert caller.header(Code.GET_MIN_OFFSET, **QUEUE) == {"offset": "0"}
    assert caller.header(Code.GET_EARLIEST_MSG_STORETIME, **QUEUE) == {"timestamp": str(start_ms)}
    search = Code.SEARCH_OFFSET_BY_TIMESTAMP
    assert caller.header(search, **QUEUE, timestamp=start_ms + 1) == {"offset": "1"}
    assert caller.header(search, **QUEUE, timestamp=start_ms + 1000, boundaryType="UPPER") == {"offset": "1"}
    assert caller.header(search, **QUEUE, timestamp=start_ms + 10**6) == {"offset": "3"}


def asked_ends(world: World, between: Callable[[], object], second: str = "127.0.0.1:5555") -> list[str]:
    """Ask as a client that starts at the end: for the group's offset, then twice for the queue's end."""
    dispatcher = broker_dispatcher(world.parts)
    code, _ = Caller(world, dispatcher=dispatcher).refused(Code.QUERY_CONSUMER_OFFSET, consumerGroup="g", **QUEUE)
    assert code == ResponseCode.QUERY_NOT_FOUND
    between()
    caller = Caller(world, second, dispatcher=dispatcher)
    return [caller.header(Code.GET_MAX_OFFSET, **QUEUE)["offset"] for _ in range(2)]


def test_a_message_between_both_questions_of_a_starting_group_is_not_skipped(world: World) -> None:
    assert asked_ends(world, lambda: world.put("T")) == ["0", "1"]


def test_another_client_gets_the_end_of_now(world: World) -> None:
    assert asked_ends(world, lambda: world.put("T"), "127.0.0.1:6666") == ["1", "1"]


def test_a_client_that_waits_gets_the_end_of_now(world: World) -> None:
    def later() -> None:
        world.put("T")
        world.clock.advance(END_KEPT_MS + 1)

    assert asked_ends(world, later) == ["1", "1"]


def test_earlier_ends_are_kept_for_so_many_queues(world: World) -> None:
    world.parts.metadata.topics.put(
        [TopicConfig(topic_name="W", read_queue_nums=END_KEPT_COUNT_MAX + 1, write_queue_nums=END_KEPT_COUNT_MAX + 1)]
    )
    caller = Caller(world)
    for queue_id in range(END_KEPT_COUNT_MAX + 1):
        caller.refused(Code.QUERY_CONSUMER_OFFSET, consumerGroup="g", topic="W", queueId=queue_id)
    for queue_id in (0, 1):
        world.put("W", queue_id=queue_id)
    assert [caller.header(Code.GET_MAX_OFFSET, topic="W", queueId=n)["offset"] for n in (0, 1)] == ["1", "0"]


def test_an_empty_batch_queue_has_no_least_offset(world: World) -> None:
    batches = TopicConfig(topic_name="B", read_queue_nums=1, write_queue_nums=1, attributes={"queue.type": "BatchCQ"})
    world.parts.metadata.topics.put([batches])
    assert Caller(world).header(Code.GET_MIN_OFFSET, topic="B", queueId=0) == {"offset": "-1"}


def test_an_unknown_topic_ends_at_zero(world: World) -> None:
    for code in (Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET):
        assert Caller(world).header(code, topic="Nope", queueId=5) == {"offset": "0"}


def test_negative_queues_are_refused(world: World) -> None:
    for code in (Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET, Code.GET_EARLIEST_MSG_STORETIME):
        assert Caller(world).refused(code, topic="T", queueId=-1)[0] == ResponseCode.INVALID_PARAMETER


def test_a_missing_field_is_named(world: World) -> None:
    code, remark = Caller(world).refused(Code.GET_MAX_OFFSET, topic="T")
    assert code == ResponseCode.SYSTEM_ERROR and "queueId" in remark
    code, remark = Caller(world).refused(Code.GET_MAX_OFFSET, topic="T", queueId="x")
    assert "queueId" in remark


def test_commit_and_query(world: World) -> None:
    caller = Caller(world)
    world.put("T", queue_id=1)
    update, query = Code.UPDATE_CONSUMER_OFFSET, Code.QUERY_CONSUMER_OFFSET
    assert caller.ok(update, consumerGroup="g", topic="T", queueId=1, commitOffset=1)
    assert caller.header(query, consumerGroup="g", topic="T", queueId=1) == {"offset": "1"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"consumerGroup": "nope"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"topic": "Nope"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": 2}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": -1}, ResponseCode.INVALID_PARAMETER),
        ({"commitOffset": 2}, ResponseCode.INVALID_PARAMETER),
        ({"commitOffset": -1}, ResponseCode.INVALID_PARAMETER),
        ({"commitOffset": 2**63}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_impossible_commits_are_refused(world: World, change: dict[str, Any], code: int) -> None:
    world.put("T")
    fields: dict[str, Any] = {"consumerGroup": "g", "topic": "T", "queueId": 0, "commitOffset": 1, **change}
    assert Caller(world).refused(Code.UPDATE_CONSUMER_OFFSET, **fields)[0] == code


def test_a_new_group_starts_at_a_young_queue_s_first_message(world: World) -> None:
    caller, query = Caller(world), Code.QUERY_CONSUMER_OFFSET
    fields = {"consumerGroup": "new", **QUEUE}
    assert caller.refused(query, **fields)[0] == ResponseCode.QUERY_NOT_FOUND
    world.put("T")
    assert caller.header(query, **fields) == {"offset": "0"}
    assert caller.refused(query, **fields, setZeroIfNotFound="false")[0] == ResponseCode.QUERY_NOT_FOUND
    assert world.parts.metadata.groups.get("new") is None


def test_a_commit_that_only_goes_forward(world: World) -> None:
    caller = Caller(world)
    for _ in range(3):
        world.put("T")
    world.parts.metadata.groups.ensure("g")
    fields: dict[str, Any] = {"consumerGroup": "g", "topic": "T", "queueId": 0}
    update = Code.UPDATE_CONSUMER_OFFSET
    assert caller.header(update, **fields, commitOffset=2, pymqOnlyForward="true") == {"offset": "2"}
    assert world.parts.metadata.cursors.query("g", "T", 0) == 2
    assert caller.header(update, **fields, commitOffset=1, pymqOnlyForward="true") == {"offset": "2"}
    assert world.parts.metadata.cursors.query("g", "T", 0) == 2
    caller.ok(Code.UPDATE_CONSUMER_OFFSET, **fields, commitOffset=1, pymqOnlyForward="false")
    assert world.parts.metadata.cursors.query("g", "T", 0) == 1


def test_an_offset_from_a_slave_creates_its_group() -> None:
    world = World()
    fields: dict[str, Any] = {"consumerGroup": "new", "topic": "T", "queueId": 0, "commitOffset": 1}
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    world.put("T")
    caller, update = Caller(world), Code.UPDATE_CONSUMER_OFFSET
    assert caller.refused(update, **fields)[0] == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert caller.header(update, **fields, pymqOnlyForward="true") == {"offset": "1"}
    assert world.parts.metadata.groups.get("new") is not None


def test_an_offset_from_a_slave_creates_no_group_without_auto_creation() -> None:
    world = World(autoCreateSubscriptionGroup="false")
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    fields: dict[str, Any] = {
        "consumerGroup": "new",
        "topic": "T",
        "queueId": 0,
        "commitOffset": 0,
        "pymqOnlyForward": "true",
    }
    refused = Caller(world).refused(Code.UPDATE_CONSUMER_OFFSET, **fields)
    assert refused[0] == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST and world.parts.metadata.groups.get("new") is None


def test_a_slave_may_commit_past_its_masters_confirm_offset(world: World) -> None:
    """Its consumers' commits come before it says that it has the messages."""
    caller, cursors = Caller(world), world.parts.metadata.cursors
    world.put("T")
    stage(world.parts.store, "T", 0, b"x")
    world.parts.store.commit(await_confirm=True)
    assert world.parts.store.max_offset("T", 0) == 1
    commit = {"code": Code.UPDATE_CONSUMER_OFFSET, "consumerGroup": "g", **QUEUE}
    assert caller.header(**commit, commitOffset=2, pymqOnlyForward="true") == {"offset": "2"}
    assert cursors.query("g", "T", 0) == 2
    assert caller.refused(**commit, commitOffset=2)[0] == ResponseCode.INVALID_PARAMETER
    assert cursors.query("g", "T", 0) == 2


def test_a_slaves_commit_past_the_queue_end_is_capped_at_the_earlier_end(world: World) -> None:
    """The messages that its consumers had were lost; others have their offsets by now."""
    for _ in range(2):
        world.put("T")
    world.parts.replication.epoch_file.open_as_master(
        world.parts.store.physical_max_offset, was_clean=False, begins_epoch=False
    )
    world.put("T")
    fields = {"consumerGroup": "g", **QUEUE, "commitOffset": "4", "pymqOnlyForward": "true"}
    assert Caller(world).header(Code.UPDATE_CONSUMER_OFFSET, **fields) == {"offset": "2"}
    assert Caller(world).header(Code.UPDATE_CONSUMER_OFFSET, **fields | {"commitOffset": "3"}) == {"offset": "3"}


def test_a_fenced_master_takes_no_offsets_of_slaves(world: World) -> None:
    """The successor may have copied the offsets by now; the slave sends its offset to the next master."""
    world.put("T")
    fields = {"consumerGroup": "g", **QUEUE, "commitOffset": "1"}
    world.parts.replication.write_fence.begin(1000, "hand-over")
    code, _ = Caller(world).refused(Code.UPDATE_CONSUMER_OFFSET, **fields, pymqOnlyForward="true")
    assert code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert world.parts.metadata.cursors.query("g", "T", 0) == -1
    world.parts.replication.write_fence.end()
    assert Caller(world).header(Code.UPDATE_CONSUMER_OFFSET, **fields, pymqOnlyForward="true") == {"offset": "1"}
