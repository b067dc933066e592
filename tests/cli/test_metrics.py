"""The metrics of real servers, scraped over HTTP: under load, of a master and its slave, while roles change."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pymq.broker.metrics.collector import BROKER_METRICS
from pymq.cli import main as cli
from pymq.client import Message, Producer, PushConsumer
from pymq.errors import EXIT_OK, EXIT_USAGE
from pymq.filterserver.metrics import FILTER_SERVER_METRICS
from pymq.metrics.exposition import LEFT_OUT
from pymq.model.record import StoredMessage
from pymq.namesrv.metrics import NAMESRV_METRICS
from tests.cli.common.test_servers import STOP_TIMEOUT_S, first_line, process

DEADLINE_S = 60.0
SCRAPE_TIMEOUT_S = 30.0
SMALL = ("mappedFileSizeCommitLog=1048576", "maxHashSlotNum=1000", "maxIndexNum=4000")
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass
class Scraped:
    """One scrape, as Prometheus' own parser reads it."""

    types: dict[str, str]
    series: Series = field(default_factory=dict)

    def value(self, name: str, **labels: str) -> float:
        """Return the value of the only series of that name that has these labels."""
        found = self.values(name, **labels)
        assert len(found) == 1, f"{name} {labels}: {found}"
        return found[0]

    def values(self, name: str, **labels: str) -> list[float]:
        return [value for (each, own), value in self.series.items() if each == name and labels.items() <= set(own)]


def scrape(address: str) -> Scraped:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=SCRAPE_TIMEOUT_S) as answer:
        text = answer.read().decode()
    families = list(text_string_to_metric_families(text))
    scraped = Scraped({family.name: family.type for family in families})
    for family in families:
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in scraped.series, f"{sample} came twice"
            scraped.series[key] = sample.value
    return scraped


def wait_for(address: str, what: str, name: str, value: float | None, **labels: str) -> Scraped:
    """Scrape until the series has that value (None: any) and return that scrape."""
    end_s = time.monotonic() + DEADLINE_S
    while True:
        scraped = scrape(address)
        found = scraped.values(name, **labels)
        if found == [value] or (found and value is None):
            return scraped
        assert time.monotonic() < end_s, f"{what}: {name} is {scraped.values(name, **labels)}, not {value}"
        time.sleep(0.05)


class Servers:
    """Servers with metrics, each in its own process."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self.home = home
        self.namesrv = ""
        self.running: dict[str, subprocess.Popen[str]] = {}
        self._stack = stack

    def start(self, name: str, *arguments: str) -> dict[str, str]:
        """Start a server and return the fields of its ready line."""
        command = [*arguments, "--json", "--metrics-port", "0"]
        self.running[name] = self._stack.enter_context(process(*command, home=self.home))
        line = first_line(self.running[name])
        assert line, f"{name} did not start"
        ready: dict[str, str] = json.loads(line)
        return ready

    def broker(self, broker_id: int) -> dict[str, str]:
        sets = [part for pair in SMALL for part in ("--set", pair)]
        flags = ["--namesrv", self.namesrv, "--id", str(broker_id), "--port", "0", *sets]
        return self.start(str(broker_id), "broker", *flags)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path, stack)


async def exchange(namesrv: str, metrics: str, count: int) -> list[Scraped]:
    """Send and consume ``count`` messages. Return the scrapes taken meanwhile and one after the last commit."""
    seen = 0
    scrapes: list[Scraped] = []

    def consume(messages: list[StoredMessage]) -> None:
        nonlocal seen
        seen += len(messages)

    async def send(producer: Producer, share: range) -> None:
        for number in share:
            await producer.send(Message("orders", b"%d" % number), timeout_s=DEADLINE_S)

    async with asyncio.timeout(DEADLINE_S), Producer("P", namesrv=namesrv) as producer:
        await producer.send(Message("orders", b"first"))
        consumer = PushConsumer("G", namesrv=namesrv, on_message=consume, consume_from="first")
        consumer.subscribe("orders")
        async with consumer:
            load = [asyncio.ensure_future(send(producer, range(lane, count - 1, 8))) for lane in range(8)]
            while not all(one.done() for one in load):
                scrapes.append(await asyncio.to_thread(scrape, metrics))
            await asyncio.gather(*load)
            while seen < count:  # noqa: ASYNC110 - the handler runs in a thread
                await asyncio.sleep(0.02)
            await consumer.commit()
            lag = ("all is committed", "rocketmq_consumer_lag_messages", 0)
            scrapes.append(await asyncio.to_thread(wait_for, metrics, *lag, consumer_group="G"))
    return scrapes


@pytest.mark.slow
def test_a_broker_is_scraped_under_load(servers: Servers) -> None:
    ready = servers.start("one", "standalone", "--ephemeral", "--namesrv-port", "0", "--port", "0")
    count = 2000
    scrapes = asyncio.run(exchange(ready["namesrv"], ready["metrics"], count))
    assert len(scrapes) > 3
    sent = [sum(each.values("rocketmq_messages_in_total", topic="orders")) for each in scrapes]
    assert sent == sorted(sent) and 0 < sent[0] < sent[-1] == count
    last = scrapes[-1]
    group = {"topic": "orders", "consumer_group": "G", "cluster": "DefaultCluster", "node_id": "broker-a"}
    assert last.value("rocketmq_messages_out_total", **group) == count
    assert last.value("rocketmq_consumer_lag_messages", **group) == 0
    assert last.value("rocketmq_consumer_connections", consumer_group="G", consume_mode="push") == 1
    assert last.value("pymq_store_messages_total") >= count
    assert last.value("process_cpu_seconds_total") > 0
    families = {name.removesuffix("_total") for name in last.types} - {LEFT_OUT.name}
    ours = {name for name in families if not name.startswith(("process", "python"))}
    of_plain_groups = {metric.name for metric in BROKER_METRICS if not metric.name.startswith("pymq_raft_")}
    assert ours == {name.removesuffix("_total") for name in of_plain_groups} - ONE_ROLE_ALONE


# A master exposes no metrics of a slave.
ONE_ROLE_ALONE = {
    "pymq_replication_ha_client_state",
    "pymq_replication_ha_client_lag_bytes",
    "pymq_replication_ha_client_lag_seconds",
    "pymq_replication_ha_client_bytes_per_second",
    "pymq_replication_tables_age_seconds",
    "pymq_replication_truncation_waiting_bytes",
}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_master_its_slave_and_their_name_server(servers: Servers) -> None:
    ready = servers.start("namesrv", "namesrv", "--port", "0")
    servers.namesrv = ready["namesrv"]
    master, slave = servers.broker(0), servers.broker(1)
    for number in range(10):
        assert cli.run(["send", "orders", str(number), "--namesrv", servers.namesrv]) == EXIT_OK
    follows = wait_for(slave["metrics"], "the slave follows", "pymq_replication_ha_client_state", 1, state="following")
    assert follows.value("pymq_replication_role", role="SLAVE") == 1
    level = wait_for(master["metrics"], "the slave has caught up", "pymq_replication_slave_lag_bytes", 0, slave_id="1")
    assert level.value("pymq_replication_slave_connected", slave_address=slave["broker"]) == 1
    assert level.value("pymq_replication_slave_in_sync", slave_id="1") == 1
    assert level.value("pymq_replication_slave_lag_messages", slave_id="1") == 0
    assert level.value("pymq_replication_in_sync_slaves") == 1
    end = level.value("pymq_store_log_end_bytes")
    copy = wait_for(slave["metrics"], "the slave has all", "pymq_store_log_end_bytes", end)
    assert copy.value("pymq_replication_ha_client_lag_bytes") == 0
    tables = wait_for(slave["metrics"], "the tables are copied", "pymq_replication_tables_age_seconds", None)
    assert tables.value("pymq_replication_tables_age_seconds") < DEADLINE_S
    known = scrape(ready["metrics"])
    assert known.value("pymq_namesrv_brokers", cluster="DefaultCluster") == 2
    assert known.value("pymq_namesrv_masters", cluster="DefaultCluster") == 1
    assert {name for name in known.types if name.startswith("pymq")} - {LEFT_OUT.name} == {
        metric.name.removesuffix("_total") for metric in NAMESRV_METRICS
    }

    servers.running["0"].kill()
    assert cli.run(["broker", "promote", slave["broker"], "--yes", "--force", "--namesrv", servers.namesrv]) == EXIT_OK
    new = wait_for(slave["metrics"], "the slave is master", "pymq_replication_role_changes_total", 1)
    assert new.value("pymq_replication_role", role="ASYNC_MASTER") == 1
    assert new.value("pymq_replication_epoch") == 2
    assert new.value("pymq_replication_broker_id") == 0
    servers.running["1"].terminate()
    assert servers.running["1"].wait(STOP_TIMEOUT_S) == EXIT_OK


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_scrapes_continue_while_roles_change(servers: Servers) -> None:
    servers.namesrv = servers.start("namesrv", "namesrv", "--port", "0")["namesrv"]
    ready = [servers.broker(0), servers.broker(1)]
    assert cli.run(["send", "orders", "x", "--namesrv", servers.namesrv]) == EXIT_OK
    wait_for(ready[0]["metrics"], "the slave has caught up", "pymq_replication_slave_lag_bytes", 0, slave_id="1")
    is_over = threading.Event()

    def scrape_on(address: str) -> int:
        count = 0
        while not is_over.is_set():
            scrape(address)
            count += 1
        return count

    with ThreadPoolExecutor() as pool:
        counts = [pool.submit(scrape_on, each["metrics"]) for each in ready]
        try:
            for broker in (ready[1], ready[0]):
                promote = ["broker", "promote", broker["broker"], "--yes", "--namesrv", servers.namesrv]
                assert cli.run(promote) == EXIT_OK
                wait_for(broker["metrics"], "it is the master", "pymq_replication_role", 1, role="ASYNC_MASTER")
                follower = "pymq_replication_slave_lag_bytes"
                wait_for(broker["metrics"], "the other one follows", follower, 0, slave_id="1")
        finally:
            is_over.set()
        assert all(count.result() > 1 for count in counts)
    for each in ready:
        wait_for(each["metrics"], "both changes are over", "pymq_replication_role_changes_total", 2)


def test_a_filter_server(servers: Servers) -> None:
    ready = servers.start("filter-server", "filter-server", "--broker", "127.0.0.1:1", "--workers", "1")
    found = scrape(ready["metrics"])
    assert found.value("pymq_filter_server_registered", node_id=ready["filter_server"]) == 0
    assert found.value("pymq_filter_server_workers") == 1
    assert {name for name in found.types if name.startswith("pymq")} - {LEFT_OUT.name} == {
        metric.name.removesuffix("_total") for metric in FILTER_SERVER_METRICS
    }


def test_metrics_are_off_by_default(tmp_path: Path) -> None:
    with process("namesrv", "--port", "0", "--json", home=tmp_path) as server:
        assert json.loads(first_line(server)).keys() == {"namesrv", "pid", "tls"}


@pytest.mark.parametrize("role", ["broker", "namesrv", "filter-server"])
def test_a_port_in_use_stops_the_start(
    role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    arguments = {"broker": ["--port", "0"], "namesrv": ["--port", "0"], "filter-server": ["--broker", "127.0.0.1:1"]}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert cli.run([role, *arguments[role], "--metrics-port", str(port)]) == EXIT_USAGE
    error = capsys.readouterr().err
    assert f"127.0.0.1:{port}" in error and "--metrics-port" in error
    assert not list(tmp_path.iterdir()), "no work was started"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--metrics-port", "65536"], "--metrics-port"),
        (["--metrics-port", "many"], "--metrics-port"),
        (["--set", "metricsExporterType=OTLP_GRPC"], "use one of DISABLE, PROM"),
        (["--set", "metricsLabel=zone"], "key:value"),
        (["--set", "metricsOtelCardinalityLimit=99"], "from 100"),
    ],
)
def test_contradictory_options_are_refused(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["broker", *arguments]) == EXIT_USAGE
    assert text in capsys.readouterr().err


def test_rocketmq_metrics_keys_set_host_and_labels(servers: Servers, tmp_path: Path) -> None:
    config = tmp_path / "namesrv.conf"
    config.write_text(
        "listenPort=0\nmetricsExporterType=PROM\nmetricsPromExporterHost=127.0.0.2\nmetricsLabel=zone:a\n"
    )
    ready = servers.start("namesrv", "namesrv", "-c", str(config))
    host, _, port = ready["metrics"].rpartition(":")
    assert host == "127.0.0.2"
    assert scrape(ready["metrics"]).value("pymq_namesrv_topics", zone="a", node_type="namesrv") == 0
    with socket.socket() as beside:  # free, so the server does not listen at every host
        beside.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        beside.bind(("127.0.0.3", int(port)))
