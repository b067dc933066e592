"""Each check of the doctor on made-up cluster states: what it finds, and that it finds nothing on a sound cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from pymq import __version__
from pymq.client.admin.machines import Place, place_table
from pymq.errors import UsageError
from pymq.model.route import BrokerData
from pymq.model.tables import TopicConfig
from pymq.operations.doctor import (
    groups,
    lites,
    machines,
    name_servers,
    permissions,
    ports,
    replication,
    routes,
    versions,
    workers,
)
from pymq.operations.doctor.finding import Check, Finding, Severity, problem
from pymq.operations.doctor.gather import registered, skew
from pymq.operations.doctor.registry import OWN_CHECKS, all_checks, chosen, run_checks, worst
from pymq.operations.doctor.state import Broker, ClusterState, Group, NameServer, Port, Skew
from pymq.operations.replica_view import BrokerView
from pymq.wire.bodies_admin import TopicLag
from pymq.wire.bodies_lites import BrokerLites
from pymq.wire.bodies_raft import RaftGroupState
from pymq.wire.bodies_replication import HaClientState, ReplicationStatus, SlaveState

RUNTIME = {
    "brokerVersionDesc": "V5_3_3",
    "pymqVersion": __version__,
    "pymqOpenFiles": "100",
    "pymqOpenFilesMax": "65536",
    "commitLogDiskRatio": "0.4",
    "commitLogDirCapacity": "Total : 91.1 GB, Free : 71.9 GB.",
}
CONFIG = {"brokerPermission": "6", "diskSpaceWarningLevelRatio": "90", "diskMaxUsedSpaceRatio": "75"}


def broker(name: str = "broker-a", broker_id: int = 0, address: str = "10.0.0.1:10911", **status: Any) -> Broker:
    role = "SLAVE" if broker_id else "ASYNC_MASTER"
    made = ReplicationStatus(
        cluster="east", broker_name=name, broker_id=broker_id, role=role, address=address, **status
    )
    view = BrokerView("east", name, broker_id, address, made, dict(RUNTIME))
    topics = {"orders": TopicConfig(topic_name="orders")} if not broker_id else None
    return Broker(view, dict(CONFIG), topics, Skew(-5, 5), [Port("listen", address)])


def silent(name: str = "broker-a", broker_id: int = 0, address: str = "10.0.0.1:10911", refused: str = "") -> Broker:
    view = BrokerView("east", name, broker_id, address, error="no answer in time")
    return Broker(view, ports=[Port("listen", address, refused)])


def name_server(address: str, brokers: Iterable[Broker], *topics: str) -> NameServer:
    table: dict[str, BrokerData] = {}
    for one in brokers:
        data = table.setdefault(one.view.name, BrokerData(cluster="east", broker_name=one.view.name, broker_addrs={}))
        data.broker_addrs[one.view.broker_id] = one.view.address
    return NameServer(address, table, frozenset({"orders", *topics}))


def cluster(*brokers: Broker, **parts: Any) -> ClusterState:
    """Return a state with a slave besides the brokers, unless they are given: a sound cluster."""
    members = list(brokers or (broker(), broker(broker_id=1, address="10.0.0.2:10911", ha_client=following())))
    server = name_server("10.0.0.9:9876", members)
    return ClusterState(**{"now_ms": 1, "name_servers": [server], "brokers": members, **parts})


def following() -> HaClientState:
    return HaClientState(state="following")


def group(lag: int = 5, members: int | None = 1, taken: int | None = None, **parts: Any) -> Group:
    lags = {"orders": TopicLag(queues=1, lag=lag, committed=100 - lag)}
    later = None if taken is None else {"orders": TopicLag(queues=1, lag=lag, committed=100 - lag + taken)}
    return Group("g", members, lags=lags, later=later, **{"differing": {}, **parts})


def only(findings: Iterable[Finding]) -> Finding:
    (found,) = findings
    assert found.severity is Severity.UNKNOWN or found.next_step or found.severity is Severity.NOTE
    return found


def test_a_group_whose_members_are_not_known_is_not_called_off_line() -> None:
    found = only(groups.check_stuck_groups(cluster(groups=[group(members=None, error="they may not be seen")])))
    assert found.severity is Severity.UNKNOWN and "they may not be seen" in found.text
    moving = group(members=None, taken=60)
    found = only(groups.check_stuck_groups(cluster(groups=[moving], observed_ms=6000)))
    assert found.severity is Severity.NOTE and "takes 10 a second" in found.text
    found = only(groups.check_stuck_groups(cluster(groups=[group(members=None, taken=0)], observed_ms=6000)))
    assert found.severity is Severity.PROBLEM and "how many members are online is not known" in found.text


def test_a_group_on_a_broker_that_reports_no_committed_offsets_is_not_called_stuck() -> None:
    found = group()
    found.lags = found.later = {"orders": TopicLag(queues=1, lag=5)}
    state = cluster(groups=[found], observed_ms=6000)
    behind = only(groups.check_stuck_groups(state))
    assert (behind.severity, behind.values["taken"]) == (Severity.NOTE, None)
    assert "update the brokers" in behind.next_step


def test_a_broker_that_name_servers_forgot_is_found_by_the_context_and_by_an_order_configuration() -> None:
    missed = only(routes.check_missing_brokers(cluster(missing={"broker-b": "the context names it"})))
    assert (missed.severity, missed.subject) == (Severity.PROBLEM, "broker-b")
    ordered = only(
        routes.check_missing_brokers(cluster(ordered={"orders": "broker-a:4; broker-b:8;", "fine": "broker-a:1"}))
    )
    assert (ordered.subject, ordered.values["brokers"]) == ("orders", ["broker-b"])


def test_a_sound_cluster_has_no_finding() -> None:
    assert run_checks(OWN_CHECKS, cluster(groups=[group(lag=0)])) == []


def test_a_silent_name_server_is_a_problem() -> None:
    state = cluster(name_servers=[NameServer("10.0.0.9:9876", error="no connection")])
    found = only(name_servers.check_name_servers(state))
    assert found.severity is Severity.PROBLEM
    assert "no connection" in found.text
    assert not state.is_reachable


def test_name_servers_that_list_other_brokers_or_topics_disagree() -> None:
    first, moved = broker(), broker(address="10.0.0.7:10911")
    full = name_server("10.0.0.8:9876", [first], "extra")
    found = list(name_servers.check_agreement(cluster(first, name_servers=[full, NameServer("10.0.0.9:9876")])))
    assert [(one.subject, one.severity) for one in found] == [("10.0.0.9:9876", Severity.WARNING)]
    assert found[0].values["expected"] == "10.0.0.1:10911"
    lacking = only(name_servers.check_agreement(cluster(name_servers=[full, name_server("10.0.0.9:9876", [first])])))
    assert lacking.values == {"missing": ["extra"]}
    other = name_server("10.0.0.9:9876", [moved], "extra")
    found = list(name_servers.check_agreement(cluster(first, name_servers=[full, other])))
    assert "10.0.0.1:10911 instead of 10.0.0.7:10911" in found[0].text
    assert len(registered([full, other])) == 2, "both addresses are asked"


def test_without_a_broker_there_is_a_problem() -> None:
    state = ClusterState(1, [NameServer("10.0.0.9:9876")])
    assert only(routes.check_brokers(state)).severity is Severity.PROBLEM


def test_topics_of_brokers_and_name_servers_must_be_the_same() -> None:
    state = cluster(broker())
    state.brokers[0].topics = {"orders": TopicConfig(topic_name="orders"), "lost": TopicConfig(topic_name="lost")}
    assert only(routes.check_routes(state)).values == {"topics": ["lost"]}
    state = cluster(broker())
    state.name_servers[0].topics |= {"ghost", "east", "broker-a"}
    found = only(routes.check_routes(state))
    assert (found.severity, found.values) == (Severity.WARNING, {"topics": ["ghost"]})
    state.brokers.append(silent("broker-b"))
    assert list(routes.check_routes(state)) == [], "the silent broker may have it"


@pytest.mark.parametrize(
    ("write", "read", "severity"), [(8, 4, Severity.PROBLEM), (4, 8, Severity.NOTE)], ids=["hidden", "shrinking"]
)
def test_queue_numbers_that_differ_are_found(write: int, read: int, severity: Severity) -> None:
    state = cluster(broker())
    config = TopicConfig(topic_name="orders", write_queue_nums=write, read_queue_nums=read)
    state.brokers[0].topics = {"orders": config}
    found = only(routes.check_queues(state))
    assert (found.severity, found.values) == (severity, {"write_queues": write, "read_queues": read})


def test_an_advertised_address_that_clients_cannot_reach_is_a_problem() -> None:
    refused = only(ports.check_addresses(cluster(silent(refused="Connection refused"))))
    assert "can't be connected" in refused.text and "brokerIP1=10.0.0.1" in refused.next_step
    hung = only(ports.check_addresses(cluster(silent())))
    assert "takes connections and does not answer" in hung.text
    local = only(ports.check_addresses(cluster(broker(address="127.0.0.1:10911"))))
    assert "set brokerIP1" in local.next_step
    here = cluster(broker(address="127.0.0.1:10911"))
    here.name_servers[0].address = "localhost:9876"
    assert list(ports.check_addresses(here)) == [], "all on one machine"


@pytest.mark.parametrize(
    ("port", "severity"),
    [
        ("listen", Severity.PROBLEM),
        ("ha", Severity.PROBLEM),
        ("metrics", Severity.WARNING),
        ("listen-2", Severity.NOTE),
    ],
)
def test_closed_ports_are_found_by_their_use(port: str, severity: Severity) -> None:
    state = cluster(broker())
    state.brokers[0].ports = [Port("listen", "10.0.0.1:10911"), Port(port, "10.0.0.1:1", "Connection refused")]
    found = only(ports.check_ports(state))
    assert (found.severity, found.values["port"]) == (severity, port)


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "severity"),
    [
        (-400, 600, None),
        (999, 1998, None),
        (1000, 1999, Severity.WARNING),
        (-31_000, -30_000, Severity.PROBLEM),
        (86_400_000, 86_400_999, Severity.PROBLEM),
    ],
)
def test_clocks_may_differ_by_less_than_a_second(low_ms: int, high_ms: int, severity: Severity | None) -> None:
    state = cluster(broker())
    state.brokers[0].skew = Skew(low_ms, high_ms)
    assert [one.severity for one in machines.check_clocks(state)] == ([severity] if severity else [])


def test_the_time_of_a_broker_comes_from_its_runtime_table() -> None:
    assert skew({"pymqTimeMs": "5000"}, 4000, 4100) == Skew(900, 1000)
    java = {"bootTimestamp": "1000", "runtime": "[ 1 days, 1 hours, 1 minutes, 2 seconds ]"}
    at_ms = 1000 + (86_400 + 3600 + 60 + 2) * 1000
    assert skew(java, at_ms, at_ms + 10) == Skew(-10, 999)
    assert skew({"bootTimestamp": "1000"}, 1, 2) is None
    state = cluster(broker())
    state.brokers[0].skew = None
    assert only(machines.check_clocks(state)).severity is Severity.UNKNOWN


@pytest.mark.parametrize(
    ("ratio", "severity"),
    [
        ("0.74", None),
        ("0.76", Severity.WARNING),
        ("0.82", Severity.WARNING),
        ("0.9", Severity.PROBLEM),
        ("-1", Severity.UNKNOWN),
        ("", Severity.UNKNOWN),
    ],
)
def test_disks_are_judged_by_the_broker_s_own_levels(ratio: str, severity: Severity | None) -> None:
    state = cluster(broker())
    state.brokers[0].view.runtime["commitLogDiskRatio"] = ratio
    assert [one.severity for one in machines.check_disks(state)] == ([severity] if severity else [])


def test_a_disk_without_levels_is_never_a_problem() -> None:
    state = cluster(broker())
    state.brokers[0].config = None
    state.brokers[0].view.runtime["commitLogDiskRatio"] = "0.99"
    assert list(machines.check_disks(state)) == []


@pytest.mark.parametrize(
    ("used", "most", "severity"),
    [
        ("49151", "65536", None),
        ("49152", "65536", Severity.PROBLEM),
        ("10", "1024", Severity.WARNING),
        ("", "", Severity.UNKNOWN),
    ],
)
def test_file_descriptors_that_run_out_are_found(used: str, most: str, severity: Severity | None) -> None:
    state = cluster(broker())
    state.brokers[0].view.runtime |= {"pymqOpenFiles": used, "pymqOpenFilesMax": most}
    assert [one.severity for one in machines.check_files(state)] == ([severity] if severity else [])


def test_missing_permissions_are_found() -> None:
    state = cluster(broker())
    assert state.brokers[0].config is not None and state.brokers[0].topics is not None
    state.brokers[0].config["brokerPermission"] = "4"
    state.brokers[0].topics["orders"] = TopicConfig(topic_name="orders", perm=2)
    state.brokers[0].topics["rmq_sys_own"] = TopicConfig(topic_name="rmq_sys_own", perm=1)
    state.brokers[0].topics["%DLQ%g"] = TopicConfig(topic_name="%DLQ%g", perm=2)
    drained, write_only = permissions.check_permissions(state)
    assert (drained.severity, drained.values) == (Severity.WARNING, {"permission": 4})
    assert "may not write" in drained.text
    assert (write_only.severity, write_only.subject) == (Severity.NOTE, "orders on broker-a")


def test_types_that_the_broker_does_not_check_are_a_warning() -> None:
    state = cluster(broker())
    assert state.brokers[0].config is not None and state.brokers[0].topics is not None
    for name, kind in (("d", "DELAY"), ("a", "FIFO"), ("c", "FIFO"), ("b", "NORMAL"), ("m", "MIXED")):
        state.brokers[0].topics[name] = TopicConfig(topic_name=name, attributes={"message.type": kind})
    assert not list(permissions.check_types(state)), "RocketMQ's brokers have no such setting"
    state.brokers[0].config[permissions.TYPE_CHECK] = "false"
    found = only(permissions.check_types(state))
    assert (found.severity, found.values) == (Severity.WARNING, {"topics": ["a", "b", "c", "d"]})
    assert "a, b, c, …" in found.text
    state.brokers[0].config[permissions.TYPE_CHECK] = "true"
    assert not list(permissions.check_types(state))


def test_members_that_subscribe_differently_are_a_problem() -> None:
    differing = group(differing={"orders": {"A": 1, "B": 2}})
    found = only(groups.check_subscriptions(cluster(groups=[differing])))
    assert found.severity is Severity.PROBLEM
    assert "'A' by 1, 'B' by 2" in found.text
    unknown = group(differing=None, error="no answer")
    assert only(groups.check_subscriptions(cluster(groups=[unknown]))).severity is Severity.UNKNOWN


@pytest.mark.parametrize(
    ("one", "severity", "text"),
    [
        (group(taken=0), Severity.PROBLEM, "is stuck"),
        (group(taken=3), Severity.NOTE, "takes 3 a second"),
        (group(), Severity.NOTE, "was not observed"),
        (group(members=0), Severity.WARNING, "no member is online"),
        (group(is_enabled=False), Severity.WARNING, "may not consume"),
        (group(taken=-5), Severity.PROBLEM, "is stuck"),
    ],
    ids=["stuck", "moving", "unobserved", "offline", "disabled", "moved back"],
)
def test_a_group_that_is_behind_is_judged_by_its_progress(one: Group, severity: Severity, text: str) -> None:
    found = only(groups.check_stuck_groups(cluster(groups=[one], observed_ms=1000)))
    assert found.severity is severity
    assert text in found.text
    assert found.values["lag"] == 5


def test_what_a_broker_did_not_answer_is_not_known() -> None:
    state = cluster(broker(), places_unknown={"10.0.0.1:10911": "too many queues"})
    state.brokers[0].topics, state.brokers[0].config = None, None
    for check in (routes.check_routes, permissions.check_permissions, groups.check_stuck_groups):
        assert only(check(state)).severity is Severity.UNKNOWN
    assert "too many queues" in only(groups.check_stuck_groups(state)).text


def test_a_group_of_brokers_needs_one_master() -> None:
    leaderless = only(replication.check_masters(cluster(broker(broker_id=1))))
    assert "pymq broker promote broker-a" in leaderless.next_step
    two = only(replication.check_masters(cluster(broker(), broker(address="10.0.0.2:10911"))))
    assert "2 masters" in two.text


def test_slow_builds_of_python_are_named() -> None:
    def found(text: str) -> list[Finding]:
        made = broker()
        made.view.runtime["pymqPython"] = text
        return list(machines.check_interpreters(cluster(made)))

    assert not found("3.13.0, LTO") and not found("3.11.2") and not list(machines.check_interpreters(cluster()))
    assert only(found("3.11.7, no LTO")).severity is Severity.NOTE
    assert only(found("3.13.0, debug build")).severity is Severity.WARNING


def lite_broker(count: int = 0, settings: dict[str, str] | None = None, version: int = 1, **topics: str) -> Broker:
    """Return a master with topics of these types, which has room for 100 lite topics."""
    made = broker()
    made.topics = {
        name: TopicConfig(topic_name=name, attributes={"message.type": kind}) for name, kind in topics.items()
    }
    made.config = settings or {}
    made.lites = BrokerLites(
        store_type="default", max_lmq_num=100, current_lmq_num=count, cq_table_size=count, topic_meta={}
    )
    assert made.view.status is not None
    made.view.status.protocol_version = version
    return made


def test_lite_topics_need_room_and_on_rocketmq_their_settings() -> None:
    assert not list(lites.check_lites(cluster(lite_broker(89, P="LITE"))))
    nearly = only(lites.check_lites(cluster(lite_broker(90, P="LITE"))))
    assert (nearly.severity, nearly.values) == (Severity.WARNING, {"lite_topics": 90, "limit": 100})
    full = only(lites.check_lites(cluster(lite_broker(100, P="LITE"))))
    assert full.severity is Severity.PROBLEM and "sends to new ones are refused" in full.text
    off = {"enableLmq": "false", "enableMultiDispatch": "true"}
    assert not list(lites.check_lites(cluster(lite_broker(0, off, P="LITE"))))
    assert not list(lites.check_lites(cluster(lite_broker(0, off, 0, P="NORMAL"))))
    silent = only(lites.check_lites(cluster(lite_broker(0, off, 0, P="LITE"))))
    assert silent.severity is Severity.PROBLEM and silent.next_step.startswith("set enableLmq=true in its broker.conf")


def test_a_group_of_lite_topics_needs_its_parent() -> None:
    bound = group(0, lite_parent="P")
    assert not list(lites.check_lites(cluster(lite_broker(P="LITE"), groups=[bound])))
    missing = only(lites.check_lites(cluster(lite_broker(Q="LITE"), groups=[bound])))
    assert (missing.subject, missing.severity) == ("g", Severity.PROBLEM) and "no broker has that topic" in missing.text
    wrong = only(lites.check_lites(cluster(lite_broker(P="NORMAL"), groups=[bound])))
    assert "not of type LITE" in wrong.text
    assert not list(lites.check_lites(cluster(lite_broker(), silent("b"), groups=[bound]))), "another may have it"


def worker(number: int, broker_id: int = 0, host: str = "10.0.0.1", count: int = 3) -> Broker:
    made = broker(f"m-{number}", broker_id, f"{host}:{10911 + 10 * number}")
    made.view.runtime |= place_table(Place("m", number, count))
    return made


def test_workers_that_do_not_answer_are_found() -> None:
    assert not list(workers.check_workers(cluster()))
    masters = [worker(number) for number in range(3)]
    slaves = [worker(number, 1, "10.0.0.2") for number in range(3)]
    assert not list(workers.check_workers(cluster(*masters, *slaves)))
    found = only(workers.check_workers(cluster(*masters, slaves[2], silent("m-0", 1, "10.0.0.2:10911"))))
    assert (found.subject, found.text) == ("m", "workers 0, 1 of 3 at 10.0.0.2 do not answer")
    assert found.values == {"missing": [0, 1], "workers": 3} and "SIGHUP" in found.next_step
    assert only(workers.check_workers(cluster(*masters[:2]))).text == "worker 2 of 3 at 10.0.0.1 does not answer"


def test_members_of_raft_groups_are_looked_for_by_machine_and_not_by_id() -> None:
    raft = RaftGroupState(node="n0", disk_id="d", role="leader", term=1)
    members = [worker(0), worker(1, 1), worker(2), worker(0, 1, "10.0.0.2"), worker(1, 0, "10.0.0.2")]
    for one in members:
        assert one.view.status is not None
        one.view.status.raft = raft
    assert only(workers.check_workers(cluster(*members))).text == "worker 2 of 3 at 10.0.0.2 does not answer"


def test_under_replication_is_found() -> None:
    master = broker(required_slaves=2, in_sync_slaves=1, slaves=[SlaveState(address="h:1", state="connected")])
    found = only(replication.check_replication(cluster(master)))
    assert (found.severity, found.values) == (Severity.PROBLEM, {"in_sync": 1, "required": 2})
    alone = only(replication.check_replication(cluster(broker())))
    assert (alone.severity, alone.text) == (Severity.NOTE, "has no slave: what its disk loses is lost")


def test_a_slave_without_a_proof_is_a_warning() -> None:
    slave = SlaveState(address="10.0.0.9:7", state="following", is_unproven=True)
    found = only(replication.check_replication(cluster(broker(slaves=[slave]))))
    assert (found.severity, found.values) == (Severity.WARNING, {"slaves": ["10.0.0.9:7"]})


def test_a_slave_that_is_behind_and_one_that_does_not_follow_are_found() -> None:
    state = SlaveState(address="10.0.0.2:7", broker_id=1, lag_bytes=5000, state="connected")
    master = broker(slaves=[state], log_end=9000)
    behind = broker(broker_id=1, address="10.0.0.2:10911", ha_client=following())
    assert behind.view.status is not None
    found = only(replication.check_replication(cluster(master, behind)))
    assert (found.severity, found.values["lag_bytes"]) == (Severity.WARNING, 5000)
    behind.view.status.ha_client = HaClientState(state="refused", problem="another cluster")
    found_twice = list(replication.check_replication(cluster(master, behind)))
    assert [one.text for one in found_twice] == ["is not in sync: 4.9 KB behind its master", "another cluster"]


def test_versions_that_differ_are_noted() -> None:
    java = broker("broker-b", address="10.0.0.3:10911")
    del java.view.runtime["pymqVersion"]
    found = only(versions.check_versions(cluster(broker(), java)))
    assert found.values["versions"] == {f"PyMQ {__version__}": ["broker-a"], "RocketMQ V5_3_3": ["broker-b"]}
    older = broker()
    older.view.runtime["pymqVersion"] = "0.0.9"
    assert "0.0.9" in only(versions.check_versions(cluster(older))).text
    older.view.runtime = {}
    assert only(versions.check_versions(cluster(older))).severity is Severity.UNKNOWN


class Entry:
    """An entry point of a package."""

    name = "acme"

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    def load(self) -> Any:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


def test_packages_add_checks_and_a_broken_one_is_shown_as_not_known() -> None:
    mine = Check("racks", "Is each rack there?", lambda _: [problem("rack 1", "is gone", "look for it")])
    entries: list[Any] = [Entry(mine), Entry([mine._replace(name="rooms")]), Entry(ImportError("no acme"))]
    checks = all_checks(lambda: entries)
    assert [check.name for check in checks[len(OWN_CHECKS) :]] == ["racks", "rooms", "acme"]
    found = run_checks(checks, cluster())
    assert [(name, one.severity) for name, one in found] == [
        ("racks", Severity.PROBLEM),
        ("rooms", Severity.PROBLEM),
        ("acme", Severity.UNKNOWN),
    ]
    assert worst(one for _, one in found) is Severity.PROBLEM
    assert worst([]) is None


def test_a_check_that_fails_is_not_known() -> None:
    def broken(state: ClusterState) -> Iterable[Finding]:
        raise KeyError(state.now_ms)

    ((name, found),) = run_checks([Check("broken", "", broken)], cluster())
    assert (name, found.severity) == ("broken", Severity.UNKNOWN)


def test_checks_are_chosen_by_name() -> None:
    checks = list(OWN_CHECKS)
    assert [check.name for check in chosen(checks, ["stuck", "disk"])] == ["stuck", "disk"]
    assert chosen(checks, []) == checks
    with pytest.raises(UsageError, match=r"no check 'dsk': there are name-servers"):
        chosen(checks, ["dsk"])
