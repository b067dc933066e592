"""The queue of a message: one for each message group as long as the queues stay, else one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from pymq.model.javahash import string_hash
from pymq.model.message import MessageQueue


def consistent_bucket(key: int, count: int) -> int:
    """Return the bucket of a key among ``count``: with one bucket more, one of count + 1 keys moves.

    The jump consistent hash of Lamping and Veach, with the generator that Guava gives it.
    """
    state = key & 0xFFFF_FFFF_FFFF_FFFF
    candidate = 0
    while True:
        state = (2862933555777941757 * state + 1) & 0xFFFF_FFFF_FFFF_FFFF
        following = int((candidate + 1) / (((state >> 33) + 1) / (1 << 31)))
        if not 0 <= following < count:
            return candidate
        candidate = following


def queue_of_group(queues: Sequence[MessageQueue], message_group: str) -> MessageQueue:
    """Return the queue for the messages of a group; ``queues`` has at least one."""
    return queues[consistent_bucket(string_hash(message_group), len(queues))]
