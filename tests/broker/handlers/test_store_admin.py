"""Codes 306, 321 and 907: units of a consume queue, cleaning, and the status of replication."""

from __future__ import annotations

from typing import Any

from pymq.model.javahash import string_hash
from pymq.model.tables import TopicConfig
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_clients import beat
from tests.broker.world import Caller, World


def test_entries_of_a_consume_queue() -> None:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=1, write_queue_nums=1)])
    placed = [world.put("T", TAGS=tag) for tag in ("A", "B", "C")]
    caller = Caller(world)
    caller.ok(Code.HEART_BEAT, beat())
    fields: dict[str, Any] = {"topic": "T", "queueId": 0}
    shown = caller.json(Code.QUERY_CONSUME_QUEUE, **fields, index=1, count=5, consumerGroup="g")
    assert (shown["minQueueIndex"], shown["maxQueueIndex"]) == (0, 3)
    assert [(row["physicOffset"], row["physicSize"], row["tagsCode"], row["eval"]) for row in shown["queueData"]] == [
        (placed[1].physical_offset, placed[1].size_bytes, string_hash("B"), True),
        (placed[2].physical_offset, placed[2].size_bytes, string_hash("C"), False),
    ]
    last = caller.json(Code.QUERY_CONSUME_QUEUE, **fields, index=-1, count=5)
    assert [row["physicOffset"] for row in last["queueData"]] == [placed[2].physical_offset]
    assert caller.json(Code.QUERY_CONSUME_QUEUE, **fields, index=9, count=5)["queueData"] == []
    for topic, queue_id, code in (("T", 1, ResponseCode.INVALID_PARAMETER), ("Nope", 0, ResponseCode.TOPIC_NOT_EXIST)):
        refused = caller.refused(Code.QUERY_CONSUME_QUEUE, topic=topic, queueId=queue_id, index=0, count=1)
        assert refused[0] == code


def test_replication_status_and_cleaning() -> None:
    world = World()
    world.put("T")
    caller = Caller(world)
    status = caller.json(Code.GET_BROKER_HA_STATUS)
    assert status["master"] is True and status["haConnectionInfo"] == []
    assert status["masterCommitLogMaxOffset"] == world.parts.store.physical_max_offset > 0
    caller.ok(Code.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert len(world.messages("T")) == 1
