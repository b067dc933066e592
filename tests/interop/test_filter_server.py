"""Java consumers in class filter mode (``subscribe(topic, className, source)``) through PyMQ's filter servers.

The 4.x client sends source and name to each filter server of the route, the 5.x client sends only the broker the name.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.support import probe
from tests.interop.support.maven import compiled
from tests.interop.support.process import Server
from tests.interop.support.programs import ProgramOutput, run_program
from tests.interop.support.pymq_server import REPOSITORY, PymqServer
from tests.interop.support.tools import own_places, require
from tests.ports import free_port_block

RUNTIME_INFO = 28
MATCHED_BEFORE_KILL = 20
POLL_INTERVAL_S = 0.1
DEADLINE_S = 300


class FilterServerProcess:
    """``pymq filter-server`` on its own port, registered with its broker."""

    def __init__(self, directory: Path, broker: str) -> None:
        port = free_port_block(0, 0)
        self.address = f"127.0.0.1:{port}"
        command = [sys.executable, "-m", "pymq", "filter-server", "--broker", broker, "--port", str(port)]
        self.server = Server(
            f"filter-{port}", [*command, "--workers", "1"], directory, env={"PYTHONPATH": str(REPOSITORY)}
        )
        probe.wait_until(f"filter server {self.address} is registered", lambda: self.figure("registered") == "true")

    def figure(self, name: str) -> str:
        """Return a figure of the server's table; empty without that row or without the server."""
        try:
            table: dict[str, str] = json.loads(probe.call(self.address, RUNTIME_INFO).body)["table"]
        except OSError:
            return ""
        return table.get(name, "")

    def matched(self, topic: str) -> int:
        return int(self.figure(f"filter.{topic}.{topic}.matched") or 0)


class Servers:
    """A broker and its filter servers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker = PymqServer(directory / "broker")
        self.filters = [FilterServerProcess(directory, self.broker.broker)]

    def stop(self) -> None:
        for one in self.filters:
            one.server.stop()
        self.broker.stop()

    def run(self, client: str, scenario: str) -> tuple[str, ProgramOutput]:
        """Run the Java program; return the topic and the program's output."""
        prefix = f"{client}-{uuid.uuid4().hex[:8]}".replace(".", "_")
        topic = f"{prefix}-{scenario}"
        probe.create_topic(self.broker.namesrv, self.broker.broker, topic)
        return topic, self.run_on(client, prefix, scenario)

    def run_on(self, client: str, prefix: str, scenario: str) -> ProgramOutput:
        (java,) = require("java")
        home = self.directory / f"{prefix}-{scenario}"
        flags = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8"]
        flags += [*own_places(home), f"-Drocketmq.client.logRoot={home}/logs"]
        command = [java, *flags, "-cp", compiled("client", client), "interop.Main"]
        return run_program([*command, self.broker.namesrv, prefix, scenario], home)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    started = Servers(tmp_path_factory.mktemp("filter-servers"))
    yield started
    started.stop()


@pytest.mark.parametrize(
    ("client", "scenario"),
    [
        ("client-4.9.8", "filter_by_name"),
        ("client-4.9.8", "filter_by_source"),
        ("client-5.3.3", "filter_by_name"),
    ],
)
def test_only_matching_messages_arrive_and_all_of_them(servers: Servers, client: str, scenario: str) -> None:
    topic, output = servers.run(client, scenario)
    assert output.error(scenario) is None, output.error(scenario)
    assert servers.filters[0].matched(topic) == 8  # two rounds of four: they passed the filter server


@pytest.mark.parametrize("client", ["client-4.9.8", "client-5.3.3"])
def test_killing_one_of_two_filter_servers_loses_nothing(servers: Servers, client: str) -> None:
    doomed = FilterServerProcess(servers.directory, servers.broker.broker)
    prefix = f"{client}-{uuid.uuid4().hex[:8]}".replace(".", "_")
    topic = f"{prefix}-filter_killed"
    probe.create_topic(servers.broker.namesrv, servers.broker.broker, topic)
    killed_at: list[int] = []

    def kill_at_work() -> None:
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            matched = doomed.matched(topic)
            if matched >= MATCHED_BEFORE_KILL:
                doomed.server.kill()
                killed_at.append(matched)
                return
            time.sleep(POLL_INTERVAL_S)

    killer = threading.Thread(target=kill_at_work)
    killer.start()
    output = servers.run_on(client, prefix, "filter_killed")
    killer.join()
    assert output.error("filter_killed") is None, output.error("filter_killed")
    assert killed_at, "the doomed filter server had no work"
    assert servers.filters[0].matched(topic) >= MATCHED_BEFORE_KILL
