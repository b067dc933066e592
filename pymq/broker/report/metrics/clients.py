"""Connected producers and consumers, counted as RocketMQ does (Java: BrokerMetricsManager)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pymq.broker.metadata.clients import Client, ConsumerGroup
from pymq.broker.parts import BrokerParts
from pymq.broker.report.metrics.traffic import is_system_owned, truth
from pymq.metrics.family import Family, Reading, bounded, gauge
from pymq.wire.versions import version_name

REMOTING = "remoting"
# Java: ConsumeType.getTypeCN.
_MODES = {"CONSUME_ACTIVELY": "pull", "CONSUME_PASSIVELY": "push", "CONSUME_POP": "pop"}

PRODUCERS = gauge("rocketmq_producer_connections", "Connected producers.", "language", "version", "protocol_type")
CONSUMERS = gauge(
    "rocketmq_consumer_connections",
    "Connected members of consumer groups.",
    *("consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"),
)


class ClientMetrics:
    """The figures of connected clients."""

    metrics = (PRODUCERS, CONSUMERS)

    def __init__(self, parts: BrokerParts) -> None:
        self._clients = parts.metadata.clients
        self._config = parts.config

    def collect(self) -> Iterator[Family]:
        producers = Counter(_kind(one) for found in self._clients.all_producers().values() for one in found)
        yield Family(PRODUCERS, [Reading((*kind, REMOTING), count) for kind, count in producers.items()])
        groups, left_out = bounded(self._clients.consumer_groups(), self._config.metrics_series_max)
        yield Family(CONSUMERS, (reading for group in groups for reading in _members(group)), left_out)


def _members(group: ConsumerGroup) -> Iterator[Reading]:
    mode = _MODES.get(group.consume_type, group.consume_type.lower())
    for kind, count in Counter(map(_kind, group.members.values())).items():
        yield Reading((group.name, *kind, mode, REMOTING, truth(is_system_owned(group.name))), count)


def _kind(client: Client) -> tuple[str, str]:
    """Return (language, version)."""
    return client.language.lower(), version_name(client.version).lower()
