"""Messages between the two protocols: gRPC's fields on one side, RocketMQ's properties on the other."""

from __future__ import annotations

import hashlib
from typing import Any

from pymq.model import properties as names
from pymq.model import sysflag
from pymq.model.hosts import format_address, unpack_host
from pymq.model.message_types import message_type
from pymq.model.record import StoredMessage
from pymq.proxy.bodies import Body
from pymq.proxy.checks import TYPE_NAMES, duration_ms
from pymq.proxy.protocol.messages import Message, Timestamp
from pymq.proxy.protocol.names import MD5, Encoding, MessageType

BORN_HOST = "__BORNHOST"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
TRACE_CONTEXT = "TRACE_CONTEXT"
_TYPES = {name: number for number, name in TYPE_NAMES.items()}
# Of senders of both protocols, and not the application's.
_HIDDEN = names.RESERVED | {names.SHARDING_KEY, BORN_HOST, TRACE_CONTEXT, names.RESEND}


def timestamp_of(unix_ms: int) -> Any:
    """Return a Timestamp."""
    return Timestamp(seconds=unix_ms // 1000, nanos=unix_ms % 1000 * 1_000_000)


def properties_of(message: Any, kind: int) -> dict[str, str]:
    """Return the properties with which a message of this kind is stored."""
    system = message.system_properties
    result = dict(message.user_properties)
    result[names.UNIQ_KEY] = system.message_id
    result[names.TAGS] = system.tag
    result[names.KEYS] = " ".join(system.keys)
    result[names.SHARDING_KEY] = system.message_group
    result[TRACE_CONTEXT] = system.trace_context
    result[BORN_HOST] = system.born_host
    result[names.RECONSUME_TIME] = "0"
    if system.HasField("born_timestamp"):
        result[BORN_TIMESTAMP] = str(duration_ms(system.born_timestamp))
    if kind == MessageType.DELAY:
        result[names.TIMER_DELIVER_MS] = str(duration_ms(system.delivery_timestamp))
    if kind == MessageType.TRANSACTION:
        result[names.TRANSACTION_PREPARED] = "true"
        result[names.PRODUCER_GROUP] = message.topic.name
        recovery_ms = duration_ms(system.orphaned_transaction_recovery_duration)
        if recovery_ms >= 1000:
            result[names.CHECK_IMMUNITY_SECONDS] = str(recovery_ms // 1000)
    return {name: value for name, value in result.items() if value}


def born_ms_of(message: Any, now_ms: int) -> int:
    """Return the time of birth that a client gave its message, else the present."""
    system = message.system_properties
    return duration_ms(system.born_timestamp) if system.HasField("born_timestamp") else now_ms


def message_of(stored: StoredMessage, topic: str, handle: str = "", body: Body | None = None) -> Any:
    """Return a stored message as a client gets it, with the topic that it asked for.

    ``handle`` is empty for a message that is not received; ``body`` None: as it is stored.
    """
    properties = stored.properties
    if body is None:
        body = Body(stored.body, Encoding.GZIP if stored.sys_flag & sysflag.COMPRESSED else Encoding.IDENTITY)
    message = Message(body=body.content)
    message.topic.name = topic
    for name, value in properties.items():
        if name not in _HIDDEN:
            message.user_properties[name] = value
    system = message.system_properties
    if stored.tags:
        system.tag = stored.tags
    system.keys.extend(stored.keys.split())
    system.message_id = stored.message_id
    system.body_digest.type = MD5
    system.body_digest.checksum = hashlib.md5(body.content, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = body.mark
    system.message_type = _TYPES[message_type(stored.raw_properties)]
    system.born_timestamp.CopyFrom(timestamp_of(stored.born_timestamp_ms))
    system.born_host = properties.get(BORN_HOST) or format_address(*unpack_host(stored.born_host))
    system.store_timestamp.CopyFrom(timestamp_of(stored.store_timestamp_ms))
    system.store_host = format_address(*unpack_host(stored.store_host))
    deliver_at = properties.get(names.TIMER_DELIVER_MS, "")
    if deliver_at.isascii() and deliver_at.isdigit():
        system.delivery_timestamp.CopyFrom(timestamp_of(int(deliver_at[:15])))
    if names.SHARDING_KEY in properties:
        system.message_group = properties[names.SHARDING_KEY]
    if TRACE_CONTEXT in properties:
        system.trace_context = properties[TRACE_CONTEXT]
    if handle:
        system.receipt_handle = handle
    system.queue_id = stored.queue_id
    system.queue_offset = stored.queue_offset
    system.delivery_attempt = stored.reconsume_times + 1
    if names.DLQ_ORIGIN_TOPIC in properties:
        system.dead_letter_queue.topic = properties[names.DLQ_ORIGIN_TOPIC]
        system.dead_letter_queue.message_id = properties.get(names.DLQ_ORIGIN_MESSAGE_ID, "")
    return message
