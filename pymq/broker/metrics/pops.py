"""Pop consumption: what is handed out, what came again, and requests that wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pymq.broker.assembly.parts import BrokerParts
from pymq.metrics.family import Family, Reading, bounded, counter, gauge, single

CHECK_POINTS = gauge("pymq_pop_check_points", "Hand-outs with messages that are neither acknowledged nor due again.")
INVISIBLE = gauge(
    "pymq_pop_invisible_messages",
    "Messages that are handed out and not acknowledged, by the topic that they were read from, perhaps a retry topic.",
    "topic",
    "consumer_group",
)
WAITING = gauge("pymq_pop_waiting_requests", "Pops and notifications that wait for a message.")
REVIVED = counter("pymq_pop_messages_revived_total", "Messages whose invisible time ended and that came again.")
DROPPED = counter(
    "pymq_pop_messages_dropped_total", "Messages that could not come again: topic, group or segment are gone."
)
INEFFECTIVE = counter("pymq_pop_ineffective_acks_total", "Acknowledgements that were late, double or forged.")
UNREADABLE = counter("pymq_pop_unreadable_records_total", "Records of the revive topic that could not be read.")


class PopMetrics:
    """The figures of pop consumption."""

    metrics = (CHECK_POINTS, INVISIBLE, WAITING, REVIVED, DROPPED, INEFFECTIVE, UNREADABLE)

    def __init__(self, parts: BrokerParts) -> None:
        self._pop = parts.pop
        self._requests = parts.requests
        self._config = parts.config

    def collect(self) -> Iterator[Family]:
        log, reviver = self._pop.revive_log, self._pop.reviver
        yield single(CHECK_POINTS, len(log.check_points))
        invisible: Counter[tuple[str, str]] = Counter()
        for (topic, group, _), count in log.check_points.invisible.items():
            invisible[topic, group] += count
        found, left_out = bounded(invisible.items(), self._config.metrics_series_max)
        yield Family(INVISIBLE, [Reading(names, count) for names, count in found], left_out)
        yield single(WAITING, self._requests.pop_polls.count)
        yield single(REVIVED, reviver.revived_count)
        yield single(DROPPED, reviver.dropped_count)
        yield single(INEFFECTIVE, self._requests.pops.ineffective_ack_count)
        yield single(UNREADABLE, log.unreadable_count)
