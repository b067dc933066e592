"""Checks of topic names, configurations and attributes, and the texts of their refusals."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pymq.errors import Refusal
from pymq.model import names
from pymq.model.inner_batch import QUEUE_TYPE, QUEUE_TYPES, has_batch_queues
from pymq.model.lite_topics import EXPIRATION_ATTRIBUTE, expiration_problem
from pymq.model.tables import PERM_INHERIT, PERM_PRIORITY, PERM_READ, PERM_WRITE, QUEUE_COUNT_MAX, TopicConfig
from pymq.wire.codes import ResponseCode

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
# Java: TopicAttributes. The value holds the allowed settings, None for a number.
ATTRIBUTES: dict[str, tuple[str, ...] | None] = {
    "message.type": ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "LITE", "MIXED"),
    QUEUE_TYPE: QUEUE_TYPES,
    "cleanup.policy": ("DELETE",),
    "reserve.time": None,
    EXPIRATION_ATTRIBUTE: None,
}
_PERM_ALL = PERM_PRIORITY | PERM_READ | PERM_WRITE | PERM_INHERIT
_DIGITS_MAX = 18


def check_topic_config(topic: TopicConfig) -> None:
    """Check a topic's configuration. Raises Refusal(INVALID_PARAMETER) with the value and what is allowed."""
    check_topic_name(topic.topic_name)
    if names.is_system_topic(topic.topic_name):
        raise invalid(f"{topic.topic_name} is a system topic: it can't be changed")
    for kind, count in (("read", topic.read_queue_nums), ("write", topic.write_queue_nums)):
        if not 1 <= count <= QUEUE_COUNT_MAX:
            raise invalid(f"{kind}QueueNums={count}: use 1 to {QUEUE_COUNT_MAX}")
    if not 0 <= topic.perm <= _PERM_ALL:
        raise invalid(f"perm={topic.perm}: use 2 (write), 4 (read) or 6 (both)")
    if topic.topic_filter_type not in FILTER_TYPES:
        raise invalid(f"topicFilterType={topic.topic_filter_type[:40]}: use {' or '.join(FILTER_TYPES)}")
    for name, value in topic.attributes.items():
        _check_attribute(name, value)


def check_topic_name(topic: str) -> None:
    """Check a topic's name. Raises Refusal(INVALID_PARAMETER) for an illegal one."""
    problem = names.topic_problem(topic)
    if problem:
        raise invalid(problem)


def changed_attributes(existing: Mapping[str, str], text: str | None) -> dict[str, str]:
    """Return ``existing`` after ``+name=value,-name`` is applied. Raises Refusal(INVALID_PARAMETER)."""
    result = dict(existing)
    for part in filter(None, (part.strip() for part in (text or "").split(","))):
        sign, (name, _, value) = part[0], part[1:].partition("=")
        if sign not in "+-":
            raise invalid(f"the attribute {part[:60]!r} has no sign: write +name=value or -name")
        if sign == "-":
            _check_attribute_name(name)
            if name == QUEUE_TYPE and name in existing:
                raise invalid(_fixed_text())
            result.pop(name, None)
        else:
            _check_attribute(name, value)
            result[name] = value
    return result


def with_kept_queue_type(before: TopicConfig | None, topic: TopicConfig) -> TopicConfig:
    """Return the topic with the queue type that it has already. Raises Refusal(INVALID_PARAMETER) for another one."""
    if before is None or before.attributes.get(QUEUE_TYPE) == topic.attributes.get(QUEUE_TYPE):
        return topic
    if QUEUE_TYPE not in topic.attributes:
        kept = {**topic.attributes, QUEUE_TYPE: before.attributes[QUEUE_TYPE]}
        return msgspec.structs.replace(topic, attributes=kept)
    if has_batch_queues(before.attributes) != has_batch_queues(topic.attributes):
        raise invalid(_fixed_text())
    return topic


def _fixed_text() -> str:
    return f"attempt to update an unchangeable attribute. key: {QUEUE_TYPE}; delete the topic and make it again"


def not_exist_text(topic: str, broker_name: str, cluster: str) -> str:
    """Return the remark for an unknown topic."""
    text = f"topic {topic[:127]!r} not exist on {broker_name}: create it"
    if names.topic_problem(topic) is None:
        text += f", for example pymq topic create {topic} -c {cluster}"
    return text


def invalid(text: str) -> Refusal:
    """Return the refusal of a value."""
    return Refusal(ResponseCode.INVALID_PARAMETER, text)


def _check_attribute_name(name: str) -> None:
    if name not in ATTRIBUTES:
        raise invalid(f"the attribute {name[:40]!r} is unknown: use one of {', '.join(ATTRIBUTES)}")


def _check_attribute(name: str, value: str) -> None:
    _check_attribute_name(name)
    choices = ATTRIBUTES[name]
    if name == EXPIRATION_ATTRIBUTE:
        if (problem := expiration_problem(value)) is not None:
            raise invalid(f"the attribute {name}={value[:40]}: {problem}")
    elif choices is None:
        if not value.isascii() or not value.isdigit() or len(value) > _DIGITS_MAX:
            raise invalid(f"the attribute {name}={value[:40]}: write a whole number")
    elif value not in choices:
        raise invalid(f"the attribute {name}={value[:40]}: this broker serves {', '.join(choices)}")
