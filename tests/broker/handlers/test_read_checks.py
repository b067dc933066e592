"""What a group may not read is refused alike to its pulls and to its pops."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.world import Caller, World

PULL: dict[str, Any] = {"queueOffset": 0, "maxMsgNums": 1, "sysFlag": 4, "commitOffset": 0}
PULL |= {"suspendTimeoutMillis": 0, "subVersion": 0}
POP: dict[str, Any] = {
    "maxMsgNums": 1,
    "invisibleTime": 1000,
    "pollTime": 0,
    "bornTime": 0,
    "initMode": 0,
    "order": "false",
}


def refusals(world: World, **fields: Any) -> list[tuple[int, str]]:
    """Return how a pull and a pop of T by G are refused."""
    shared = {"consumerGroup": "G", "topic": "T", "queueId": 0, **fields}
    return [
        Caller(world).refused(Code.PULL_MESSAGE, subscription="*", **PULL, **shared),
        Caller(world).refused(Code.POP_MESSAGE, **POP, **shared),
    ]


def world_with_topic(perm: int = 6, **settings: Any) -> World:
    world = World(**settings)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2, perm=perm)])
    return world


def test_a_broker_without_the_read_permission() -> None:
    pulled, popped = refusals(world_with_topic(brokerPermission="2"))
    assert pulled == popped and pulled[0] == ResponseCode.NO_PERMISSION and "serves no reads" in pulled[1]


def test_a_topic_without_the_read_permission() -> None:
    pulled, popped = refusals(world_with_topic(perm=2))
    assert pulled == popped and pulled[0] == ResponseCode.NO_PERMISSION and "without read (4)" in pulled[1]


def test_a_topic_that_does_not_exist() -> None:
    pulled, popped = refusals(world_with_topic(), topic="U")
    assert pulled == popped and pulled[0] == ResponseCode.TOPIC_NOT_EXIST


def test_a_group_that_may_not_consume() -> None:
    world = world_with_topic()
    world.parts.metadata.groups.put([SubscriptionGroupConfig(group_name="G", consume_enable=False)])
    pulled, popped = refusals(world)
    assert pulled == popped and pulled[0] == ResponseCode.NO_PERMISSION and "consumeEnable is false" in pulled[1]


@pytest.mark.parametrize("queue_id", [2, -2])
def test_a_queue_that_can_not_be_read(queue_id: int) -> None:
    (pull_code, pulled), (pop_code, popped) = refusals(world_with_topic(), queueId=queue_id)
    assert pull_code == pop_code == ResponseCode.INVALID_PARAMETER
    assert popped == f"{pulled}; -1 stands for all" and "read queues 0 to 1" in pulled
