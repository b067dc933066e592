"""Sums of brokers' answers that several operations need."""

from __future__ import annotations

from collections.abc import Iterable

from pymq.wire.bodies_admin import ConsumerConnections, TopicLag, TopicOffset


def held_messages(queues: Iterable[TopicOffset]) -> int:
    """Return how many messages queues hold, by their first and next offsets."""
    return sum(at.max_offset - at.min_offset for at in queues)


def online_members(answers: Iterable[ConsumerConnections | None]) -> set[str]:
    """Return the client ids of a group's members, each once although it is connected to several brokers."""
    return {member.client_id for answer in answers if answer is not None for member in answer.connection_set}


def age_ms(lag: TopicLag, now_ms: int) -> int:
    """Return the age in ms of the last message that a group consumed in queues with further ones, 0 without such."""
    return max(0, now_ms - lag.consumed_ms) if lag.consumed_ms else 0
