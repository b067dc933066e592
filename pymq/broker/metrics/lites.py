"""Lite topics: how many there are, who subscribes to them, and what waits."""

from __future__ import annotations

from collections.abc import Iterator

from pymq.broker.assembly.parts import BrokerParts
from pymq.metrics.family import Family, gauge, single

TOPICS = gauge("pymq_lite_topics", "Lite topics of all parents.")
TOPICS_MAX = gauge("pymq_lite_topics_max", "Lite topics beyond which a send to a new one is refused.")
CLIENTS = gauge("pymq_lite_clients", "Clients with subscriptions to lite topics; a slave has none.")
SUBSCRIPTIONS = gauge("pymq_lite_subscriptions", "Their subscriptions.")
DUE = gauge("pymq_lite_topics_due", "Lite topics with messages for a group that wait for a pop, of all groups.")
HANDED_OUT = gauge(
    "pymq_lite_topics_handed_out", "Lite topics with messages that a group got and has not acknowledged."
)


class LiteMetrics:
    """The figures of lite topics. None of them has a lite topic's name: there may be a million."""

    metrics = (TOPICS, TOPICS_MAX, CLIENTS, SUBSCRIPTIONS, DUE, HANDED_OUT)

    def __init__(self, parts: BrokerParts) -> None:
        self._lights = parts.store.lights
        self._config = parts.config
        self._subscriptions = parts.pop.lite_subscriptions
        self._order_infos = parts.metadata.order_infos

    def collect(self) -> Iterator[Family]:
        yield single(TOPICS, self._lights.count)
        yield single(TOPICS_MAX, self._config.lite_topic_count_max)
        yield single(CLIENTS, self._subscriptions.client_count)
        yield single(SUBSCRIPTIONS, self._subscriptions.count)
        yield single(DUE, self._subscriptions.due_count)
        yield single(HANDED_OUT, self._order_infos.light_count)
