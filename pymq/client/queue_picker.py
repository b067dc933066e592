"""Picks the queue that a message goes to: round robin over a topic's queues, avoiding failed and slow brokers."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pymq.clock import Clock
from pymq.model.javahash import string_hash
from pymq.model.lite_topics import lite_queue_number
from pymq.model.message import MessageQueue

BACK_OFF_FIRST_MS = 500
BACK_OFF_MAX_MS = 30_000
# Java: MQFaultStrategy. A broker that took so long (ms) to answer is avoided so long (ms); the slowest first.
SLOW_REST_MS = ((15_000, 30_000), (5_000, 10_000), (3_000, 6_000), (1_800, 5_000), (550, 2_000))
_SLOW_MS = SLOW_REST_MS[-1][0]


class BrokerHealth:
    """Remembers which brokers failed or were slow, and avoids them for a while.

    Each failure in a row doubles the time; a slow answer's time grows with what it took.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._resting: dict[str, tuple[int, int]] = {}  # broker name -> (failures in a row, end of the rest)

    def failed(self, broker_name: str) -> None:
        count = self._resting.get(broker_name, (0, 0))[0] + 1
        pause_ms = min(BACK_OFF_FIRST_MS << min(count - 1, 16), BACK_OFF_MAX_MS)
        self._resting[broker_name] = (count, self._clock.monotonic_ms() + pause_ms)

    def succeeded(self, broker_name: str, took_ms: int = 0) -> None:
        """End the rest of a broker, unless its answer took too long."""
        if took_ms >= _SLOW_MS:
            rest_ms = next(rest_ms for slow_ms, rest_ms in SLOW_REST_MS if took_ms >= slow_ms)
            self._resting[broker_name] = (0, self._clock.monotonic_ms() + rest_ms)
        elif self._resting:
            self._resting.pop(broker_name, None)

    def is_usable(self, broker_name: str) -> bool:
        """False while the broker's rest runs."""
        return not self._resting or self._clock.monotonic_ms() >= self.rest_end_ms(broker_name)

    @property
    def is_all_well(self) -> bool:
        """True while no broker rests."""
        return not self._resting

    def rest_end_ms(self, broker_name: str) -> int:
        """Return the monotonic time at which the broker may be used again, 0 when it may now."""
        rest = self._resting.get(broker_name)
        return 0 if rest is None else rest[1]


def queue_of_key(queues: Sequence[MessageQueue], ordering_key: str) -> MessageQueue:
    """Return the queue of all messages with this key, as RocketMQ's SelectMessageQueueByHash chooses it."""
    return queues[abs(string_hash(ordering_key)) % len(queues)]


def queue_of_lite_topic(queues: Sequence[MessageQueue], lite_topic: str) -> MessageQueue:
    """Return the queue of all messages of a lite topic, as RocketMQ's clients choose it."""
    return sorted(queues)[lite_queue_number(lite_topic, len(queues))]


class QueuePicker:
    """Picks queues round robin per topic, from a random start."""

    def __init__(self, health: BrokerHealth, rng: random.Random) -> None:
        self._health = health
        self._rng = rng
        self._next: dict[str, int] = {}

    def pick(self, topic: str, queues: Sequence[MessageQueue], avoid: str | None = None) -> MessageQueue:
        """Return the next queue; one on broker ``avoid`` or on a resting broker only if there is no other.

        ``queues`` must not be empty: the caller knows why a topic has none and reports that.
        """
        assert queues
        count = len(queues)
        start = self._next.get(topic)
        if start is None:
            start = self._rng.randrange(count)
        if avoid is None and self._health.is_all_well:
            self._next[topic] = start + 1
            return queues[start % count]
        for step in range(count):
            queue = queues[(start + step) % count]
            if queue.broker_name != avoid and self._health.is_usable(queue.broker_name):
                self._next[topic] = start + step + 1
                return queue
        return self._least_bad(topic, queues, start, avoid)

    def _least_bad(self, topic: str, queues: Sequence[MessageQueue], start: int, avoid: str | None) -> MessageQueue:
        """Return a queue when no broker is usable: the next one of the broker whose rest ends first.

        One on ``avoid`` comes last.
        """
        count = len(queues)
        best = min(
            range(count),
            key=lambda step: (
                queues[(start + step) % count].broker_name == avoid,
                self._health.rest_end_ms(queues[(start + step) % count].broker_name),
                step,
            ),
        )
        self._next[topic] = start + best + 1
        return queues[(start + best) % count]
