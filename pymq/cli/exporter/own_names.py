"""Metrics with PyMQ's names and labels, as far as RocketMQ's brokers report what they mean; and the exporter's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from pymq import __version__
from pymq.broker.metrics import clients, lag, replication, storage, timers, traffic
from pymq.broker.metrics.collector import NODE_TYPE
from pymq.clock import Clock
from pymq.metrics.family import Family, Metric, Reading, counter, gauge, single
from pymq.model.names import is_system_topic
from pymq.namesrv.metrics import BROKERS, MASTERS
from pymq.namesrv.metrics import TOPICS as NAMESRV_TOPICS
from pymq.operations.facts import BrokerFacts, Facts
from pymq.operations.replica_view import problems_of
from pymq.wire.bodies_replication import CONNECTED, FOLLOWING, ReplicationStatus, SlaveState
from pymq.wire.versions import version_name

NODE_LABELS = ("cluster", "node_id", "node_type")
_LOCAL_DISK = ("local", "disk")

INFO = gauge("pymq_exporter_info", "Always 1; the label says which version runs.", "pymq_version")
UP = gauge(
    "pymq_exporter_broker_up",
    "1 if the broker answered at the last collection.",
    *("cluster", "node_id", "broker_id", "address"),
)
AGE = gauge("pymq_exporter_age_seconds", "Time since the last collection ended.", unit="seconds")
TOOK = gauge("pymq_exporter_collection_seconds", "How long the last collection took.", unit="seconds")
FAILED = gauge("pymq_exporter_failed", "1 if no name server answered at the last collection.")
FAILURES = counter("pymq_exporter_failed_requests_total", "Requests that brokers and name servers did not answer.")
COMMITTED = gauge(
    "pymq_exporter_committed_messages",
    "Sum of a group's committed offsets in a topic; falls when the group is moved back.",
    *("consumer_group", "topic"),
)
EXPORTER_METRICS = (INFO, UP, AGE, TOOK, FAILED, FAILURES, COMMITTED)
# Of brokers, by the metrics that they serve themselves.
BROKER_METRICS = (
    *(traffic.PERMISSION, traffic.TOPICS, traffic.GROUPS, traffic.MESSAGES_IN, traffic.DELAYED_WAITING),
    *(clients.PRODUCERS, clients.CONSUMERS, clients.DIFFERING),
    *(lag.MESSAGES, lag.LATENCY, lag.INFLIGHT, lag.READY),
    *(storage.SIZE, storage.FLUSH_BEHIND, storage.DISPATCH_BEHIND, storage.RESERVE_TIME),
    *(storage.LOG_START, storage.LOG_END, storage.DISK_SIZE, storage.DISK_FREE),
    *(timers.READ_BEHIND, timers.OFFSET_BEHIND),
    *(replication.BROKER_ID, replication.REQUIRED, replication.IN_SYNC, replication.DEGRADED, replication.PROBLEMS),
    *(replication.CONNECTED, replication.SLAVE_IN_SYNC, replication.LAG_BYTES, replication.SLAVE_RATE),
    replication.HA_CLIENT_STATE,
)
NAMESRV_METRICS = (BROKERS, MASTERS, NAMESRV_TOPICS)

Readings = Iterable[tuple[tuple[str, ...], float | None]]
FactsSource = Callable[[], Facts]


def of_brokers(metric: Metric) -> Metric:
    """Return the metric with the labels that a broker puts on each of its lines."""
    return replace(metric, labels=(*NODE_LABELS, *metric.labels))


class OwnNames:
    """The newest facts under PyMQ's names."""

    metrics = (*EXPORTER_METRICS, *NAMESRV_METRICS, *map(of_brokers, BROKER_METRICS))

    def __init__(self, facts: FactsSource, clock: Clock) -> None:
        self._facts = facts
        self._clock = clock

    def collect(self) -> Iterator[Family]:
        facts = self._facts()
        yield from self._exporter(facts)
        if facts.error:
            return
        found = Counter(broker.view.cluster for broker in facts.brokers)
        masters = Counter(broker.view.cluster for broker in facts.brokers if broker.view.is_master)
        yield Family(BROKERS, [Reading((cluster,), count) for cluster, count in found.items()])
        yield Family(MASTERS, [Reading((cluster,), masters[cluster]) for cluster in found])
        if facts.topic_names is not None:
            yield single(NAMESRV_TOPICS, facts.topic_names)
        for metric, readings in _SOURCES.items():
            yield Family(of_brokers(metric), list(_of_all(facts.brokers, readings)))

    def _exporter(self, facts: Facts) -> Iterator[Family]:
        yield Family(INFO, (Reading((__version__,), 1),))
        yield single(FAILED, bool(facts.error))
        yield single(FAILURES, facts.failures)
        if facts.at_ms:
            yield single(AGE, max(0, self._clock.now_ms() - facts.at_ms) / 1000)
            yield single(TOOK, facts.took_ms / 1000)
        up = [
            Reading((view.cluster, view.name, str(view.broker_id), view.address), view.status is not None)
            for view in (broker.view for broker in facts.brokers)
        ]
        yield Family(UP, up)
        committed: Counter[tuple[str, str]] = Counter()
        for broker in facts.brokers:
            for place, at in broker.places.items():
                committed[place] += at.committed
        yield Family(COMMITTED, [Reading(place, count) for place, count in committed.items()])


def _of_all(brokers: Iterable[BrokerFacts], readings: Callable[[BrokerFacts], Readings]) -> Iterator[Reading]:
    for broker in brokers:
        if broker.view.status is None:
            continue
        node = (broker.view.cluster, broker.view.name, NODE_TYPE)
        if not broker.view.is_master:
            node = (broker.view.cluster, f"{broker.view.name}:{broker.view.broker_id}", NODE_TYPE)
        for labels, value in readings(broker):
            if value is not None:
                yield Reading((*node, *labels), value)


def _one(value: float | None) -> Readings:
    return [((), value)]


def _local(value: float | None) -> Readings:
    return [(_LOCAL_DISK, value)]


def _producers(broker: BrokerFacts) -> Readings:
    kinds = Counter(
        ((one.language or "").lower(), version_name(one.version).lower())
        for found in broker.producers.values()
        for one in found
    )
    return [((*kind, clients.REMOTING), count) for kind, count in kinds.items()]


def _consumers(broker: BrokerFacts) -> Readings:
    for group, found in broker.consumers.items():
        mode = clients.mode_name(found.consume_type or "")
        kinds = Counter(
            ((one.language or "").lower(), version_name(one.version).lower()) for one in found.connection_set
        )
        system = traffic.truth(traffic.is_system_owned(group))
        for kind, count in kinds.items():
            yield (group, *kind, mode, clients.REMOTING, system), count


def _differing(broker: BrokerFacts) -> Readings:
    """PyMQ's brokers report it; of others it is not known without a request to every member."""
    return [
        ((group,), len(found.pymq_differences)) for group, found in broker.consumers.items() if found.pymq_differences
    ]


def _messages_in(broker: BrokerFacts) -> Readings:
    return [
        ((topic, traffic.UNKNOWN_TYPE, traffic.truth(is_system_topic(topic))), end)
        for topic, end in broker.ends.items()
    ]


def _delayed(broker: BrokerFacts) -> Readings:
    for key, text in broker.view.runtime.items():
        _, is_level, level = key.partition("scheduleMessageOffset_")
        delivered, comma, end = text.partition(",")
        if is_level and comma and delivered.isdigit() and end.isdigit():
            yield (level,), max(0, int(end) - int(delivered))


def _places(value: Callable[[int, int, int, int], float]) -> Callable[[BrokerFacts], Readings]:
    def readings(broker: BrokerFacts) -> Readings:
        for (group, topic), at in broker.places.items():
            labels = (group, topic, "false", traffic.truth(traffic.is_system(topic, group)))
            yield labels, value(at.end, at.committed, at.pulled, at.age_ms)

    return readings


def _used(broker: BrokerFacts) -> float | None:
    size, free = broker.capacity()
    return None if size is None or free is None else size - free


def _reserve_ms(broker: BrokerFacts) -> float | None:
    """Return the age of the oldest message, None without messages."""
    earliest = broker.figure("earliestMessageTimeStamp")
    return None if earliest is None or earliest <= 0 else max(0, broker.asked_at_ms - earliest)


def _slaves(value: Callable[[SlaveState], float]) -> Callable[[BrokerFacts], Readings]:
    def readings(broker: BrokerFacts) -> Readings:
        status = broker.view.status
        return [((str(one.broker_id), one.address), value(one)) for one in (status.slaves if status else ())]

    return readings


def _ha_state(broker: BrokerFacts) -> Readings:
    client = broker.view.status.ha_client if broker.view.status is not None else None
    if client is None:
        return []
    # RocketMQ's slaves are only known to be connected.
    current = FOLLOWING if client.state == CONNECTED else client.state
    return [((state,), float(state == current)) for state in dict.fromkeys((FOLLOWING, current))]


def _of_master(value: Callable[[ReplicationStatus], float]) -> Callable[[BrokerFacts], Readings]:
    def readings(broker: BrokerFacts) -> Readings:
        status = broker.view.status
        knows = status is not None and status.knows_slaves and broker.view.is_master
        return [((), value(status))] if status is not None and knows else []

    return readings


_SOURCES: dict[Metric, Callable[[BrokerFacts], Readings]] = {
    traffic.PERMISSION: lambda broker: _one(broker.permission),
    traffic.TOPICS: lambda broker: _one(broker.topic_count),
    traffic.GROUPS: lambda broker: _one(broker.group_count),
    traffic.MESSAGES_IN: _messages_in,
    traffic.DELAYED_WAITING: _delayed,
    clients.PRODUCERS: _producers,
    clients.CONSUMERS: _consumers,
    clients.DIFFERING: _differing,
    lag.MESSAGES: _places(lambda end, committed, pulled, age_ms: end - committed),
    lag.LATENCY: _places(lambda end, committed, pulled, age_ms: age_ms),
    lag.INFLIGHT: _places(lambda end, committed, pulled, age_ms: pulled - committed),
    lag.READY: _places(lambda end, committed, pulled, age_ms: end - pulled),
    storage.SIZE: lambda broker: _local(_used(broker)),
    storage.FLUSH_BEHIND: lambda broker: _local(broker.size("remainHowManyDataToFlush")),
    storage.DISPATCH_BEHIND: lambda broker: _local(broker.figure("dispatchBehindBytes")),
    storage.RESERVE_TIME: lambda broker: _local(_reserve_ms(broker)),
    storage.LOG_START: lambda broker: _one(broker.figure("commitLogMinOffset")),
    storage.LOG_END: lambda broker: _one(broker.figure("commitLogMaxOffset")),
    storage.DISK_SIZE: lambda broker: _one(broker.capacity()[0]),
    storage.DISK_FREE: lambda broker: _one(broker.capacity()[1]),
    timers.READ_BEHIND: lambda broker: _one(broker.figure("timerReadBehind")),
    timers.OFFSET_BEHIND: lambda broker: _one(broker.figure("timerOffsetBehind")),
    replication.BROKER_ID: lambda broker: _one(broker.view.broker_id),
    replication.REQUIRED: _of_master(lambda status: status.required_slaves),
    replication.IN_SYNC: _of_master(lambda status: status.in_sync_slaves),
    replication.DEGRADED: _of_master(lambda status: float(status.degraded)),
    replication.PROBLEMS: lambda broker: _one(len(problems_of(broker.view))),
    replication.CONNECTED: _slaves(lambda slave: float(slave.is_connected)),
    replication.SLAVE_IN_SYNC: _slaves(lambda slave: float(slave.in_sync)),
    replication.LAG_BYTES: _slaves(lambda slave: slave.lag_bytes),
    replication.SLAVE_RATE: _slaves(lambda slave: slave.bytes_per_second),
    replication.HA_CLIENT_STATE: _ha_state,
}
assert set(_SOURCES) == set(BROKER_METRICS)
