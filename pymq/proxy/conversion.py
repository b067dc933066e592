"""Messages between the two protocols: gRPC's fields on one side, RocketMQ's properties on the other."""

from __future__ import annotations

import hashlib
from typing import Any

from pymq.model import properties as names
from pymq.model import sysflag
from pymq.model.hosts import unpack_address
from pymq.model.lite_topics import MULTI_DISPATCH, MULTI_QUEUE_OFFSET
from pymq.model.message_types import MARKS, message_type
from pymq.model.priorities import priority_of
from pymq.model.record import StoredMessage
from pymq.proxy.bodies import Body
from pymq.proxy.checks import TYPE_NAMES
from pymq.proxy.drafts import Draft
from pymq.proxy.protocol.messages import Message, Timestamp
from pymq.proxy.protocol.names import MD5, Encoding, MessageType

BORN_HOST = "__BORNHOST"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
TRACE_CONTEXT = "TRACE_CONTEXT"
_TYPES = {name: number for number, name in TYPE_NAMES.items()}
# Of senders of both protocols, and not the application's.
_HIDDEN = names.RESERVED | {names.SHARDING_KEY, BORN_HOST, TRACE_CONTEXT, names.RESEND}
_HIDDEN |= {MULTI_DISPATCH, MULTI_QUEUE_OFFSET}


def timestamp_of(unix_ms: int) -> Any:
    """Return a Timestamp."""
    return Timestamp(seconds=unix_ms // 1000, nanos=unix_ms % 1000 * 1_000_000)


def properties_of(draft: Draft) -> dict[str, str]:
    """Return the properties with which a message is stored. Empty ones stand for none."""
    result = {
        **draft.properties,
        names.UNIQ_KEY: draft.message_id,
        names.TAGS: draft.tag or "",
        names.KEYS: " ".join(draft.keys),
        names.SHARDING_KEY: draft.group,
        TRACE_CONTEXT: draft.trace_context,
        BORN_HOST: draft.born_host,
        names.RECONSUME_TIME: "0",
    }
    if draft.born_ms is not None:
        result[BORN_TIMESTAMP] = str(draft.born_ms)
    if draft.kind == MessageType.DELAY:
        result[names.TIMER_DELIVER_MS] = str(draft.deliver_ms)
    elif draft.kind == MessageType.PRIORITY:
        result[names.PRIORITY] = str(draft.priority)
    elif draft.kind == MessageType.LITE:
        result[names.LITE_TOPIC] = draft.lite_topic or ""
    elif draft.kind == MessageType.TRANSACTION:
        result[names.TRANSACTION_PREPARED] = "true"
        result[names.PRODUCER_GROUP] = draft.topic
        if (draft.recovery_ms or 0) >= 1000:
            result[names.CHECK_IMMUNITY_SECONDS] = str((draft.recovery_ms or 0) // 1000)
    return result


def message_of(stored: StoredMessage, topic: str, handle: str = "", body: Body | None = None) -> Any:
    """Return a stored message as a client gets it, with the topic that it asked for.

    ``handle`` is empty for a message that is not received; ``body`` None: as it is stored.
    """
    message = Message()
    fill_message(message, stored, topic, handle, body)
    return message


def fill_message(message: Any, stored: StoredMessage, topic: str, handle: str = "", body: Body | None = None) -> None:
    """Do as :func:`message_of` in a message that is part of an answer, where it need not be copied to."""
    properties = stored.properties
    if body is None:
        body = Body(stored.body, Encoding.GZIP if stored.sys_flag & sysflag.COMPRESSED else Encoding.IDENTITY)
    message.body = body.content
    message.topic.name = topic
    for name, value in properties.items():
        if name not in _HIDDEN:
            message.user_properties[name] = value
    system = message.system_properties
    if names.TAGS in properties:
        system.tag = properties[names.TAGS]
    if names.KEYS in properties:
        system.keys.extend(properties[names.KEYS].split())
    system.message_id = stored.message_id
    digest = system.body_digest
    digest.type = MD5
    digest.checksum = hashlib.md5(body.content, usedforsecurity=False).hexdigest().upper()
    system.body_encoding = body.mark
    is_normal = MARKS.isdisjoint(properties)
    system.message_type = MessageType.NORMAL if is_normal else _TYPES[message_type(stored.raw_properties)]
    _set_time(system.born_timestamp, stored.born_timestamp_ms)
    system.born_host = properties.get(BORN_HOST) or unpack_address(stored.born_host)
    _set_time(system.store_timestamp, stored.store_timestamp_ms)
    system.store_host = unpack_address(stored.store_host)
    deliver_at = properties.get(names.TIMER_DELIVER_MS, "")
    if deliver_at.isascii() and deliver_at.isdigit():
        _set_time(system.delivery_timestamp, int(deliver_at[:15]))
    if names.SHARDING_KEY in properties:
        system.message_group = properties[names.SHARDING_KEY]
    if names.PRIORITY in properties and (priority := priority_of(stored.raw_properties)) is not None:
        system.priority = priority
    if names.LITE_TOPIC in properties:
        system.lite_topic = properties[names.LITE_TOPIC]
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


def _set_time(timestamp: Any, unix_ms: int) -> None:
    timestamp.seconds, timestamp.nanos = unix_ms // 1000, unix_ms % 1000 * 1_000_000
