"""Timer messages: delivered, recalled, stored again, waiting, and how far the wheel is behind."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.broker.assembly.parts import BrokerParts
from pymq.metrics.family import Family, Reading, bounded, counter, gauge, single

DELIVERED = counter("pymq_timer_messages_delivered_total", "Timer messages that came due.")
RECALLED = counter(
    "pymq_timer_messages_recalled_total", "Timer messages that were recalled and left out when they came due."
)
ROLLED = counter(
    "pymq_timer_messages_rolled_total",
    "Timer messages that were stored again because they are due beyond the wheel's window.",
)
DROPPED = counter(
    "pymq_timer_messages_dropped_total",
    "Timer messages that could not be delivered, and records of their topic that could not be read.",
)
WAITING = gauge("pymq_timer_messages_waiting", "Timer messages that are not due yet, by their real topic.", "topic")
READ_BEHIND = gauge(
    "pymq_timer_read_behind_seconds",
    "How long the oldest slot that is not delivered has been over.",
    unit="seconds",
)
OFFSET_BEHIND = gauge("pymq_timer_offset_behind", "Records of the timer topic that are not in the wheel yet.")


class TimerMetrics:
    """The figures of timer messages."""

    metrics = (DELIVERED, RECALLED, ROLLED, DROPPED, WAITING, READ_BEHIND, OFFSET_BEHIND)

    def __init__(self, parts: BrokerParts) -> None:
        self._timers = parts.messages.timers
        self._config = parts.config

    def collect(self) -> Iterator[Family]:
        timers, delivery = self._timers, self._timers.delivery
        yield single(DELIVERED, delivery.delivered_count)
        yield single(RECALLED, delivery.recalled_count)
        yield single(ROLLED, delivery.rolled_count)
        yield single(DROPPED, delivery.dropped_count + timers.skipped_count)
        waiting, left_out = bounded(timers.counts.waiting.items(), self._config.metrics_series_max)
        yield Family(WAITING, [Reading((topic,), count) for topic, count in waiting], left_out)
        yield single(READ_BEHIND, timers.behind_ms / 1000)
        yield single(OFFSET_BEHIND, timers.behind_count)
