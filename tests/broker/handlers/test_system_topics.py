"""The topics that only the broker writes: no client's send gets in, and a record that can't be read stalls nothing."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.model import names
from pymq.model.ids import encode_offset_id
from pymq.model.record import encode_batch_entry
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from tests.broker.handlers.test_clients import beat
from tests.broker.handlers.test_send import fields
from tests.broker.world import Caller, World

REVIVE = names.REVIVE_TOPIC_PREFIX + "DefaultCluster"
OWN_TOPICS = (names.TIMER_TOPIC, REVIVE, names.HALF_TOPIC, names.OP_HALF_TOPIC, names.SCHEDULE_TOPIC)
DELAYED = {
    names.TIMER_TOPIC: {"TIMER_DELAY_MS": "5000"},
    names.SCHEDULE_TOPIC: {"DELAY": "3"},
}


@pytest.mark.parametrize("topic", OWN_TOPICS)
def test_no_request_of_a_client_writes_to_it(topic: str) -> None:
    world = World()
    caller = Caller(world)
    entry = encode_batch_entry(b"m", b"")
    for code, body, changes in (
        (Code.SEND_MESSAGE, b"m", {}),
        (Code.SEND_MESSAGE_V2, b"m", {}),
        (Code.SEND_MESSAGE_V2, b"m", {"properties": "TIMER_DELAY_MS\x011\x02"}),
        (Code.SEND_MESSAGE_V2, b"m", {"properties": "TRAN_MSG\x01true\x02PGROUP\x01P\x02"}),
        (Code.SEND_BATCH_MESSAGE, entry, {"batch": True}),
        (Code.SEND_REPLY_MESSAGE, b"m", {}),
        (Code.SEND_REPLY_MESSAGE_V2, b"m", {}),
    ):
        short = code not in (Code.SEND_MESSAGE, Code.SEND_REPLY_MESSAGE)
        named = Code.SEND_MESSAGE_V2 if short else Code.SEND_MESSAGE
        found, remark = caller.refused(code, body, **fields(named, topic=topic, **changes))
        assert found == ResponseCode.NO_PERMISSION and topic in remark and "a topic of your own" in remark
    world.parts.end_turn()
    assert world.parts.store.max_offset(topic, 0) == 0
    assert world.parts.requests.fast_sends._targets.find(topic, 0) is None


@pytest.mark.parametrize("topic", OWN_TOPICS)
def test_it_is_a_system_topic_that_stays_as_it_is(topic: str) -> None:
    world = World()
    caller = Caller(world)
    assert topic in caller.json(Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)["topicList"]
    assert names.is_system_topic(topic) and not names.is_user_topic(topic)
    assert "can't be deleted" in caller.refused(Code.DELETE_TOPIC_IN_BROKER, topic=topic)[1]


@pytest.mark.parametrize("topic", sorted(DELAYED))
def test_no_consumer_gets_a_waiting_message_by_its_place_in_the_log(topic: str) -> None:
    world = World()
    world.parts.metadata.topics.ensure_internal("T", 1)
    caller, consumer = Caller(world), Caller(world)
    consumer.ok(Code.HEART_BEAT, beat("c1"))
    text = "".join(f"{name}\x01{value}\x02" for name, value in DELAYED[topic].items())
    caller.ask(Code.SEND_MESSAGE_V2, b"m", **fields(topic="T", queue_id=0, properties=text))
    world.parts.messages.writer.commit()
    (waiting,) = world.messages(topic, 2 if topic == names.SCHEDULE_TOPIC else 0)
    back: dict[str, Any] = {"offset": waiting.physical_offset, "group": "g", "delayLevel": -1}
    code, remark = caller.refused(Code.CONSUMER_SEND_MSG_BACK, **back)
    assert code == ResponseCode.SYSTEM_ERROR and "until they are due" in remark
    message_id = encode_offset_id(world.parts.requests.sends._store_host, waiting.physical_offset)
    direct: dict[str, Any] = {"consumerGroup": "g", "clientId": "c1", "brokerName": "broker-a", "msgId": message_id}
    code, remark = caller.refused(Code.CONSUME_MESSAGE_DIRECTLY, **direct)
    assert code == ResponseCode.SYSTEM_ERROR and "until they are due" in remark
    assert world.parts.store.max_offset(names.dlq_topic("g"), 0) == 0


def test_a_record_of_a_delay_level_that_cant_be_read_stalls_nothing() -> None:
    """The wheel's, revive, half and op topics have such tests beside their features."""
    world = World()
    world.parts.metadata.topics.ensure_internal("T", 1)
    real = {"REAL_TOPIC": "T"}
    poison: tuple[dict[str, Any], ...] = ({}, real, {**real, "REAL_QID": "x"}, {"REAL_TOPIC": "Gone"})
    for properties in poison:
        world.put(names.SCHEDULE_TOPIC, b"poison", **properties)
    world.put("T", b"m", DELAY="1")
    world.clock.advance(1000)
    for _ in range(4):
        world.parts.messages.delays.tick()
    assert [message.body for message in world.messages("T")] == [b"m"]
    assert world.parts.messages.delays.dropped_count == 4
