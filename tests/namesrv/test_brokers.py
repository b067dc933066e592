"""BrokerManager: clusters, names, ids, addresses and liveness."""

from __future__ import annotations

from pymq.clock import ManualClock
from pymq.model.tables import DataVersion
from pymq.namesrv.brokers import BrokerIdentity, BrokerManager, LiveBroker
from tests.namesrv.support import identity


def live(broker: BrokerIdentity, clock: ManualClock, connection: object = None, timeout_ms: int = 1000) -> LiveBroker:
    return LiveBroker(broker, "127.0.0.1:1", DataVersion(), connection, timeout_ms, clock.monotonic_ms(), [])


def test_put_returns_true_for_a_new_id_only() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    assert manager.put(live(identity(), clock), None) is True
    assert manager.put(live(identity(), clock), None) is False
    assert manager.put(live(identity(broker_id=1, port=2), clock), None) is True
    assert manager.all()["broker-a"].broker_addrs == {0: "127.0.0.1:10911", 1: "127.0.0.1:2"}


def test_a_slave_that_becomes_master_keeps_one_entry() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    manager.put(live(identity(broker_id=1), clock), None)
    manager.put(live(identity(broker_id=0), clock), None)
    assert manager.all()["broker-a"].broker_addrs == {0: "127.0.0.1:10911"}


def test_a_name_that_moves_to_another_cluster_leaves_the_first() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    manager.put(live(identity(), clock), None)
    manager.put(live(identity(cluster="Other"), clock), None)
    assert manager.clusters() == {"Other": ["broker-a"]}


def test_removal_empties_name_and_cluster() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    manager.put(live(identity(), clock), None)
    manager.put(live(identity(broker_id=1, port=2), clock), None)
    assert manager.remove(identity()) is False
    assert manager.clusters() == {"DefaultCluster": ["broker-a"]}
    assert manager.remove(identity(broker_id=1, port=2)) is True
    assert (manager.clusters(), manager.all(), len(manager)) == ({}, {}, 0)


def test_the_old_process_leaving_does_not_remove_its_successor() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    manager.put(live(identity(port=1), clock), None)
    manager.put(live(identity(port=2), clock), None)
    manager.remove(identity(port=1))
    assert manager.all()["broker-a"].broker_addrs == {0: "127.0.0.1:2"}


def test_overdue_counts_from_the_last_sign_of_life() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    manager.put(live(identity(), clock), None)
    clock.advance(900)
    assert manager.touch("127.0.0.1:10911") is True
    clock.advance(1000)
    assert manager.overdue() == []
    clock.advance(1)
    assert [broker.identity for broker in manager.overdue()] == [identity()]
    assert manager.touch("127.0.0.1:1") is False


def test_wall_clock_jumps_expire_no_broker() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    manager.put(live(identity(), clock), None)
    clock.set_wall(clock.now_ms() + 10 * 365 * 86_400_000)
    assert manager.overdue() == []
