"""Priorities of messages: which queue a message goes to, and in which order a pop visits queues (RocketMQ's RIP-80).

Java: SendMessageProcessor and PopMessageProcessor of 5.5.0. Queue n of a topic has the messages of priority n, its last
queue those of all higher ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pymq.model import properties as names
from pymq.model.message import PRIORITY_MAX
from pymq.model.message_types import PRIORITY, TYPE_ATTRIBUTE, message_type
from pymq.model.properties import find_property, without_properties
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig

FACTOR_ATTRIBUTE: Final = "priority.factor"
FACTOR_MAX: Final = 100  # percent; also the default
_NAME: Final = names.PRIORITY.encode()
_NUMBER = re.compile(rb"[+-]?[0-9]{1,10}")


def priority_of(properties: bytes) -> int | None:
    """Return the priority that raw properties give, 0 or more; None for none, or what is no such number."""
    if _NAME not in properties:
        return None
    text = find_property(properties, _NAME)
    if text is None or not _NUMBER.fullmatch(text):
        return None
    priority = int(text)
    return priority if 0 <= priority <= PRIORITY_MAX else None


def routed(properties: bytes, queue_id: int, write_queue_nums: int) -> tuple[bytes, int]:
    """Return a sent message's properties and queue. A priority decides the queue, whichever one was asked for.

    A message of another type (delayed, half, ordered) loses its priority.
    """
    priority = priority_of(properties)
    if priority is None:
        return properties, queue_id
    if message_type(properties) != PRIORITY:
        return without_properties(properties, (_NAME,)), queue_id
    return properties, min(priority, write_queue_nums - 1)


def factor_of(topic: TopicConfig, group: SubscriptionGroupConfig) -> int:
    """Return how many percent of the group's pops visit the topic's queues by priority."""
    if not topic.attributes or topic.attributes.get(TYPE_ATTRIBUTE) != PRIORITY:
        return 0
    return _factor(group.attributes)


def _factor(attributes: Mapping[str, str]) -> int:
    text = attributes.get(FACTOR_ATTRIBUTE, "") if attributes else ""
    if not text.isascii() or not text.isdigit() or len(text) > 3:
        return FACTOR_MAX  # none, or one that another broker did not check
    return min(int(text), FACTOR_MAX)
