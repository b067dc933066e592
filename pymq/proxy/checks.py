"""Checks of what clients send, in the order in which RocketMQ's proxies make them: the first that fails decides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pymq.model.lite_topics import lite_name_problem
from pymq.model.names import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    TOPIC_LENGTH_MAX,
    group_problem,
    is_system_group,
    is_system_topic,
    topic_problem,
)
from pymq.model.properties import RESERVED
from pymq.proxy.drafts import Draft
from pymq.proxy.protocol.names import Code, MessageType
from pymq.proxy.refusals import ProxyRefusal

MESSAGE_COUNT_MAX = 4096  # of a request
BODY_BYTES_MAX = 4 * 1024 * 1024  # also of all messages together that are stored as one batch
USER_PROPERTY_COUNT_MAX = 128
PROPERTIES_BYTES_MAX = 16 * 1024
ORPHAN_RECOVERY_MS_MAX = 3600 * 1000
DELIVERY_AHEAD_MS_MAX = 24 * 3600 * 1000
MESSAGE_GROUP_BYTES_MAX = 64  # a group of as many bytes is refused
INVISIBLE_MS_MIN = 10_000  # of a receive
INVISIBLE_MS_MAX = 12 * 3600 * 1000
POLLING_MS_MIN = 5_000
POLLING_MS_MAX = 20_000
BATCH_SIZE_MAX = 32
POLLING_CODE_SINCE = "5.0.3"  # clients before this version, compared as text, don't know ILLEGAL_POLLING_TIME

KEPT_NAMES_MAX = 4096

# Names that were found legal.
_legal_topics: set[str] = set()
_legal_groups: set[str] = set()

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
TYPE_NAMES = {
    MessageType.NORMAL: "NORMAL",
    MessageType.FIFO: "FIFO",
    MessageType.DELAY: "DELAY",
    MessageType.TRANSACTION: "TRANSACTION",
    MessageType.PRIORITY: "PRIORITY",
    MessageType.LITE: "LITE",
}
MIXED = "MIXED"


def check_client_id(client_id: str) -> str:
    """Return the id. Raises ProxyRefusal for a blank one."""
    if not client_id.strip():
        raise ProxyRefusal(Code.CLIENT_ID_REQUIRED, "the metadata has no x-mq-client-id: clients name themselves")
    return client_id


def check_topic(topic: str) -> str:
    """Return the topic. Raises ProxyRefusal for one that no client may use."""
    if topic in _legal_topics:
        return topic
    problem = topic_problem(topic)
    if problem is None and len(topic) > TOPIC_LENGTH_MAX:
        problem = f"the topic has {len(topic)} characters, the limit is {TOPIC_LENGTH_MAX}"
    if problem is None and is_system_topic(topic):
        problem = f"{topic} is a system topic, which clients can't use"
    if problem is not None:
        raise ProxyRefusal(Code.ILLEGAL_TOPIC, problem)
    return _kept(topic, _legal_topics)


def check_group(group: str) -> str:
    """Return the group. Raises ProxyRefusal for one that no client may use."""
    if group in _legal_groups:
        return group
    problem = group_problem(group)
    if problem is None and is_system_group(group):
        problem = f"{group} is a system group, which clients can't use"
    if problem is not None:
        raise ProxyRefusal(Code.ILLEGAL_CONSUMER_GROUP, problem)
    return _kept(group, _legal_groups)


def _kept(name: str, legal: set[str]) -> str:
    """Return a legal name, which need not be looked at again."""
    if len(legal) >= KEPT_NAMES_MAX:
        legal.clear()
    legal.add(name)
    return name


def check_messages(messages: Sequence[Any], now_ms: int) -> list[Draft]:
    """Return the messages of a request to send, which have one topic. Raises ProxyRefusal for what can't be sent."""
    if not messages:
        raise ProxyRefusal(Code.MESSAGE_CORRUPTED, "the request has no message")
    if len(messages) > MESSAGE_COUNT_MAX:
        text = f"the request has {len(messages)} messages, the limit is {MESSAGE_COUNT_MAX}: send several requests"
        raise ProxyRefusal(Code.BAD_REQUEST, text)
    drafts = [Draft(each) for each in messages]
    topic = drafts[0].topic
    if len(drafts) > 1 and any(each.topic != topic for each in drafts):
        raise ProxyRefusal(Code.MESSAGE_CORRUPTED, "all messages of a request must have the same topic")
    check_topic(topic)
    for each in drafts:
        _check_message(each, now_ms)
    return drafts


def _check_message(draft: Draft, now_ms: int) -> None:
    _check_body(len(draft.body))
    _check_properties(draft)
    if draft.tag is not None:
        _check_tag(draft.tag)
    for key in draft.keys:
        if not key.strip() or has_control(key):
            raise ProxyRefusal(Code.ILLEGAL_MESSAGE_KEY, "a key is blank or has a control character")
    if not draft.message_id.strip():
        raise ProxyRefusal(Code.ILLEGAL_MESSAGE_ID, "the message has no id")
    if draft.recovery_ms is not None and draft.recovery_ms > ORPHAN_RECOVERY_MS_MAX:
        text = f"the recovery duration of the transaction is over the limit of {ORPHAN_RECOVERY_MS_MAX} ms"
        raise ProxyRefusal(Code.BAD_REQUEST, text)
    if draft.deliver_ms is not None and draft.deliver_ms - now_ms > DELIVERY_AHEAD_MS_MAX:
        text = f"the delivery time is over the limit of {DELIVERY_AHEAD_MS_MAX} ms from now"
        raise ProxyRefusal(Code.ILLEGAL_DELIVERY_TIME, text)
    if draft.group:
        _check_message_group(draft.group)
    if draft.priority is not None and draft.priority < 0:
        raise ProxyRefusal(Code.BAD_REQUEST, f"the priority is {draft.priority}: it is 0 or more")
    if draft.lite_topic is not None and (problem := lite_name_problem(draft.lite_topic)) is not None:
        raise ProxyRefusal(Code.BAD_REQUEST, problem)


def _check_body(size_bytes: int) -> None:
    if size_bytes == 0:
        raise ProxyRefusal(Code.MESSAGE_BODY_EMPTY, "the message's body is empty")
    if size_bytes > BODY_BYTES_MAX:
        text = f"the message's body has {size_bytes} bytes, the limit is {BODY_BYTES_MAX}"
        raise ProxyRefusal(Code.MESSAGE_BODY_TOO_LARGE, text)


def _check_properties(draft: Draft) -> None:
    properties = draft.properties
    if len(properties) > USER_PROPERTY_COUNT_MAX:
        text = f"the message has {len(properties)} properties, the limit is {USER_PROPERTY_COUNT_MAX}"
        raise ProxyRefusal(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)
    size_bytes = len("".join((draft.tag or "", *draft.keys, *properties, *properties.values())).encode())
    if size_bytes > PROPERTIES_BYTES_MAX:
        text = f"the message's properties have {size_bytes} bytes, the limit is {PROPERTIES_BYTES_MAX}"
        raise ProxyRefusal(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)
    for name, value in properties.items():
        if name in RESERVED:
            raise ProxyRefusal(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name} is RocketMQ's own")
        if has_control(name) or has_control(value):
            raise ProxyRefusal(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name!r} has a control character")


def _check_tag(tag: str) -> None:
    if not tag.strip() or "|" in tag or has_control(tag):
        raise ProxyRefusal(Code.ILLEGAL_MESSAGE_TAG, "the tag is blank, or has a | or a control character")


def _check_message_group(group: str) -> None:
    if not group.strip() or len(group.encode()) >= MESSAGE_GROUP_BYTES_MAX or has_control(group):
        text = f"the message group is blank, has a control character, or {MESSAGE_GROUP_BYTES_MAX} bytes and more"
        raise ProxyRefusal(Code.ILLEGAL_MESSAGE_GROUP, text)


def has_control(text: str) -> bool:
    """Return whether a text has a control character. Printable text has none, and shows so in a tenth of the time."""
    return not text.isprintable() and _CONTROL.search(text) is not None


def check_type(kind: int, topic: str, wanted: str) -> None:
    """Raise ProxyRefusal unless a message of this kind has the type ``wanted``, or that is MIXED.

    Topics of retries and dead letters take all.
    """
    found = TYPE_NAMES[kind]
    if wanted not in (MIXED, found) and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        text = f"topic {topic} takes {wanted} messages, this one is {found}"
        raise ProxyRefusal(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)


def polling_ms(asked_ms: int | None, left_ms: float | None, request_timeout_ms: int, version: str | None) -> int:
    """Return how long a receive waits for its first message.

    ``asked_ms``: what the request asks for; ``left_ms``: the time until the call's deadline, None for none. Raises
    ProxyRefusal when the deadline leaves too little time.
    """
    if asked_ms is None:
        asked_ms = POLLING_MS_MAX if left_ms is None else int(left_ms - request_timeout_ms / 2)
    polling = min(max(asked_ms, POLLING_MS_MIN), POLLING_MS_MAX)
    if left_ms is None or polling <= left_ms:
        return polling
    if left_ms >= POLLING_MS_MIN:
        return int(left_ms)
    code = Code.ILLEGAL_POLLING_TIME
    if version is None or version < POLLING_CODE_SINCE:
        code = Code.BAD_REQUEST
    raise ProxyRefusal(code, f"the call's deadline is in {int(left_ms)} ms, a receive needs {POLLING_MS_MIN} ms")


def check_invisible(invisible_ms: int, least_ms: int) -> int:
    """Return the invisible time. Raises ProxyRefusal when it is not ``least_ms`` to INVISIBLE_MS_MAX.

    Programs compare the texts, which are those of RocketMQ's GrpcValidator 5.3.3.
    """
    if invisible_ms < least_ms:
        text = f"the invisibleTime is too small. min is {least_ms}"
        raise ProxyRefusal(Code.ILLEGAL_INVISIBLE_TIME, text)
    if invisible_ms > INVISIBLE_MS_MAX:
        text = f"the invisibleTime is too large. max is {INVISIBLE_MS_MAX}"
        raise ProxyRefusal(Code.ILLEGAL_INVISIBLE_TIME, text)
    return invisible_ms
