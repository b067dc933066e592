"""All collectors of a broker, also while it has no parts; their names are legal and distinct."""

from __future__ import annotations

import re
from collections import Counter
from types import SimpleNamespace
from typing import Any

from pymq.broker.metrics.collector import BROKER_METRICS, BrokerMetrics, BrokerState
from pymq.filterserver.metrics import FILTER_SERVER_METRICS
from pymq.metrics.family import MetricKind
from pymq.namesrv.metrics import NAMESRV_METRICS
from pymq.net.server import Server
from pymq.wire.dispatch import Dispatcher
from tests.broker.metrics.readings import table
from tests.broker.world import World

UNITS = {"bytes", "seconds", "milliseconds", "bytes/second"}


def broker(world: World) -> Any:
    """Return as much of a broker as the collectors read."""
    return SimpleNamespace(
        config=world.config,
        parts=world.parts,
        server=Server(Dispatcher([], "broker"), clock=world.clock),
        switch=SimpleNamespace(change_count=2),
        security=SimpleNamespace(audit=None),
        recovery=None,
    )


def test_all_that_a_broker_may_give_comes() -> None:
    world = World()
    world.put("orders")
    given = [table(collector) for collector in BrokerMetrics(broker(world)).collectors()]
    names = [name for each in given for name in each]
    assert len(set(names)) == len(names)
    assert set(names) <= {metric.name for metric in BROKER_METRICS}


def test_a_broker_without_parts_says_so() -> None:
    world = World()
    subject = broker(world)
    subject.parts = None
    collectors = BrokerMetrics(subject).collectors()
    assert len(collectors) == 3
    found = table(collectors[0])
    assert found["pymq_broker_serving"] == {(): 0}
    assert found["pymq_replication_role_changes_total"] == {(): 2}


def test_a_broker_that_has_not_begun_changed_no_role() -> None:
    subject = broker(World())
    subject.switch = None
    assert table(BrokerState(subject))["pymq_replication_role_changes_total"] == {(): 0}


def test_collectors_stay_until_the_parts_are_others() -> None:
    subject = broker(World())
    metrics = BrokerMetrics(subject)
    first = metrics.collectors()[3:]
    assert metrics.collectors()[3:] == first
    subject.parts = World().parts
    assert not set(map(id, metrics.collectors()[3:])) & set(map(id, first))


def test_labels_are_rocketmqs_and_the_operators() -> None:
    world = World(brokerName="b1", brokerClusterName="c1", metricsLabel="zone:a")
    assert BrokerMetrics(broker(world)).labels() == {
        "zone": "a",
        "cluster": "c1",
        "node_id": "b1",
        "node_type": "broker",
    }


def test_names_types_and_units_go_together() -> None:
    for metrics in (BROKER_METRICS, NAMESRV_METRICS, FILTER_SERVER_METRICS):
        assert max(Counter(metric.name for metric in metrics).values()) == 1
        for metric in metrics:
            assert re.fullmatch(r"(pymq|rocketmq)(_[a-z0-9]+)+", metric.name)
            assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER), metric.name
            assert metric.meaning.endswith("."), metric.name
            assert not metric.unit or metric.unit in UNITS
