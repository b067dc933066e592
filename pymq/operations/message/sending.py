"""Messages as people write them in a command or a form, and what became of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import Any

from pymq.client import Message, MessageQueue, Producer, SendResult, outgoing
from pymq.client.admin import Admin
from pymq.client.outgoing import BODY_SIZE_MAX_BYTES
from pymq.errors import NotFoundError, UsageError
from pymq.model.compression import InflateError, decompress_body
from pymq.model.message import DELAY_LEVEL_MAX, check_delay_level
from pymq.model.names import check_topic
from pymq.model.properties import RESERVED, SHARDING_KEY
from pymq.model.record import StoredMessage
from pymq.operations.message.records import own_properties
from pymq.operations.queues import QueueChoice
from pymq.units import parse_duration_ms, parse_time_ms

UNIQUE_KEY_LENGTH = 32


def new_message(
    topic: str,
    body: bytes = b"",
    *,
    tags: str = "",
    keys: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    delay_level: int = 0,
    delay_level_max: int = DELAY_LEVEL_MAX,
    priority: int | None = None,
    lite_topic: str = "",
) -> Message:
    """Return a message to send. Raises UsageError for illegal names and levels."""
    check_delay_level(delay_level, delay_level_max)
    for name in properties or {}:
        if name in RESERVED:
            raise UsageError(f"the property {name!r} is reserved by RocketMQ: use another name")
    return Message(
        check_topic(topic),
        body,
        tags=tags,
        keys=" ".join(keys),
        properties=dict(properties or {}),
        delay_level=delay_level,
        priority=priority,
        lite_topic=lite_topic,
    )


def with_timer(
    message: Message, delay: str | None, deliver_at: str | None, now_ms: int, zone: tzinfo | None = None
) -> Message:
    """Return the message with a delay or a time of delivery as typed, by default in local time. Raises UsageError."""
    if delay is None and deliver_at is None:
        return message
    if delay is not None and deliver_at is not None:
        raise UsageError("a delay and a time of delivery are two delays: give one of them")
    if message.delay_level:
        raise UsageError("a delay level is a delay of its own: leave it out, or the delay and the time of delivery")
    if delay is not None:
        return dataclasses.replace(message, delay_ms=parse_duration_ms(delay))
    assert deliver_at is not None
    return dataclasses.replace(message, deliver_at_ms=parse_time_ms(deliver_at, now_ms, zone))


def copy_to_send(stored: StoredMessage, topic: str) -> Message:
    """Return a new message with the body, the labels and the properties that an application gave to a stored one.

    Raises UsageError for a body that can't be inflated, and for an illegal topic.
    """
    try:
        body = decompress_body(stored.body, stored.sys_flag, BODY_SIZE_MAX_BYTES)
    except InflateError as error:
        raise UsageError(f"the body of {stored.message_id} can't be sent again: {error}") from error
    return Message(
        check_topic(topic),
        body,
        tags=stored.tags,
        keys=stored.keys,
        properties=own_properties(stored.properties),
        flag=stored.flag,
    )


def check(message: Message) -> None:
    """Raise UsageError for a message that a producer would refuse, before one is there."""
    message.check()
    if not message.body:
        raise UsageError("the message's body is empty: brokers refuse that, send at least one byte")
    if len(message.body) > BODY_SIZE_MAX_BYTES:
        raise UsageError(f"the message's body has {len(message.body)} bytes, the limit is {BODY_SIZE_MAX_BYTES}")
    outgoing.own_properties(message, " " * UNIQUE_KEY_LENGTH)


async def find_queue(admin: Admin, topic: str, choice: QueueChoice) -> MessageQueue:
    """Return the queue that is meant. Raises NotFoundError, or UsageError when several brokers have it."""
    if choice.broker is not None:
        return MessageQueue(topic, choice.broker, choice.queue_id)
    route = await admin.topics.route(topic)
    brokers = sorted(data.broker_name for data in route.queue_datas if choice.queue_id < data.write_queue_nums)
    if not brokers:
        raise NotFoundError(f"no broker has a queue {choice} of {topic} to write: pymq topic route {topic} shows all")
    if len(brokers) > 1:
        raise UsageError(f"--queue {choice} is on {', '.join(brokers)}: write {brokers[0]}:{choice}")
    return MessageQueue(topic, brokers[0], choice.queue_id)


async def send_one(producer: Producer, message: Message, queue: MessageQueue | None) -> SendResult:
    """Send one message and wait for the answer. Without a queue, a sharding key chooses it."""
    key = message.properties.get(SHARDING_KEY) or None
    return await producer.send(message, queue=queue, ordering_key=key if queue is None else None)


def result_record(result: SendResult) -> dict[str, Any]:
    """Return the result of a send as plain values."""
    record = {
        "status": result.status.value,
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "offset": result.queue_offset,
        "message_id": result.message_id,
        "offset_message_id": result.offset_message_id,
    }
    return record | {"recall_handle": result.recall_handle} if result.recall_handle else record
