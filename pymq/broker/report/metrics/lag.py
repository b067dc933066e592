"""The lag of consumer groups: RocketMQ's five metrics (Java: ConsumerLagCalculator).

RocketMQ reports only connected groups. A master here reports every group that has committed anything, because a group
whose consumers are gone needs attention most. A slave's offsets are copies: it reports only groups connected to it.
The counts include messages that a group's filter skips.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from pymq.broker.parts import BrokerParts
from pymq.broker.report.metrics.traffic import is_system, truth
from pymq.metrics.family import PAUSE, Family, Reading, gauge
from pymq.model.names import RETRY_PREFIX
from pymq.store.store import QueueView

_LABELS = ("consumer_group", "topic", "is_retry", "is_system")
MESSAGES = gauge("rocketmq_consumer_lag_messages", "Messages behind the group's committed offsets.", *_LABELS)
LATENCY = gauge(
    "rocketmq_consumer_lag_latency_milliseconds",
    "Age of the oldest message that is not committed.",
    *_LABELS,
    unit="milliseconds",
)
INFLIGHT = gauge("rocketmq_consumer_inflight_messages", "Messages pulled and not committed.", *_LABELS)
QUEUEING = gauge(
    "rocketmq_consumer_queueing_latency_milliseconds",
    "Age of the oldest message that was not pulled.",
    *_LABELS,
    unit="milliseconds",
)
READY = gauge("rocketmq_consumer_ready_messages", "Messages that were not pulled.", *_LABELS)

# Work between two looks at the time: queues of one topic, listed pairs of group and topic.
QUEUES_AT_ONCE, PAIRS_AT_ONCE = 256, 100


@dataclass(slots=True)
class GroupLag:
    """The lag of one group in one topic. ``oldest_…`` are offsets in the log; -1: no such message."""

    lag: int = 0
    in_flight: int = 0
    ready: int = 0
    oldest_uncommitted: int = -1
    oldest_unpulled: int = -1


class LagMetrics:
    """The lag of all groups. Keeps the store times it has read: a group that stands still costs no second read."""

    metrics = (MESSAGES, LATENCY, INFLIGHT, QUEUEING, READY)

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._known_ms: dict[int, int] = {}  # offset in the log -> store time

    def collect(self) -> Iterator[Family | None]:
        series_max = self._parts.config.metrics_series_max
        pairs: list[tuple[str, str, int]] = []
        left_out = 0
        for pair in self._pairs():
            if pair is PAUSE:
                yield PAUSE
            elif len(pairs) < series_max:
                pairs.append(pair)
            else:
                left_out += 1
        rows: list[tuple[tuple[str, ...], GroupLag, int, int]] = []
        known_ms: dict[int, int] = {}
        for group, topic, queue_count in pairs:
            lag = GroupLag()
            for queue_id in range(queue_count):
                self._add(lag, group, topic, queue_id)
                if queue_id % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1:
                    yield PAUSE
            labels = (group, topic, truth(False), truth(is_system(topic, group)))
            uncommitted_ms = self._age_ms(lag.oldest_uncommitted, known_ms)
            rows.append((labels, lag, uncommitted_ms, self._age_ms(lag.oldest_unpulled, known_ms)))
            yield PAUSE
        self._known_ms = known_ms
        yield Family(MESSAGES, (Reading(labels, lag.lag) for labels, lag, _, _ in rows), left_out)
        yield Family(LATENCY, (Reading(labels, age_ms) for labels, _, age_ms, _ in rows), left_out)
        yield Family(INFLIGHT, (Reading(labels, lag.in_flight) for labels, lag, _, _ in rows), left_out)
        yield Family(QUEUEING, (Reading(labels, age_ms) for labels, _, _, age_ms in rows), left_out)
        yield Family(READY, (Reading(labels, lag.ready) for labels, lag, _, _ in rows), left_out)

    def _pairs(self) -> Iterator[tuple[str, str, int] | None]:
        """Yield (group, topic, number of queues): subscriptions of connected groups, then commits of other groups.

        Yields PAUSE from time to time.
        """
        parts = self._parts
        connected = {group.name: group for group in parts.metadata.clients.consumer_groups()}
        subscribed = ((topic, name) for name, group in connected.items() for topic in list(group.subscriptions))
        committed = parts.metadata.cursors.committed() if parts.role.is_master else []
        others = (pair for pair in committed if pair[1] not in connected)
        for number, (topic, group) in enumerate(chain(subscribed, others), 1):
            if number % PAIRS_AT_ONCE == 0:
                yield PAUSE
            config = parts.metadata.topics.get(topic)
            if config is None or topic.startswith(RETRY_PREFIX):
                continue
            if group in connected and connected[group].is_broadcasting:
                continue  # its members keep their offsets themselves
            yield group, topic, config.queue_count

    def _add(self, lag: GroupLag, group: str, topic: str, queue_id: int) -> None:
        queue = self._parts.store.queue_view(topic, queue_id)
        if queue is None:
            return
        cursors, end = self._parts.metadata.cursors, queue.max_offset
        committed = cursors.query(group, topic, queue_id)
        pulled = cursors.pulled(group, topic, queue_id)
        # A group without an offset begins at either end, as it chooses: no message waits for it (as in Java).
        committed = end if committed < 0 else min(committed, end)
        pulled = committed if pulled < 0 else min(pulled, end)
        lag.lag += end - committed
        lag.in_flight += pulled - committed
        lag.ready += end - pulled
        lag.oldest_uncommitted = _older(lag.oldest_uncommitted, queue, committed)
        lag.oldest_unpulled = _older(lag.oldest_unpulled, queue, pulled)

    def _age_ms(self, offset: int, known_ms: dict[int, int]) -> int:
        """Return the age of the message at an offset of the log, 0 when there is none. Reads each message once."""
        if offset < 0:
            return 0
        store_ms = self._known_ms.get(offset)
        if store_ms is None:
            store_ms = self._parts.store.store_time_at(offset)
        known_ms[offset] = store_ms
        return max(0, self._parts.clock.now_ms() - store_ms) if store_ms > 0 else 0


def _older(oldest: int, queue: QueueView, offset: int) -> int:
    """Return the lower of ``oldest`` and the log offset of the queue's first message from ``offset`` on.

    Store times never go back in the log, so the lower offset is the older message.
    """
    offset = max(offset, queue.min_offset)
    if offset >= queue.max_offset:
        return oldest
    try:
        place = queue.physical_offset_from(offset)
    except OSError:
        return oldest
    if place < 0 or oldest < 0:
        return max(place, oldest)
    return min(oldest, place)
