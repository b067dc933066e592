"""The consistent hash by which RocketMQ spreads message groups and lite topics over queues."""

from __future__ import annotations

_MASK = 0xFFFF_FFFF_FFFF_FFFF


def consistent_bucket(key: int, count: int) -> int:
    """Return the bucket of a key among ``count``: with one bucket more, one of count + 1 keys moves.

    The jump consistent hash of Lamping and Veach, with the generator that Guava gives it.
    """
    state = key & _MASK
    candidate = 0
    while True:
        state = (2862933555777941757 * state + 1) & _MASK
        following = int((candidate + 1) / (((state >> 33) + 1) / (1 << 31)))
        if not 0 <= following < count:
            return candidate
        candidate = following
