"""BrokerManager: clusters, names, ids, addresses and liveness."""

from __future__ import annotations

from pymq.clock import ManualClock
from pymq.model.tables import DataVersion
from pymq.namesrv.brokers import HOLDER_SILENCE_MAX_MS, LEFT_ADDRESSES_MAX, BrokerManager
from pymq.namesrv.registration import STANDBY_COUNT_MAX, BrokerIdentity, LiveBroker
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
    assert manager.touch("127.0.0.1:10911", None) is True
    clock.advance(1000)
    assert manager.overdue() == []
    clock.advance(1)
    assert [broker.identity for broker in manager.overdue()] == [identity()]
    assert manager.touch("127.0.0.1:1", None) is False


def test_wall_clock_jumps_expire_no_broker() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    manager.put(live(identity(), clock), None)
    clock.set_wall(clock.now_ms() + 10 * 365 * 86_400_000)
    assert manager.overdue() == []


def test_standbys_inherit_in_their_order() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    broker = live(identity(), clock, connection="first")
    manager.put(broker, None)
    for name in ("second", "third"):
        manager.add_standby(broker.identity.address, name)
    assert manager.of_connection("third") == [broker]
    assert manager.leave(broker, "first") is False
    assert broker.connection == "second"
    assert manager.leave(broker, "third") is False
    assert manager.leave(broker, "second") is True


def test_a_silent_standby_inherits_nothing() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    broker = live(identity(), clock, connection="first")
    manager.put(broker, None)
    manager.add_standby(broker.identity.address, "second")
    clock.advance(HOLDER_SILENCE_MAX_MS + 1)
    assert manager.leave(broker, "first") is True


def test_the_youngest_standby_gives_way() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    broker = live(identity(), clock, connection="first")
    manager.put(broker, None)
    for number in range(STANDBY_COUNT_MAX + 2):
        manager.add_standby(broker.identity.address, number)
    kept = [standby.connection for standby in broker.standbys]
    assert kept == [*range(STANDBY_COUNT_MAX - 1), STANDBY_COUNT_MAX + 1]


def test_the_oldest_left_address_is_forgotten_first() -> None:
    clock = ManualClock()
    manager = BrokerManager(clock)
    for port in range(1, LEFT_ADDRESSES_MAX + 2):
        manager.put(live(identity(port=port), clock), None)
        manager.remove(identity(port=port))
    assert manager.kept_for_host("127.0.0.1:1") is None
    assert manager.kept_for_host("127.0.0.1:2") == ""
