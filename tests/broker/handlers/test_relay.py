"""Codes 223, 307 and 309, and the request that reaches the consumer."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.model.ids import encode_offset_id
from pymq.model.record import decode_records
from pymq.wire.codes import RequestCode as Code
from pymq.wire.codes import ResponseCode
from pymq.wire.command import Command
from tests.broker.handlers.test_clients import beat
from tests.broker.world import Caller, World


class Setup:
    """An operator and a consumer c1 of group g."""

    def __init__(self, version: int = 479) -> None:
        self.world = World()
        self.operator = Caller(self.world)
        self.consumer = Caller(self.world, version=version)
        self.consumer.ok(Code.HEART_BEAT, beat("c1"))


def test_running_info_goes_through_unread() -> None:
    setup = Setup()
    fields: dict[str, Any] = {
        "consumerGroup": "g",
        "clientId": "c1",
        "jstackEnable": "true",
        "Signature": "s",
        "AccessKey": "k",
    }
    assert setup.operator.ask(Code.GET_CONSUMER_RUNNING_INFO, **fields) is None
    ((question, on_answer, timeout_ms),) = setup.consumer.peer.asked
    assert question.code == Code.GET_CONSUMER_RUNNING_INFO and timeout_ms == 10_000
    assert question.ext == {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true"}
    on_answer(Command(0, flag=1, body=b"whatever {"))
    (reply,) = setup.operator.peer.answers
    assert (reply.code, reply.body) == (0, b"whatever {")


def test_a_silent_consumer_is_a_timeout() -> None:
    setup = Setup()
    setup.operator.ask(Code.GET_CONSUMER_RUNNING_INFO, consumerGroup="g", clientId="c1")
    setup.consumer.peer.asked[0][1](None)
    assert setup.operator.peer.answers[0].code == ResponseCode.CONSUME_MSG_TIMEOUT


@pytest.mark.parametrize("code", [Code.GET_CONSUMER_RUNNING_INFO, Code.CONSUME_MESSAGE_DIRECTLY])
def test_offline_and_outdated_consumers_are_not_asked(code: int) -> None:
    setup = Setup(version=61)
    for client_id, part in (("c2", "not online"), ("c1", "version 61")):
        found, remark = setup.operator.refused(code, consumerGroup="g", clientId=client_id)
        assert found == ResponseCode.SYSTEM_ERROR and part in remark
    assert setup.consumer.peer.asked == []


def test_a_stored_message_is_added_to_the_question() -> None:
    setup = Setup()
    placed = setup.world.put("T", b"body")
    message_id = encode_offset_id(setup.world.parts.requests.sends._store_host, placed.physical_offset)
    fields: dict[str, Any] = {"consumerGroup": "g", "clientId": "c1", "brokerName": "broker-a"}
    assert setup.operator.ask(Code.CONSUME_MESSAGE_DIRECTLY, **fields, msgId=message_id) is None
    question = setup.consumer.peer.asked[0][0]
    assert decode_records(question.body)[0].body == b"body" and question.ext["msgId"] == message_id
    for bad in ("nothex", "00" * 15, message_id[:-2] + "01"):
        found, remark = setup.operator.refused(Code.CONSUME_MESSAGE_DIRECTLY, **fields, msgId=bad)
        assert found == ResponseCode.SYSTEM_ERROR and bad in remark


def test_the_status_of_all_members_is_gathered() -> None:
    setup = Setup()
    second = Caller(setup.world)
    second.ok(Code.HEART_BEAT, beat("c2"))
    assert setup.operator.ask(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="T", group="g") is None
    question, on_answer, _ = setup.consumer.peer.asked[0]
    assert question.code == Code.GET_CONSUMER_STATUS_FROM_CLIENT and question.ext == {"topic": "T", "group": "g"}
    on_answer(Command(0, flag=1, body=b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}}'))
    assert setup.operator.peer.answers == []
    second.peer.asked[0][1](None)
    (reply,) = setup.operator.peer.answers
    assert reply.body == b'{"consumerTable":{"c1":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:7}}}'


def test_the_status_of_one_member() -> None:
    setup = Setup()
    fields: dict[str, Any] = {"topic": "T", "group": "g"}
    setup.operator.ask(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, **fields, clientAddr="c1")
    setup.consumer.peer.asked[0][1](Command(0, flag=1, body=b"garbage"))
    assert setup.operator.peer.answers[0].body == b'{"consumerTable":{"c1":{}}}'
    found, _ = setup.operator.refused(Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, **fields, clientAddr="c9")
    assert found == ResponseCode.SYSTEM_ERROR
