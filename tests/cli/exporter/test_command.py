"""``pymq exporter``: metrics of made-up and of real brokers, under PyMQ's names and under the old exporter's."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.request
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pymq.broker.metrics.collector import BROKER_METRICS as SERVED_BY_BROKERS
from pymq.cli.exporter.names import Names
from pymq.cli.exporter.old_names import OldNames
from pymq.cli.exporter.own_names import BROKER_METRICS, NAMESRV_METRICS, OwnNames, of_brokers
from pymq.cli.exporter.serve import View, keep_collecting
from pymq.client.admin import Admin
from pymq.clock import ManualClock
from pymq.errors import EXIT_OK
from pymq.metrics.exposition import slices
from pymq.namesrv.metrics import NAMESRV_METRICS as SERVED_BY_NAME_SERVERS
from pymq.operations.facts import BrokerFacts, Facts, FactsCollector, Place
from pymq.operations.replica_view import BrokerView
from pymq.testing.standalone import StandaloneProcess
from pymq.wire.bodies_admin import (
    Connection,
    ConsumerConnections,
    ConsumerRunningInfo,
    ProducerInfo,
    StatsData,
    StatsWindow,
)
from pymq.wire.bodies_replication import HaClientState, ReplicationStatus, SlaveState
from tests.cli.common.test_servers import first_line, process
from tests.cli.conftest import Pymq
from tests.machine import NOWHERE

DOCS = Path(__file__).parents[3] / "docs"
HOSTILE = 'a"b\\c\nd'
DEADLINE_S = 60.0
PAUSE_S = 0.1
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def text_of(view: View) -> str:
    return b"".join(slices(view.collectors(), view.labels(), lambda: 0.0)).decode()


def series(text: str) -> Series:
    """Return the values by name and labels, as Prometheus' own parser reads them; none may come twice."""
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            key = (one.name, frozenset(one.labels.items()))
            assert key not in found, key
            found[key] = one.value
    return found


def value(found: Series, name: str, **labels: str) -> float:
    (only,) = [each for (own, pairs), each in found.items() if own == name and labels.items() <= set(pairs)]
    return only


def broker(broker_id: int = 0, **runtime: str) -> BrokerFacts:
    status = ReplicationStatus(
        cluster="east",
        broker_name="broker-a",
        broker_id=broker_id,
        role="SLAVE" if broker_id else "SYNC_MASTER",
        address=f"h:{broker_id}",
        required_slaves=1,
        slaves=[] if broker_id else [SlaveState(address="h:9", broker_id=1, lag_bytes=70, state="following")],
        ha_client=HaClientState(state="connected") if broker_id else None,
    )
    return BrokerFacts(BrokerView("east", "broker-a", broker_id, f"h:{broker_id}", status, runtime), 10_000)


def master() -> BrokerFacts:
    """Return a master with everything that it may report."""
    found = broker(
        brokerVersionDesc="V5_3_3",
        brokerVersion="479",
        bootTimestamp="7",
        putTps="10.5 60.5 600.5",
        getTransferredTps="1.5",
        commitLogMaxOffset="1000",
        commitLogMinOffset="100",
        commitLogDirCapacity="Total : 2.0 GiB, Free : 512.0 MiB.",
        remainHowManyDataToFlush="1.5 KiB",
        dispatchBehindBytes="3",
        earliestMessageTimeStamp="4000",
        putMessageDistributeTime="[<=0ms]:5 [0~10ms]:6 [10s~]:7",
        scheduleMessageOffset_3="4,9",
        scheduleMessageOffset_4="nonsense",
    )
    found.permission, found.topic_count, found.group_count = 6, 3, 1
    found.producers = {"pg": [ProducerInfo(client_id="p", language="JAVA", version=479)]}
    member = Connection(client_id="c1", client_addr="10.0.0.7:5", language="GO", version=479)
    found.consumers = {
        "g": ConsumerConnections(
            connection_set=[member], consume_type="CONSUME_PASSIVELY", pymq_differences={"orders": {"A": 1, "B": 1}}
        )
    }
    found.members = {("g", "c1"): ("10.0.0.7:5", ConsumerRunningInfo(status_table={"orders": {"consumeRT": 2.5}}))}
    found.ends = {"orders": 50, "%RETRY%g": 4, "%DLQ%g": 2, HOSTILE: 1}
    found.places = {("g", "orders"): Place(50, 30, 35, 8000), ("g", "%RETRY%g"): Place(4, 1, 1, 0)}
    found.stats = {
        ("BROKER_PUT_NUMS", "east"): StatsData(stats_minute=StatsWindow(tps=12.5)),
        ("TOPIC_PUT_SIZE", "orders"): StatsData(stats_minute=StatsWindow(tps=99)),
        ("GROUP_GET_NUMS", "orders@g"): StatsData(stats_minute=StatsWindow(tps=3)),
    }
    return found


def exported(names: Names, *brokers: BrokerFacts) -> Series:
    clock = ManualClock(30_000)
    view = View(names, clock)
    view.facts = Facts(list(brokers), topic_names=4, at_ms=20_000, took_ms=1500, failures=2, error="")
    return series(text_of(view))


def test_metrics_have_the_names_that_servers_give_them() -> None:
    assert set(BROKER_METRICS) <= set(SERVED_BY_BROKERS)
    assert set(NAMESRV_METRICS) <= set(SERVED_BY_NAME_SERVERS)
    assert of_brokers(BROKER_METRICS[0]).labels[:3] == ("cluster", "node_id", "node_type")


def test_figures_of_brokers_become_pymq_s_metrics() -> None:
    found = exported(Names.pymq, master(), broker(1))
    node = {"cluster": "east", "node_id": "broker-a", "node_type": "broker"}
    expected = {
        "rocketmq_broker_permission": 6,
        "rocketmq_topic_number": 3,
        "rocketmq_storage_size_bytes": 1.5 * (1 << 30),
        "rocketmq_storage_flush_behind_bytes": 1536,
        "rocketmq_storage_message_reserve_time_milliseconds": 6000,
        "pymq_store_log_end_bytes": 1000,
        "pymq_delayed_messages_waiting": 5,
        "rocketmq_producer_connections": 1,
        "rocketmq_consumer_connections": 1,
        "pymq_consumer_group_differing_subscriptions": 1,
        "pymq_replication_required_slaves": 1,
        "pymq_replication_slave_lag_bytes": 70,
    }
    assert {name: value(found, name, **node) for name in expected} == expected
    place = {**node, "consumer_group": "g", "topic": "orders", "is_system": "false", "is_retry": "false"}
    assert value(found, "rocketmq_consumer_lag_messages", **place) == 20
    assert value(found, "rocketmq_consumer_inflight_messages", **place) == 5
    assert value(found, "rocketmq_consumer_ready_messages", **place) == 15
    assert value(found, "rocketmq_consumer_lag_latency_milliseconds", **place) == 8000
    assert value(found, "rocketmq_messages_in_total", topic=HOSTILE) == 1, "names of topics are escaped"
    assert value(found, "pymq_exporter_committed_messages", topic="orders") == 30
    slave = {**node, "node_id": "broker-a:1"}
    assert value(found, "pymq_replication_broker_id", **slave) == 1
    assert value(found, "pymq_replication_ha_client_state", state="following", **slave) == 1
    assert (value(found, "pymq_exporter_age_seconds"), value(found, "pymq_exporter_collection_seconds")) == (10, 1.5)
    assert (value(found, "pymq_namesrv_brokers"), value(found, "pymq_namesrv_masters")) == (2, 1)
    assert value(found, "pymq_exporter_failed_requests_total") == 2


def test_the_old_exporter_s_names_have_its_labels() -> None:
    slave = broker(1, commitLogMaxOffset="990")
    found = exported(Names.exporter, master(), slave)
    assert value(found, "rocketmq_broker_tps", cluster="east", brokerIP="h:0", broker="broker-a") == 12.5
    assert value(found, "rocketmq_broker_commitlog_diff", brokerIP="h:1") == 10
    assert value(found, "rocketmq_producer_offset", cluster="east", broker="broker-a", topic="orders") == 50
    assert value(found, "rocketmq_producer_message_size", topic="orders") == 99
    assert value(found, "rocketmq_topic_retry_offset", topic="%RETRY%g") == 4
    assert value(found, "rocketmq_topic_dlq_offset", group="g") == 2
    diff = {"group": "g", "topic": "orders", "countOfOnlineConsumers": "1", "msgModel": "1"}
    assert value(found, "rocketmq_group_diff", **diff) == 20
    assert value(found, "rocketmq_group_retrydiff", topic="%RETRY%g") == 3
    assert value(found, "rocketmq_group_count", caddr="10.0.0.7:5", localaddr="c1", group="g") == 1
    assert value(found, "rocketmq_consumer_tps", cluster="east", broker="broker-a", topic="orders", group="g") == 3
    assert value(found, "rocketmq_consumer_offset", topic="orders") == 30
    client = {"clientAddr": "10.0.0.7:5", "clientId": "c1", "group": "g", "topic": "orders"}
    assert value(found, "rocketmq_client_consume_rt", **client) == 2.5
    runtime = {"cluster": "east", "brokerIP": "h:0", "des": "V5_3_3", "boottime": "7", "broker_version": "479"}
    assert value(found, "rocketmq_brokeruntime_put_tps60", **runtime) == 60.5
    assert value(found, "rocketmq_brokeruntime_pmdt_10stomore", **runtime) == 7
    assert value(found, "rocketmq_brokeruntime_commitlogdir_capacity_free", **runtime) == 512 * (1 << 20)
    assert not any("gettransfered_tps60" in name for name, _ in found), "what is not reported is left out"


def test_broadcasting_groups_have_no_lag_under_the_old_names() -> None:
    one = master()
    one.consumers["g"].message_model = "BROADCASTING"
    assert not any(name == "rocketmq_group_diff" for name, _ in exported(Names.exporter, one))


def test_a_silent_broker_is_down_and_a_missing_name_server_leaves_nothing_else() -> None:
    silent = BrokerFacts(BrokerView("east", "broker-b", 0, "h:5", error="no answer"), 1)
    found = exported(Names.both, master(), silent)
    assert value(found, "pymq_exporter_broker_up", node_id="broker-b") == 0
    assert value(found, "pymq_exporter_broker_up", node_id="broker-a") == 1
    view = View(Names.both, ManualClock())
    names = {name for name, _ in series(text_of(view))}
    assert names == {"pymq_exporter_info", "pymq_exporter_failed", "pymq_exporter_failed_requests_total"}


def test_every_name_of_the_old_exporter_is_documented_as_it_is() -> None:
    row = re.compile(r"^\| `(\w+)` \| (gauge) \| (.*?) \| (.*?) \| (.*) \|$", re.MULTILINE)
    documented = {
        (name, kind, unit, tuple(re.findall(r"`(\w+)`", labels)), meaning)
        for name, kind, unit, labels, meaning in row.findall((DOCS / "exporter.md").read_text())
    }
    assert documented == set(map(astuple, OldNames.metrics))


def test_every_shared_name_is_on_the_page() -> None:
    text = (DOCS / "exporter.md").read_text()
    assert [one.name for one in (*NAMESRV_METRICS, *BROKER_METRICS) if f"`{one.name}`" not in text] == []


def test_a_real_broker_is_collected(server: StandaloneProcess, pymq: Pymq) -> None:
    pymq("send", "exported", "one")
    assert (
        pymq(
            "tail", "exported", "--group", "exported-group", "--create-group", "--commit", "--from", "start", "-F"
        ).code
        == EXIT_OK
    )
    pymq("send", "exported", "two")

    async def collect() -> Facts:
        async with Admin(server.namesrv) as admin:
            return await FactsCollector(admin, ManualClock(10**13), with_stats=True).collect()

    facts = asyncio.run(collect())
    (only,) = facts.brokers
    assert (facts.error, facts.failures, only.permission) == ("", 0, 6)
    assert (only.ends["exported"], only.places["exported-group", "exported"][:2]) == (2, (2, 1))
    assert only.stats["TOPIC_PUT_NUMS", "exported"].stats_day.sum == 2
    view = View(Names.both, ManualClock(10**13))
    view.facts = facts
    found = series(text_of(view))
    assert value(found, "rocketmq_group_diff", group="exported-group", topic="exported") == 1
    known = {one.name for one in (*OwnNames.metrics, *OldNames.metrics)} | {"pymq_metrics_left_out"}
    assert {name for name, _ in found} <= known


def test_collecting_goes_on_after_failures(caplog: pytest.LogCaptureFixture) -> None:
    """A collector that fails twice and then answers is asked again each time, and logs both changes."""
    answers = [Facts(error="gone"), Facts(error="gone"), Facts(error="")]
    view = View(Names.pymq, ManualClock())

    class Collector:
        async def collect(self) -> Facts:
            if not answers:
                raise asyncio.CancelledError
            return answers.pop(0)

    async def run() -> None:
        collector: Any = Collector()
        await asyncio.gather(keep_collecting(collector, view, 0), return_exceptions=True)

    with caplog.at_level("INFO"):
        asyncio.run(run())
    assert view.facts.error == ""
    assert [record.getMessage() for record in caplog.records] == ["nothing can be collected: gone", "collecting again"]


def test_the_command_serves_what_it_collects(server: StandaloneProcess, tmp_path: Path) -> None:
    with process("exporter", "--port", "0", "--json", "--namesrv", f"{NOWHERE};{server.namesrv}", home=tmp_path) as one:
        address = json.loads(first_line(one))["metrics"]
        found: Series = {}
        for _ in range(int(DEADLINE_S / PAUSE_S)):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=DEADLINE_S) as answer:
                found = series(answer.read().decode())
            if value(found, "pymq_exporter_failed") == 0:
                break
            time.sleep(PAUSE_S)
        assert value(found, "rocketmq_broker_permission", node_id="broker-a") == 6
        assert any(name == "process_cpu_seconds_total" for name, _ in found)
        one.terminate()
        assert one.wait(DEADLINE_S) == EXIT_OK
