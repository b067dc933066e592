"""The queue of a message: one for each message group and lite topic, as long as the queues stay."""

from __future__ import annotations

from collections.abc import Sequence

from pymq.model.consistent_hash import consistent_bucket
from pymq.model.javahash import string_hash
from pymq.model.message import MessageQueue


def queue_of_group(queues: Sequence[MessageQueue], message_group: str) -> MessageQueue:
    """Return the queue for the messages of a group; ``queues`` has at least one."""
    return queues[consistent_bucket(string_hash(message_group), len(queues))]
