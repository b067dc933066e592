"""Picks the queue that a message goes to: round robin over a topic's queues, avoiding brokers that failed lately."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pymq.clock import Clock
from pymq.model.message import MessageQueue

BACK_OFF_FIRST_MS = 500
BACK_OFF_MAX_MS = 30_000


class BrokerHealth:
    """Remembers which brokers failed: each failure in a row doubles the time for which the broker is avoided."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[int, int]] = {}  # broker name -> (failures in a row, back-off end)

    def failed(self, broker_name: str) -> None:
        count = self._failures.get(broker_name, (0, 0))[0] + 1
        pause_ms = min(BACK_OFF_FIRST_MS << min(count - 1, 16), BACK_OFF_MAX_MS)
        self._failures[broker_name] = (count, self._clock.monotonic_ms() + pause_ms)

    def succeeded(self, broker_name: str) -> None:
        if self._failures:
            self._failures.pop(broker_name, None)

    def is_usable(self, broker_name: str) -> bool:
        """False while the broker's back-off runs."""
        if not self._failures:
            return True
        failure = self._failures.get(broker_name)
        return failure is None or self._clock.monotonic_ms() >= failure[1]


class QueuePicker:
    """Picks queues round robin per topic, from a random start."""

    def __init__(self, health: BrokerHealth, rng: random.Random) -> None:
        self._health = health
        self._rng = rng
        self._next: dict[str, int] = {}

    def pick(self, topic: str, queues: Sequence[MessageQueue], avoid: str | None = None) -> MessageQueue:
        """Returns the next queue; one on broker ``avoid`` or on a broker in back-off only if there is no other.

        ``queues`` must not be empty: the caller knows why a topic has none and reports that.
        """
        assert queues
        count = len(queues)
        start = self._next.get(topic)
        if start is None:
            start = self._rng.randrange(count)
        for step in range(count):
            queue = queues[(start + step) % count]
            if queue.broker_name != avoid and self._health.is_usable(queue.broker_name):
                self._next[topic] = start + step + 1
                return queue
        return self._least_bad(topic, queues, start, avoid)

    def _least_bad(self, topic: str, queues: Sequence[MessageQueue], start: int, avoid: str | None) -> MessageQueue:
        """Returns a queue when no broker is usable: the next one that is not on ``avoid``, else the next one."""
        for step in range(len(queues)):
            queue = queues[(start + step) % len(queues)]
            if queue.broker_name != avoid:
                self._next[topic] = start + step + 1
                return queue
        self._next[topic] = start + 1
        return queues[start % len(queues)]
