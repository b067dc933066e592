"""Message types, such as NORMAL and FIFO. A topic's attribute ``message.type`` says which one it takes.

Java: TopicMessageType, which RocketMQ's proxies check; its brokers do not.
"""

from __future__ import annotations

from collections.abc import Mapping

from pymq.model.properties import LITE_TOPIC, find_property
from pymq.model.properties import PRIORITY as PRIORITY_PROPERTY
from pymq.model.transactions import is_half

TYPE_ATTRIBUTE = "message.type"
NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY, LITE = TYPES = (
    "NORMAL",
    "FIFO",
    "DELAY",
    "TRANSACTION",
    "PRIORITY",
    "LITE",
)
UNCHECKED = frozenset({"UNSPECIFIED", "MIXED"})
_DELAYS = (b"DELAY", b"TIMER_DELIVER_MS", b"TIMER_DELAY_SEC", b"TIMER_DELAY_MS", b"__STARTDELIVERTIME")
_PRIORITY = PRIORITY_PROPERTY.encode()
_LITE_TOPIC = LITE_TOPIC.encode()
_OF_DELAYS = b"DEL"  # stands in each of their names
# A message without any of these properties is NORMAL.
MARKS = frozenset({"TRAN_MSG", "__SHARDINGKEY", PRIORITY_PROPERTY, LITE_TOPIC, *(name.decode() for name in _DELAYS)})
_MADE_BY = {
    NORMAL: f"neither a delay nor __SHARDINGKEY nor TRAN_MSG=true nor {PRIORITY_PROPERTY} nor {LITE_TOPIC}",
    FIFO: "the property __SHARDINGKEY",
    DELAY: "a delay (property DELAY above 0, or a time to deliver)",
    TRANSACTION: "the property TRAN_MSG=true",
    PRIORITY: f"the property {PRIORITY_PROPERTY}",
    LITE: f"the property {LITE_TOPIC}",
}


def wanted_type(attributes: Mapping[str, str]) -> str | None:
    """Return the one type of messages that a topic takes; None for a topic that takes all."""
    wanted = attributes.get(TYPE_ATTRIBUTE) if attributes else None
    return None if wanted in UNCHECKED else wanted


def message_type(properties: bytes, *, is_half_too: bool = True) -> str:
    """Return the type of a message with these properties, as RocketMQ's proxies judge it.

    Without ``is_half_too`` return what a half message would be if it were none.
    """
    if is_half_too and is_half(properties):
        return TRANSACTION
    if _OF_DELAYS in properties:
        for name in _DELAYS:
            if name in properties and find_property(properties, name) not in (None, b"0"):
                return DELAY
    if b"__SHARDINGKEY\x01" in properties and find_property(properties, b"__SHARDINGKEY"):
        return FIFO
    if _PRIORITY in properties and find_property(properties, _PRIORITY) is not None:
        return PRIORITY
    if _LITE_TOPIC in properties and find_property(properties, _LITE_TOPIC) is not None:
        return LITE
    return NORMAL


def type_problem(topic: str, wanted: str, properties: bytes) -> str | None:
    """Return why a topic does not take a message; None when it does."""
    found = message_type(properties)
    if found == wanted:
        return None
    return (
        f"topic {topic} takes {wanted} messages (attribute {TYPE_ATTRIBUTE}), this one is {found}: a {wanted} message "
        f"has {_MADE_BY.get(wanted, 'its own properties')}; send it so, or to another topic"
    )
