"""Codes 41 and 42."""

from __future__ import annotations

import json

from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.world import Caller, World


def body(client_id: str, *queues: tuple[str, str, int], group: str = "g") -> bytes:
    named = [{"topic": topic, "brokerName": broker, "queueId": queue_id} for topic, broker, queue_id in queues]
    return json.dumps({"consumerGroup": group, "clientId": client_id, "mqSet": named}).encode()


def test_a_queue_is_locked_for_one_client() -> None:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    caller = Caller(world)
    queue = ("T", "broker-a", 0)
    granted = caller.json(Code.LOCK_BATCH_MQ, body("a", queue))
    assert granted == {"lockOKMQSet": [{"topic": "T", "brokerName": "broker-a", "queueId": 0}]}
    assert caller.json(Code.LOCK_BATCH_MQ, body("b", queue)) == {"lockOKMQSet": []}
    caller.ok(Code.UNLOCK_BATCH_MQ, body("a", queue))
    assert len(caller.json(Code.LOCK_BATCH_MQ, body("b", queue))["lockOKMQSet"]) == 1


def test_queues_that_are_not_here_are_never_granted() -> None:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    queues = [("T", "broker-b", 0), ("T", "broker-a", 2), ("T", "broker-a", -1), ("Nope", "broker-a", 0)]
    assert Caller(world).json(Code.LOCK_BATCH_MQ, body("a", *queues)) == {"lockOKMQSet": []}


def test_bad_bodies_are_refused() -> None:
    caller = Caller(World())
    assert caller.refused(Code.LOCK_BATCH_MQ, b"no json")[0] == ResponseCode.SYSTEM_ERROR
    assert caller.refused(Code.LOCK_BATCH_MQ, body("a", group="a/b"))[0] == ResponseCode.INVALID_PARAMETER


def test_leases_are_for_groups_within_their_limit_only() -> None:
    caller = Caller(World(maxGroups="20"))
    for i in range(20):
        caller.ok(Code.LOCK_BATCH_MQ, body("a", group=f"g{i}"))
    assert caller.refused(Code.LOCK_BATCH_MQ, body("a", group="g20"))[0] == ResponseCode.NO_PERMISSION
