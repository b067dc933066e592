"""Machines of workers that replicate each other: worker i follows worker i, and is a member of its own Raft group."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pymq.cli import main as cli
from pymq.cli.standalone.shard_files import plan_brokers
from pymq.cli.standalone.shards import _is_free
from pymq.client import Message
from pymq.client.sync import Admin, Producer
from pymq.errors import EXIT_OK, EXIT_USAGE, PymqError
from tests.cli.broker.machines import TIMEOUT_S, machine_arguments, name_server, running

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with name_server() as address:
        yield address


def brokers(namesrv: str) -> dict[str, set[int]]:
    """Return the ids by broker name."""
    with Admin(namesrv) as admin:
        return {name: set(data.broker_addrs) for name, data in admin.cluster.info().broker_addr_table.items()}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            if condition():
                return
        except PymqError:
            pass
        assert time.monotonic() < deadline_s, "it did not come about"
        time.sleep(0.1)


def make_topic(namesrv: str, topic: str) -> None:
    assert cli.run(["topic", "create", topic, "--namesrv", namesrv]) == EXIT_OK


def send_to_all(namesrv: str, topic: str, names: set[str]) -> None:
    """Send until each broker has confirmed a message."""
    confirmed: set[str] = set()

    def sent() -> bool:
        with Producer("p", namesrv=namesrv) as producer:  # a new one asks where the masters are
            result = producer.send(Message(topic, b"m"))
        if result.status.name == "SEND_OK":
            confirmed.add(result.queue.broker_name)
        return confirmed == names

    wait_until(sent)


def test_each_worker_of_a_slave_machine_follows_its_like(namesrv: str, tmp_path: Path) -> None:
    alone = ["broker", "--name", "m", "--store", str(tmp_path / "m"), "--namesrv", namesrv, "--port", "0"]
    with running(*alone) as broker:
        assert broker.stop() == EXIT_OK
    sync = ["--name", "m", "--set", "brokerRole=SYNC_MASTER"]
    with (
        running(*machine_arguments(tmp_path / "m", namesrv, 2, *sync)) as master,
        running(
            *machine_arguments(tmp_path / "s", namesrv, 2, "--name", "m", "--id", "1"),
            *("--set", "firstWorkerKeepsName=true", "--set", "slaveSyncInterval=50"),
        ) as slave,
    ):
        assert [row["name"] for row in slave.ready["workers"]] == ["m", "m-1"]
        wait_until(lambda: brokers(namesrv) == {"m": {0, 1}, "m-1": {0, 1}})
        make_topic(namesrv, "replicated")
        send_to_all(namesrv, "replicated", {"m", "m-1"})
        os.kill(slave.ready["workers"][1]["pid"], signal.SIGKILL)
        send_to_all(namesrv, "replicated", {"m", "m-1"})  # it follows again
        assert slave.stop() == EXIT_OK and master.stop() == EXIT_OK


def test_each_worker_is_a_member_of_its_own_raft_group(tmp_path: Path) -> None:
    rng = random.Random(str(tmp_path))
    found = plan_brokers(tmp_path, 1, 3, 0, lambda port: _is_free(port) and _is_free(port + 10), rng)
    ports = [broker.port for broker in found]
    if min(abs(one - other) for one in ports for other in ports if one != other) < 20:
        ports = [ports[0], ports[0] + 40, ports[0] + 80]
    peers = ",".join(f"n{number}=127.0.0.1:{port}" for number, port in enumerate(ports))
    with name_server() as namesrv, ExitStack() as stack:
        machines = []
        for node in range(3):
            arguments = ["--workers", "2", "--store", str(tmp_path / f"n{node}"), "--namesrv", namesrv]
            raft = ["--group", "g", "--node", f"n{node}", "--peers", peers, "--log-level", "warning"]
            machines.append(stack.enter_context(running("broker", *arguments, *raft)))
        assert all([row["name"] for row in one.ready["workers"]] == ["g-0", "g-1"] for one in machines)
        wait_until(lambda: brokers(namesrv).keys() == {"g-0", "g-1"})
        wait_until(lambda: all(0 in ids and len(ids) == 3 for ids in brokers(namesrv).values()))
        make_topic(namesrv, "voted")
        send_to_all(namesrv, "voted", {"g-0", "g-1"})
        assert machines[0].stop() == EXIT_OK
        send_to_all(namesrv, "voted", {"g-0", "g-1"})  # two of three are left of both groups
        raft = ["--group", "g", "--node", "n0", "--peers", peers]
        with running("broker", "--workers", "1", "--store", str(tmp_path / "n0"), "--namesrv", namesrv, *raft) as fewer:
            assert fewer.wait() == EXIT_USAGE
            assert "the Raft groups of g-1 would lose members: give --workers 2" in fewer.log
        assert [one.stop() for one in machines[1:]] == [EXIT_OK, EXIT_OK]
