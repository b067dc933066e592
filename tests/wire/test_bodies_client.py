"""Bodies of clients: all dialects decode to the same value, and a refusal names the invalid member."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.errors import Refusal
from pymq.model.message import MessageQueue
from pymq.wire.bodies_client import (
    CONSUME_FROM_WHERE,
    ConsumerData,
    HeartbeatData,
    LockAnswer,
    LockRequest,
    QueueName,
    SubscriptionData,
    decode_body,
    encode_body,
)


def consumer(**members: Any) -> ConsumerData:
    text = "".join(f',"{name}":{value}' for name, value in members.items())
    body = f'{{"clientID":"c","consumerDataSet":[{{"groupName":"g"{text}}}]}}'
    (data,) = decode_body(HeartbeatData, body.encode()).consumer_data_set
    assert isinstance(data, ConsumerData)
    return data


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("consumeType", '"CONSUME_ACTIVELY"', "CONSUME_ACTIVELY"),
        ("consumeType", "0", "CONSUME_ACTIVELY"),
        ("consumeType", '"2"', "CONSUME_POP"),
        ("consumeType", "3", "CONSUME_PASSIVELY"),
        ("consumeType", "-1", "CONSUME_PASSIVELY"),
        ("consumeType", "null", "CONSUME_PASSIVELY"),
        ("messageModel", "0", "BROADCASTING"),
        ("messageModel", "1", "CLUSTERING"),
        ("messageModel", '"BROADCASTING"', "BROADCASTING"),
        ("messageModel", "99999999999", "CLUSTERING"),
        ("consumeFromWhere", "5", "CONSUME_FROM_TIMESTAMP"),
        ("consumeFromWhere", "6", "CONSUME_FROM_LAST_OFFSET"),
        ("consumeFromWhere", "null", "CONSUME_FROM_LAST_OFFSET"),
    ],
)
def test_enums_are_names_whether_sent_as_names_or_ordinals(member: str, value: str, expected: str) -> None:
    data = consumer(**{member: value})
    attribute = {"consumeType": "consume_type", "messageModel": "message_model"}.get(member, "consume_from_where")
    assert getattr(data, attribute) == expected


def test_the_ordinals_of_where_to_begin_are_javas() -> None:
    for ordinal, name in enumerate(CONSUME_FROM_WHERE):
        assert consumer(consumeFromWhere=ordinal).consume_from_where == name


@pytest.mark.parametrize("value", ['"²"', "true", "1.5", "[]", "{}"])
def test_an_enum_of_another_type_is_refused_or_a_name(value: str) -> None:
    try:
        assert isinstance(consumer(messageModel=value).message_model, str)
    except Refusal as refusal:
        assert refusal.code == 1 and "consumerDataSet" in refusal.remark


@pytest.mark.parametrize(
    "body",
    [
        b'{"clientID":"c"}',
        b'{"clientID":"c","more":{"x":[1]}}',
        b'{"clientID":"c","heartbeatFingerprint":"0","withoutSub":"false"}',
    ],
)
def test_a_heartbeat_may_leave_members_out(body: bytes) -> None:
    assert decode_body(HeartbeatData, body) == HeartbeatData(client_id="c")


def test_sets_may_be_null() -> None:
    data = decode_body(HeartbeatData, b'{"clientID":"c","producerDataSet":null,"consumerDataSet":null}')
    assert (data.producer_data_set, data.consumer_data_set) == (None, None)
    assert consumer(subscriptionDataSet="null").subscription_data_set is None


def test_the_dialect_is_read_where_a_body_is_typed() -> None:
    body = b'{"clientID":"c","ignored":{0:1},"producerDataSet":[{"groupName":"p"},],}'
    (producer,) = decode_body(HeartbeatData, body).producer_data_set
    assert producer.group_name == "p"


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{}", "clientID"),
        (b'{"clientID":5}', "clientID"),
        (b'{"clientID":"c","consumerDataSet":[{}]}', "groupName"),
        (b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{}]}]}', "topic"),
        (b'{"clientID":"c","ignored":{0:1},"consumerDataSet":{}}', "consumerDataSet"),
        (b"[]", "object"),
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "nested deeper|object"),
    ],
)
def test_a_body_that_is_not_usable_names_the_member(body: bytes, named: str) -> None:
    with pytest.raises(Refusal, match=f"body is not usable.*({named}).*correct that member") as refused:
        decode_body(HeartbeatData, body)
    assert refused.value.code == 1


def test_a_subscription_keeps_hashes_and_version() -> None:
    subscription = SubscriptionData(
        topic="T", sub_string="TagA||TagB", sub_version=2**41, tags_set=["TagA"], code_set=[-1]
    )
    assert decode_body(SubscriptionData, encode_body(subscription)) == subscription


def test_locks_name_queues_as_java_does() -> None:
    queue = MessageQueue("T", "b", 3)
    request = LockRequest(consumer_group="g", client_id="c", mq_set=[QueueName.of(queue)])
    assert encode_body(request) == (
        b'{"consumerGroup":"g","clientId":"c","mqSet":[{"topic":"T","brokerName":"b","queueId":3}],'
        b'"onlyThisBroker":false}'
    )
    assert decode_body(LockRequest, encode_body(request)).mq_set[0].to_queue() == queue
    assert encode_body(LockAnswer(lock_ok_mq_set=[])) == b'{"lockOKMQSet":[]}'
