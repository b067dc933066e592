"""RouteTable: the effect of registrations, silence and closed connections on routes."""

from __future__ import annotations

import pytest

from pymq.clock import ManualClock
from pymq.model.tables import DataVersion
from pymq.namesrv.brokers import HEARTBEAT_TIMEOUT_MAX_MS, HEARTBEAT_TIMEOUT_MS, HOLDER_SILENCE_MAX_MS
from pymq.namesrv.table import RouteTable
from tests.namesrv.support import identity, report


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(clock: ManualClock) -> RouteTable:
    return RouteTable(clock)


def perms(table: RouteTable, topic: str) -> list[int]:
    route = table.route(topic)
    assert route is not None
    return [share.perm for share in route.queue_datas]


def test_a_registered_topic_has_a_route(table: RouteTable) -> None:
    table.register(report(identity(), "T", "U"))
    route = table.route("T")
    assert route is not None
    assert [(s.broker_name, s.read_queue_nums, s.write_queue_nums, s.perm) for s in route.queue_datas] == [
        ("broker-a", 4, 4, 6)
    ]
    assert route.broker_datas[0].broker_addrs == {0: "127.0.0.1:10911"}
    assert (route.filter_server_table, route.order_topic_conf) == ({}, None)
    assert table.route("V") is None


def test_a_single_first_topic_is_accepted(table: RouteTable) -> None:
    table.register(report(identity(), "only"))
    assert table.route("only") is not None
    table.register(report(identity(), "only", "more"))  # the full report of the same version follows
    assert table.route("more") is not None


def test_an_incremental_report_forgets_nothing(table: RouteTable) -> None:
    table.register(report(identity(), "T", "U"))
    table.register(report(identity(), "new", version=2))
    assert table.topics.names() == ["T", "U", "new"]


def test_missing_topics_go_only_when_asked(table: RouteTable) -> None:
    table.register(report(identity(), "T", "U"))
    table.register(report(identity(), "U", version=2), forget_missing_topics=True)
    assert table.topics.names() == ["U"]


def test_an_unchanged_version_keeps_local_changes(table: RouteTable) -> None:
    table.register(report(identity(), "T", "U"))
    assert table.topics.wipe_write("broker-a") == 2
    table.register(report(identity(), "T", "U"))
    assert perms(table, "T") == [4]
    table.register(report(identity(), "T", "U", version=2))
    assert perms(table, "T") == [6]


def test_after_a_restored_permission_the_broker_s_own_ones_come_back(table: RouteTable) -> None:
    table.register(report(identity(), "T", perm=4))
    assert table.add_write_permission("broker-a") == 1
    assert table.add_write_permission("nowhere") == 0
    assert perms(table, "T") == [6]
    assert table.data_version("127.0.0.1:10911") != DataVersion(counter=1), "the broker is asked for its topics"
    table.register(report(identity(), "T", perm=4))
    assert perms(table, "T") == [4]


def test_two_brokers_share_a_topic(table: RouteTable) -> None:
    table.register(report(identity("a", port=1), "T"))
    table.register(report(identity("b", port=2), "T"))
    route = table.route("T")
    assert route is not None
    assert {data.broker_name for data in route.broker_datas} == {"a", "b"}
    assert table.topics_of_cluster("DefaultCluster") == ["T"]
    assert table.topics_of_cluster("nowhere") == []


def test_a_slave_learns_its_master_and_adds_no_topics(table: RouteTable) -> None:
    table.register(report(identity(), "T", ha_address="127.0.0.1:10912"))
    master = table.register(report(identity(broker_id=1, port=2), "T", "slave-only"))
    assert (master.address, master.ha_address) == ("127.0.0.1:10911", "127.0.0.1:10912")
    assert table.topics.names() == ["T"]
    route = table.route("T")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: "127.0.0.1:10911", 1: "127.0.0.1:2"}


def test_a_lone_slave_acts_as_master_only_if_it_announces_so(table: RouteTable) -> None:
    table.register(report(identity(broker_id=1), "old"))
    assert table.topics.names() == []
    table.register(report(identity(broker_id=1), "new", version=2, acting_master=True))
    assert perms(table, "new") == [4]


def test_an_acting_master_replaces_a_lost_one(table: RouteTable) -> None:
    table.register(report(identity(), "T", acting_master=True))
    table.register(report(identity(broker_id=2, port=3), "T", acting_master=True))
    table.register(report(identity(broker_id=1, port=2), "T", acting_master=True))
    table.unregister(identity(), None)
    plain, promoted = table.route("T"), table.route("T", acting_master=True)
    assert plain is not None
    assert promoted is not None
    assert perms(table, "T") == [4]
    assert plain.broker_datas[0].broker_addrs == {1: "127.0.0.1:2", 2: "127.0.0.1:3"}
    assert promoted.broker_datas[0].broker_addrs == {0: "127.0.0.1:2", 2: "127.0.0.1:3"}


def test_a_silent_broker_expires(table: RouteTable, clock: ManualClock) -> None:
    table.register(report(identity(), "T"))
    clock.advance(HEARTBEAT_TIMEOUT_MS)
    assert table.expire() == []
    assert table.heartbeat("127.0.0.1:10911", None) is True
    clock.advance(HEARTBEAT_TIMEOUT_MS)
    assert table.expire() == []
    clock.advance(1)
    assert table.expire() == [identity()]
    assert table.route("T") is None
    assert table.heartbeat("127.0.0.1:10911", None) is False


def test_a_broker_may_name_its_own_timeout_within_bounds(table: RouteTable, clock: ManualClock) -> None:
    table.register(report(identity("quick", port=1), "T", timeout_ms=2000))
    table.register(report(identity("slow", port=2), "T", timeout_ms=10**15))
    clock.advance(2001)
    assert table.expire() == [identity("quick", port=1)]
    clock.advance(HEARTBEAT_TIMEOUT_MAX_MS)
    assert table.expire() == [identity("slow", port=2)]


def test_a_closed_connection_removes_its_brokers_at_once(table: RouteTable) -> None:
    first, second = object(), object()
    table.register(report(identity("a", port=1), "T", connection=first))
    table.register(report(identity("b", port=2), "T", connection=second))
    assert table.connection_closed(first) == [identity("a", port=1)]
    route = table.route("T")
    assert route is not None
    assert [data.broker_name for data in route.broker_datas] == ["b"]
    assert table.connection_closed(first) == []


def test_a_registration_ends_with_the_last_of_its_connections(table: RouteTable) -> None:
    first, second = object(), object()
    table.register(report(identity(), "T", connection=first))
    table.register(report(identity(), "T", connection=second))
    assert table.connection_closed(first) == []
    assert table.route("T") is not None
    assert table.connection_closed(second) == [identity()]
    assert table.route("T") is None


def test_another_connection_that_comes_and_goes_changes_nothing(table: RouteTable) -> None:
    table.register(report(identity(), "T", connection="own", ha_address="127.0.0.1:10912"))
    changed = report(identity(), "T", "U", version=2, perm=4, connection="other", ha_address="127.0.0.1:1", epoch=7)
    assert table.problem(changed) == ""
    table.register(changed)
    assert perms(table, "T") == [6]
    assert table.topics.names() == ["T"]
    live = table.brokers.live("127.0.0.1:10911")
    assert live is not None and (live.ha_address, live.epoch) == ("127.0.0.1:10912", 0)
    assert table.connection_closed("other") == []
    assert perms(table, "T") == [6]


def test_an_heir_takes_the_registration_over_whole(table: RouteTable) -> None:
    table.register(report(identity(), "T", connection="old"))
    table.register(report(identity(), "T", perm=4, connection="new"))
    table.connection_closed("old")
    assert perms(table, "T") == [6]
    table.register(report(identity(), "T", perm=4, connection="new"))
    assert perms(table, "T") == [4], "the version is the same, but it is another process now"


def test_a_stranger_unregisters_no_living_broker(table: RouteTable, clock: ManualClock) -> None:
    table.register(report(identity(), "T", connection="own"))
    owner = table.unregister(identity(), "stranger")
    assert owner is not None and owner.identity == identity()
    assert table.route("T") is not None
    assert table.unregistration_count == 0
    clock.advance(HOLDER_SILENCE_MAX_MS + 1)
    assert table.unregister(identity(), "stranger") is None
    assert table.route("T") is None


def test_only_the_connections_of_a_broker_keep_it_alive(table: RouteTable, clock: ManualClock) -> None:
    table.register(report(identity(), "T", connection="own"))
    clock.advance(HEARTBEAT_TIMEOUT_MS)
    assert table.heartbeat("127.0.0.1:10911", "stranger") is False
    clock.advance(1)
    assert table.expire() == [identity()]


def test_a_slave_moves_neither_cluster_nor_acting_master_of_its_group(table: RouteTable) -> None:
    table.register(report(identity(), "T", connection="master", acting_master=True))
    slave = identity(broker_id=7, port=2)
    table.register(report(slave, "T", connection="slave"))
    data = table.brokers.get("broker-a")
    assert data is not None and data.enable_acting_master


def test_an_address_that_changes_its_name_leaves_no_trace(table: RouteTable) -> None:
    table.register(report(identity("a"), "T"))
    table.register(report(identity("b"), "U"))
    assert table.topics.names() == ["U"]
    assert table.brokers.clusters() == {"DefaultCluster": ["b"]}


def test_an_address_that_changes_its_cluster_survives(table: RouteTable, clock: ManualClock) -> None:
    table.register(report(identity(), "T"))
    table.register(report(identity(cluster="Other"), "T"))
    clock.advance(HEARTBEAT_TIMEOUT_MS)
    assert table.expire() == []
    assert table.brokers.clusters() == {"Other": ["broker-a"]}
    assert table.route("T") is not None


def test_filter_servers_come_with_the_route_and_leave_when_empty(table: RouteTable) -> None:
    table.register(report(identity(), "T", filter_servers=["127.0.0.1:7"]))
    route = table.route("T")
    assert route is not None
    assert route.filter_server_table == {"127.0.0.1:10911": ["127.0.0.1:7"]}
    table.register(report(identity(), "T"))
    again = table.route("T")
    assert again is not None
    assert again.filter_server_table == {}


def test_a_route_is_a_copy(table: RouteTable) -> None:
    table.register(report(identity(), "T"))
    route = table.route("T")
    assert route is not None
    route.broker_datas[0].broker_addrs.clear()
    again = table.route("T")
    assert again is not None
    assert again.broker_datas[0].broker_addrs == {0: "127.0.0.1:10911"}


def test_deleting_a_topic_in_one_cluster(table: RouteTable) -> None:
    table.register(report(identity("a", port=1), "T"))
    table.register(report(identity("b", port=2, cluster="Other"), "T"))
    table.delete_topic("T", "nowhere")
    assert len(table.topics.queues("T")) == 2
    table.delete_topic("T", "Other")
    assert [share.broker_name for share in table.topics.queues("T")] == ["a"]
    table.delete_topic("T")
    assert table.route("T") is None


def test_system_topics_are_the_names_of_clusters_and_brokers(table: RouteTable) -> None:
    assert table.system_topics() == ([], None)
    table.register(report(identity(), "T"))
    assert table.system_topics() == (["DefaultCluster", "broker-a"], "127.0.0.1:10911")


def test_member_group_and_data_version(table: RouteTable) -> None:
    table.register(report(identity(), "T", version=7))
    assert table.data_version("127.0.0.1:10911") == DataVersion(counter=7)
    assert table.data_version("127.0.0.1:1") is None
    group = table.member_group("broker-a")
    assert group is not None
    assert group.broker_addrs == {0: "127.0.0.1:10911"}
    assert table.member_group("unknown") is None
