"""Connected producers and consumers, counted as RocketMQ does (Java: BrokerMetricsManager)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pymq.broker.assembly.parts import BrokerParts
from pymq.broker.metadata.clients import Client, ConsumerGroup
from pymq.broker.metrics.traffic import is_system_owned, truth
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
DIFFERING = gauge(
    "pymq_consumer_group_differing_subscriptions",
    "Topics that members of the group subscribe to differently, so that messages are lost; only groups with some.",
    "consumer_group",
)


class ClientMetrics:
    """The figures of connected clients."""

    metrics = (PRODUCERS, CONSUMERS, DIFFERING)

    def __init__(self, parts: BrokerParts) -> None:
        self._clients = parts.metadata.clients
        self._config = parts.config

    def collect(self) -> Iterator[Family]:
        producers = Counter(_kind(one) for found in self._clients.all_producers().values() for one in found)
        yield Family(PRODUCERS, [Reading((*kind, REMOTING), count) for kind, count in producers.items()])
        groups, left_out = bounded(self._clients.consumer_groups(), self._config.metrics_series_max)
        yield Family(CONSUMERS, (reading for group in groups for reading in _members(group)), left_out)
        differing, left_out = bounded(
            [group for group in self._clients.consumer_groups() if group.by_member.differ],
            self._config.metrics_series_max,
        )
        readings = [Reading((group.name,), len(group.by_member.differences())) for group in differing]
        yield Family(DIFFERING, readings, left_out)


def mode_name(consume_type: str) -> str:
    """Return how a group consumes as RocketMQ writes it into labels: ``push``, ``pull``, ``pop``."""
    return _MODES.get(consume_type, consume_type.lower())


def _members(group: ConsumerGroup) -> Iterator[Reading]:
    mode = mode_name(group.consume_type)
    for kind, count in Counter(map(_kind, group.members.values())).items():
        yield Reading((group.name, *kind, mode, REMOTING, truth(is_system_owned(group.name))), count)


def _kind(client: Client) -> tuple[str, str]:
    """Return (language, version)."""
    return client.language.lower(), version_name(client.version).lower()
