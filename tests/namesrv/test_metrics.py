"""Metrics of a name server: brokers online, registered and removed."""

from __future__ import annotations

import pytest

from pymq.clock import ManualClock
from pymq.config import load_namesrv_config
from pymq.namesrv.brokers import HEARTBEAT_TIMEOUT_MS
from pymq.namesrv.metrics import NamesrvMetrics, TableMetrics
from pymq.namesrv.server import NameServer
from tests.broker.metrics.readings import Table, left_out, table
from tests.namesrv.support import identity, report

MASTER, SLAVE = identity(), identity(broker_id=1, port=10921)
OTHER = identity("broker-b", port=10931, cluster="West")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(clock: ManualClock) -> NameServer:
    config = load_namesrv_config(None, {"metricsLabel": "zone:a,rack:7", "metricsOtelCardinalityLimit": "100"})
    return NameServer(clock=clock, config=config)


def figures(server: NameServer) -> Table:
    return table(TableMetrics(server))


def test_brokers_by_cluster(server: NameServer) -> None:
    for broker in (MASTER, SLAVE, OTHER):
        server.table.register(report(broker, "orders", "bills"))
    found = figures(server)
    assert found["pymq_namesrv_brokers"] == {("DefaultCluster",): 2, ("West",): 1}
    assert found["pymq_namesrv_masters"] == {("DefaultCluster",): 1, ("West",): 1}
    assert found["pymq_namesrv_topics"] == {(): 2}
    assert found["pymq_namesrv_registrations_total"] == {(): 3}


def test_how_long_a_broker_has_been_silent(server: NameServer, clock: ManualClock) -> None:
    server.table.register(report(MASTER))
    clock.advance(2500)
    key = ("DefaultCluster", "broker-a", "0", MASTER.address)
    assert figures(server)["pymq_namesrv_broker_silent_seconds"] == {key: 2.5}
    server.table.heartbeat(MASTER.address, None)
    assert figures(server)["pymq_namesrv_broker_silent_seconds"] == {key: 0}


def test_removed_brokers_are_counted_by_reason(server: NameServer, clock: ManualClock) -> None:
    connection = object()
    server.table.register(report(MASTER))
    server.table.unregister(MASTER, None)
    server.table.register(report(OTHER, connection=connection))
    server.table.connection_closed(connection)
    server.table.register(report(SLAVE))
    clock.advance(HEARTBEAT_TIMEOUT_MS + 1)
    server.tick()
    found = figures(server)
    names = ("unregistrations_total", "lost_brokers_total", "expired_brokers_total", "registrations_total")
    assert [found[f"pymq_namesrv_{name}"][()] for name in names] == [1, 1, 1, 3]
    assert found["pymq_namesrv_brokers"] == {}


def test_brokers_over_the_limit_are_left_out_and_counted(server: NameServer) -> None:
    for number in range(101):
        server.table.register(report(identity(f"broker-{number}", port=1000 + number)))
    assert len(figures(server)["pymq_namesrv_broker_silent_seconds"]) == 100
    assert left_out(TableMetrics(server)) == {"pymq_namesrv_broker_silent_seconds": 1}


def test_labels_of_every_line(server: NameServer) -> None:
    server.address = "127.0.0.1:9876"
    assert NamesrvMetrics(server).labels() == {
        "zone": "a",
        "rack": "7",
        "node_id": "127.0.0.1:9876",
        "node_type": "namesrv",
    }
