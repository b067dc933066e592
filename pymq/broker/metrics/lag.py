"""The lag of consumer groups: RocketMQ's five metrics (Java: ConsumerLagCalculator).

RocketMQ reports only connected groups. A master here reports every group that has committed anything, because a group
whose consumers are gone needs attention most. A slave's offsets are copies: it reports only groups connected to it.
The counts include messages that a group's filter skips.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import chain
from typing import NamedTuple

from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.metrics.traffic import is_system, truth
from pymq.broker.report.oldest import older_place
from pymq.metrics.family import PAUSE, Family, Rows, escape, gauge, label_text
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

# Work between two looks at the time: queues of groups, listed pairs of group and topic.
QUEUES_AT_ONCE, PAIRS_AT_ONCE = 256, 500
_NO_LAG = (0, 0, 0, 0, 0)
_ENDS = [label_text(_LABELS[2:], (truth(False), truth(is_system))) for is_system in (False, True)]


class _Lag(NamedTuple):
    """The lag of one group in one topic. ``oldest_…`` are offsets in the log; -1: no such message."""

    messages: int = 0
    in_flight: int = 0
    ready: int = 0
    oldest_uncommitted: int = -1
    oldest_unpulled: int = -1


_Queues = dict[int, QueueView]


class LagMetrics:
    """The lag of all groups. Keeps the store times it has read: a group that stands still costs no second read.

    It goes topic by topic. Most groups have committed all of their queues; comparing two tables shows that.
    """

    metrics = (MESSAGES, LATENCY, INFLIGHT, QUEUEING, READY)

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts
        self._known_ms: dict[int, int] = {}  # offset in the log -> store time

    def collect(self) -> Iterator[Family | None]:
        groups_of: dict[str, list[str]] = {}
        left_out = yield from self._list_pairs(groups_of)
        labels: list[list[str]] = []
        values: list[list[tuple[int, ...]]] = []
        known_ms: dict[int, int] = {}
        for topic in list(groups_of):
            groups = groups_of.pop(topic)  # all of them at the end would be freed at once: 3 ms for 100,000 pairs
            config = self._parts.metadata.topics.get(topic)
            if config is None:
                continue  # deleted since it was listed
            queues: _Queues = {}
            ends: dict[int, int] = {}
            for queue_id in range(config.queue_count):
                view = self._parts.store.queue_view(topic, queue_id)
                ends[queue_id] = view.max_offset if view is not None else 0
                if view is not None:
                    queues[queue_id] = view
                if queue_id % QUEUES_AT_ONCE == QUEUES_AT_ONCE - 1:
                    yield PAUSE
            at_once = max(1, QUEUES_AT_ONCE // max(1, len(ends)))
            for start in range(0, len(groups), at_once):
                some = groups[start : start + at_once]
                labels.append([_label_text(group, topic) for group in some])
                of_some = []
                for group in some:
                    lag = yield from self._lag(group, topic, queues, ends)
                    of_some.append(self._values(lag, known_ms) if lag is not None else _NO_LAG)
                values.append(of_some)
                yield PAUSE
        self._known_ms = known_ms
        for number, metric in enumerate(self.metrics):
            yield Family(metric, _rows(labels, values, number), left_out)

    def _list_pairs(self, groups_of: dict[str, list[str]]) -> Generator[None, None, int]:
        """Fill in the groups by topic: subscriptions of connected groups, then commits of other groups.

        Yields from time to time. Returns the number of pairs beyond the limit.
        """
        parts, count, left_out = self._parts, 0, 0
        series_max = parts.config.metrics_series_max
        connected = {group.name: group for group in parts.metadata.clients.consumer_groups()}
        subscribed = ((topic, name) for name, group in connected.items() for topic in list(group.subscriptions))
        committed = parts.metadata.cursors.committed() if parts.role.is_master else []
        others = (pair for pair in _drained(committed) if pair[1] not in connected)
        topics = parts.metadata.topics
        for number, (topic, group) in enumerate(chain(subscribed, others), 1):
            if number % PAIRS_AT_ONCE == 0:
                yield PAUSE
            groups = groups_of.get(topic)
            if groups is None and (topics.get(topic) is None or topic.startswith(RETRY_PREFIX)):
                continue
            if group in connected and connected[group].is_broadcasting:
                continue  # its members keep their offsets themselves
            if count >= series_max:
                left_out += 1
                continue
            count += 1
            if groups is None:
                groups_of[topic] = [group]
            else:
                groups.append(group)
        return left_out

    def _lag(self, group: str, topic: str, queues: _Queues, ends: dict[int, int]) -> Generator[None, None, _Lag | None]:
        """Return the lag of a group in a topic, None when it has none. ``ends`` are those of all queues."""
        cursors = self._parts.metadata.cursors
        offsets, pulled_offsets = cursors.places(group, topic)
        if not cursors.has_resets and offsets.items() <= ends.items():
            return None  # nothing was pulled beyond what is committed, and a queue without an offset has no lag
        messages = in_flight = ready = 0
        oldest_uncommitted = oldest_unpulled = -1
        for number, (queue_id, queue) in enumerate(queues.items(), 1):
            end = queue.max_offset
            committed = cursors.query(group, topic, queue_id)
            # A group without an offset begins at either end, as it chooses: no message waits for it (as in Java).
            committed = end if committed < 0 else min(committed, end)
            pulled = min(max(pulled_offsets.get(queue_id, committed), committed), end)
            messages += end - committed
            in_flight += pulled - committed
            ready += end - pulled
            if committed < end:
                oldest_uncommitted = older_place(oldest_uncommitted, queue, committed)
            if pulled < end:
                oldest_unpulled = older_place(oldest_unpulled, queue, pulled)
            if number % QUEUES_AT_ONCE == 0:
                yield PAUSE
        return _Lag(messages, in_flight, ready, oldest_uncommitted, oldest_unpulled)

    def _values(self, lag: _Lag, known_ms: dict[int, int]) -> tuple[int, ...]:
        """Return the values of :attr:`metrics`."""
        uncommitted_ms = self._age_ms(lag.oldest_uncommitted, known_ms)
        unpulled_ms = self._age_ms(lag.oldest_unpulled, known_ms)
        return lag.messages, uncommitted_ms, lag.in_flight, unpulled_ms, lag.ready

    def _age_ms(self, offset: int, known_ms: dict[int, int]) -> int:
        """Return the age of the message at an offset of the log, 0 when there is none. Reads each message once."""
        if offset < 0:
            return 0
        store_ms = self._known_ms.get(offset)
        if store_ms is None:
            store_ms = self._parts.store.store_time_at(offset)
        known_ms[offset] = store_ms
        return max(0, self._parts.clock.now_ms() - store_ms) if store_ms > 0 else 0


def _drained(pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the pairs and forget each: to free 100,000 at once takes 2 ms."""
    pairs.reverse()
    while pairs:
        yield pairs.pop()


def _label_text(group: str, topic: str) -> str:
    """Return what :func:`label_text` returns for the labels of a group and topic, in a third of the time."""
    return f'consumer_group="{escape(group)}",topic="{escape(topic)}",{_ENDS[is_system(topic, group)]}'


def _rows(labels: list[list[str]], values: list[list[tuple[int, ...]]], number: int) -> Iterator[Rows]:
    """Yield the readings of the metric with this number. The last metric frees them: at once that takes 8 ms."""
    is_last = number == len(LagMetrics.metrics) - 1
    for at in range(len(labels)):
        yield Rows(labels[at], [each[number] for each in values[at]])
        if is_last:
            labels[at], values[at] = [], []
