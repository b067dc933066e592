"""Configurations of topics and groups are RocketMQ's JSON, member by member."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from pymq.model.tables import DataVersion, SubscriptionGroupConfig, TopicConfig, perm_text

# As a 5.3.3 broker writes them.
TOPIC = (
    '{"topicName":"T","readQueueNums":4,"writeQueueNums":8,"perm":6,"topicFilterType":"SINGLE_TAG","topicSysFlag":0,'
    '"order":false,"attributes":{"message.type":"FIFO"}}'
)
GROUP = (
    '{"groupName":"g","consumeEnable":true,"consumeFromMinEnable":true,"consumeBroadcastEnable":true,'
    '"consumeMessageOrderly":false,"retryQueueNums":1,"retryMaxTimes":16,"groupRetryPolicy":{"type":"CUSTOMIZED"},'
    '"brokerId":0,"whichBrokerWhenConsumeSlowly":1,"notifyConsumerIdsChangedEnable":true,"groupSysFlag":0,'
    '"consumeTimeoutMinute":15,"attributes":{}}'
)


def test_a_topics_json_is_rewritten_byte_by_byte() -> None:
    config = msgspec.json.decode(TOPIC, type=TopicConfig)
    assert (config.read_queue_nums, config.write_queue_nums, config.queue_count) == (4, 8, 8)
    assert msgspec.json.encode(config).decode() == TOPIC


def test_a_groups_json_is_the_default_and_keeps_its_meaning() -> None:
    config = msgspec.json.decode(GROUP, type=SubscriptionGroupConfig)
    assert config == SubscriptionGroupConfig(group_name="g")
    assert json.loads(msgspec.json.encode(config)) == json.loads(GROUP) | {"subscriptionDataSet": None}


@pytest.mark.parametrize(("cls", "name"), [(TopicConfig, "topicName"), (SubscriptionGroupConfig, "groupName")])
def test_other_versions_have_more_members_or_fewer(cls: Any, name: str) -> None:
    assert msgspec.json.decode(json.dumps({name: "x", "ofTheFuture": [1]}), type=cls) == msgspec.json.decode(
        json.dumps({name: "x"}), type=cls
    )
    with pytest.raises(msgspec.ValidationError, match=name):
        msgspec.json.decode("{}", type=cls)


def test_configurations_do_not_share_attributes() -> None:
    TopicConfig(topic_name="T").attributes["a"] = "b"
    assert TopicConfig(topic_name="T").attributes == {}


@pytest.mark.parametrize(
    ("perm", "text", "readable", "writable"),
    [
        (0, "---", False, False),
        (1, "--X", False, False),
        (2, "-W-", False, True),
        (4, "R--", True, False),
        (6, "RW-", True, True),
        (7, "RWX", True, True),
        (8, "---", False, False),
    ],
)
def test_permissions(perm: int, text: str, readable: bool, writable: bool) -> None:
    config = TopicConfig(topic_name="T", perm=perm)
    assert (perm_text(perm), config.readable, config.writable) == (text, readable, writable)


@pytest.mark.parametrize(("read", "write", "count"), [(4, 8, 8), (8, 4, 8), (0, 0, 0)])
def test_a_shrinking_topic_still_has_its_queues(read: int, write: int, count: int) -> None:
    assert TopicConfig(topic_name="T", read_queue_nums=read, write_queue_nums=write).queue_count == count


@pytest.mark.parametrize(("queue_id", "existing"), [(0, 0), (7, 7), (8, 0), (11, 3)])
def test_a_message_for_a_queue_that_is_gone_goes_to_another(queue_id: int, existing: int) -> None:
    topic = TopicConfig(topic_name="T", read_queue_nums=8, write_queue_nums=4)
    assert topic.existing_queue(queue_id) == existing


def test_every_change_makes_another_version() -> None:
    first = DataVersion(3, 1, 1000)
    assert first.next(900) == DataVersion(4, 1, 900)
    assert first == DataVersion(3, 1, 1000) != first.next(1000)
    assert msgspec.json.encode(first) == b'{"counter":3,"stateVersion":1,"timestamp":1000}'
