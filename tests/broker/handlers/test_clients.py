"""Codes 34, 35, 38, 46."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pymq.broker.handlers.clients import HEARTBEAT_SIZE_MAX_BYTES
from pymq.broker.messages.expressions import TAG_COUNT_MAX
from pymq.wire.bodies_client import DIFFERING_SUBSCRIPTIONS
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.world import Caller, World


def beat(client_id: str = "10.0.0.1@c1", group: str = "g", topic: str = "T", **fields: Any) -> bytes:
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "unitMode": False,
        "subscriptionDataSet": [{"topic": topic, "subString": "A || B", "subVersion": 5, "codeSet": [65, 66]}],
    }
    return json.dumps(
        {
            "clientID": client_id,
            "producerDataSet": [{"groupName": "p"}],
            "consumerDataSet": [consumer],
            **fields,
        }
    ).encode()


def test_a_heartbeat_makes_group_retry_topic_and_membership() -> None:
    world = World()
    caller = Caller(world)
    answer = caller.header(Code.HEART_BEAT, beat())
    assert answer["IS_SUPPORT_HEART_BEAT_V2"] == "false"
    assert world.parts.metadata.groups.get("g") is not None
    assert world.parts.metadata.topics.require("%RETRY%g").perm == 6
    assert caller.json(Code.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g") == {"consumerIdList": ["10.0.0.1@c1"]}
    assert [client.client_id for client in world.parts.metadata.clients.producers("p")] == ["10.0.0.1@c1"]
    found = world.parts.metadata.clients.subscription("g", "T")
    assert found is not None and found.sub_string == "A || B"


def test_members_see_each_other_and_are_notified() -> None:
    world = World()
    first, second = Caller(world), Caller(world)
    first.ok(Code.HEART_BEAT, beat("a"))
    second.ok(Code.HEART_BEAT, beat("b"))
    assert [command.code for command in first.peer.pushed] == [Code.NOTIFY_CONSUMER_IDS_CHANGED] * 2
    assert first.json(Code.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g") == {"consumerIdList": ["a", "b"]}
    second.ok(Code.UNREGISTER_CLIENT, clientID="b", consumerGroup="g")
    assert first.json(Code.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g") == {"consumerIdList": ["a"]}
    assert len(first.peer.pushed) == 3


def test_an_empty_group_has_no_list() -> None:
    code, remark = Caller(World()).refused(Code.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="nobody")
    assert code == ResponseCode.SYSTEM_ERROR and "nobody" in remark


@pytest.mark.parametrize(
    ("body", "code", "part"),
    [
        (b"", ResponseCode.SYSTEM_ERROR, "body"),
        (b"[]", ResponseCode.SYSTEM_ERROR, "body"),
        (b'{"producerDataSet":[]}', ResponseCode.SYSTEM_ERROR, "clientID"),
        (beat(client_id=""), ResponseCode.INVALID_PARAMETER, "clientID"),
        (beat(group="a/b"), ResponseCode.INVALID_PARAMETER, "a/b"),
        (beat(topic="../T"), ResponseCode.INVALID_PARAMETER, "../T"),
        (beat(producerDataSet=[{"groupName": f"p{i}"} for i in range(300)]), ResponseCode.NO_PERMISSION, "256"),
    ],
)
def test_a_refused_heartbeat_changes_nothing(body: bytes, code: int, part: str) -> None:
    world = World()
    groups, topics = world.parts.metadata.groups.all(), world.parts.metadata.topics.all()
    found, remark = Caller(world).refused(Code.HEART_BEAT, body)
    assert found == code and part in remark
    assert world.parts.metadata.groups.all() == groups and world.parts.metadata.topics.all() == topics
    assert world.parts.metadata.clients.all_producers() == {}


def test_too_many_subscriptions_are_refused() -> None:
    caller = Caller(World(maxSubscriptionsPerGroup="1"))
    data = json.loads(beat())
    data["consumerDataSet"][0]["subscriptionDataSet"] *= 2
    code, remark = caller.refused(Code.HEART_BEAT, json.dumps(data).encode())
    assert code == ResponseCode.NO_PERMISSION and "maxSubscriptionsPerGroup" in remark


def filter_check(expression: str, expression_type: str) -> bytes:
    subscription = {"topic": "T", "subString": expression, "expressionType": expression_type}
    return json.dumps({"clientId": "c", "group": "g", "subscriptionData": subscription}).encode()


def test_a_filter_is_checked_before_the_consumer_starts() -> None:
    caller = Caller(World())
    for expression, expression_type in (("A || B", "TAG"), ("a > 1", "SQL92")):
        caller.ok(Code.CHECK_CLIENT_CONFIG, filter_check(expression, expression_type))
    code, remark = caller.refused(Code.CHECK_CLIENT_CONFIG, filter_check("a > ", "SQL92"))
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED and "column 5" in remark


def test_sql_can_be_switched_off() -> None:
    caller = Caller(World(enablePropertyFilter="false"))
    caller.ok(Code.CHECK_CLIENT_CONFIG, filter_check("A", "TAG"))
    code, remark = caller.refused(Code.CHECK_CLIENT_CONFIG, filter_check("a > 1", "SQL92"))
    assert code == ResponseCode.SYSTEM_ERROR and "enablePropertyFilter" in remark


def many(*groups: str, producers: int = 0, start: int = 0) -> bytes:
    consumers = [{"groupName": group, "subscriptionDataSet": []} for group in groups]
    named = [{"groupName": f"p{start + i}"} for i in range(producers)]
    return json.dumps({"clientID": "c", "producerDataSet": named, "consumerDataSet": consumers}).encode()


def test_a_heartbeat_of_many_new_groups_saves_each_table_once() -> None:
    world = World()
    before = world.parts.metadata.groups.data_version.counter, world.parts.metadata.topics.data_version.counter
    Caller(world).ok(Code.HEART_BEAT, many(*[f"g{i}" for i in range(50)]))
    after = world.parts.metadata.groups.data_version.counter, world.parts.metadata.topics.data_version.counter
    assert (after[0] - before[0], after[1] - before[1]) == (1, 1)
    assert world.parts.metadata.topics.get("%RETRY%g49") is not None


def test_groups_of_one_connection_add_up_over_its_heartbeats() -> None:
    caller = Caller(World(maxGroupsPerClient="10"))
    caller.ok(Code.HEART_BEAT, many("g", producers=8))
    caller.ok(Code.HEART_BEAT, many("g", producers=8))
    code, remark = caller.refused(Code.HEART_BEAT, many("g", producers=2, start=8))
    assert code == ResponseCode.NO_PERMISSION and "11 groups" in remark


def test_at_the_limit_of_groups_a_heartbeat_makes_none_of_its_groups() -> None:
    world = World(maxGroups="20")
    code, remark = Caller(world).refused(Code.HEART_BEAT, many(*[f"g{i}" for i in range(21)]))
    assert code == ResponseCode.NO_PERMISSION and "maxGroups" in remark
    assert world.parts.metadata.groups.all() == {} and world.parts.metadata.clients.consumer_groups() == []


def test_members_that_subscribe_differently_are_told_if_they_are_pymqs() -> None:
    world = World()
    pymq, java = Caller(world, "10.0.0.1:1", language="PYTHON"), Caller(world, "10.0.0.2:1")
    alike = beat("c1"), beat("c2")
    assert DIFFERING_SUBSCRIPTIONS not in pymq.header(Code.HEART_BEAT, alike[0])
    assert DIFFERING_SUBSCRIPTIONS not in java.header(Code.HEART_BEAT, alike[1])
    assert pymq.json(Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")["pymqDifferences"] == {}
    differing = alike[1].replace(b"A || B", b"B || C")
    assert DIFFERING_SUBSCRIPTIONS not in java.header(Code.HEART_BEAT, differing)
    text = pymq.header(Code.HEART_BEAT, alike[0])[DIFFERING_SUBSCRIPTIONS]
    assert "topic 'T': 'A || B' by 1, 'B || C' by 1: give all members" in text
    shown = pymq.json(Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")["pymqDifferences"]
    assert shown == {"T": {"A || B": 1, "B || C": 1}}
    assert "pymqDifferences" not in java.json(Code.GET_CONSUMER_CONNECTION_LIST, consumerGroup="g")


def test_a_heartbeat_has_at_most_its_size() -> None:
    caller = Caller(World())
    most = beat() + b" " * (HEARTBEAT_SIZE_MAX_BYTES - len(beat()))
    caller.ok(Code.HEART_BEAT, most)
    code, remark = caller.refused(Code.HEART_BEAT, most + b" ")
    assert code == ResponseCode.INVALID_PARAMETER
    assert f"{HEARTBEAT_SIZE_MAX_BYTES + 1} bytes, the limit is {HEARTBEAT_SIZE_MAX_BYTES}" in remark


def test_a_heartbeat_with_too_many_tags_is_refused_unless_they_are_a_filter_class() -> None:
    caller = Caller(World())

    def body(count: int, **more: Any) -> bytes:
        data = {"topic": "T", "subString": "||".join(["t"] * count), "subVersion": 1, **more}
        return json.dumps(
            {"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [data]}]}
        ).encode()

    caller.ok(Code.HEART_BEAT, body(TAG_COUNT_MAX))
    code, remark = caller.refused(Code.HEART_BEAT, body(TAG_COUNT_MAX + 1))
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED and f"the limit is {TAG_COUNT_MAX}" in remark
    caller.ok(Code.HEART_BEAT, body(TAG_COUNT_MAX + 1, classFilterMode=True))
