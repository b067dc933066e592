"""A master and its slave as processes: table changes reach the slave's files, commits go back to the master."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pymq.cli import main as cli
from pymq.client.admin import Admin
from pymq.client.pull_consumer import PullConsumer
from pymq.errors import EXIT_OK, PymqError
from pymq.model import fastjson
from pymq.model.tables import SubscriptionGroupConfig
from tests.cli.common.test_servers import first_line, process
from tests.ports import free_port_block

pytestmark = pytest.mark.timeout(600)  # starts many processes, one after the other
DEADLINE_S = 90.0
POLL_S = 0.02


def wait_for(what: str, condition: Callable[[], object]) -> float:
    """Wait for the condition and return the seconds it took; an error counts as false."""
    begin = time.monotonic()
    while time.monotonic() < begin + DEADLINE_S:
        try:
            if condition():
                return time.monotonic() - begin
        except (OSError, ValueError, KeyError, PymqError):
            pass
        time.sleep(POLL_S)
    raise AssertionError(f"waited {DEADLINE_S} s for {what}")


class Group:
    """A name server, a master and a slave whose directories outlive their processes."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self.home = home
        self._stack = stack
        namesrv = stack.enter_context(process("namesrv", "--port", "0", "--json", home=home))
        self.namesrv: str = json.loads(first_line(namesrv))["namesrv"]
        self.addresses: dict[int, str] = {}
        self._ports = {0: free_port_block(), 1: free_port_block()}
        self.master = self.start(0)
        self.slave = self.start(1)

    def start(self, broker_id: int) -> Any:
        # Name servers keep the id of a killed broker for its old address for a while, so it returns there.
        port = str(self._ports[broker_id])
        flags = ["--namesrv", self.namesrv, "--port", port, "--json", "--store", str(self.home / str(broker_id))]
        flags += ["--set", "mappedFileSizeCommitLog=1MB", "--set", "registerNameServerPeriod=10000"]
        flags += ["--set", "flushConsumerOffsetInterval=500"]
        broker = self._stack.enter_context(process("broker", "--id", str(broker_id), *flags, home=self.home))
        self.addresses[broker_id] = json.loads(first_line(broker))["broker"]
        return broker

    def make_group(self, name: str) -> None:
        async def work() -> None:
            async with Admin(self.namesrv) as admin:
                await admin.groups.put(self.addresses[0], SubscriptionGroupConfig(group_name=name))

        asyncio.run(work())

    def table(self, broker_id: int, name: str) -> dict[str, Any]:
        loaded: dict[str, Any] = fastjson.loads((self.home / str(broker_id) / "config" / f"{name}.json").read_bytes())
        loaded.pop("pymqCrc32", None)
        return loaded

    def topics(self) -> dict[str, Any]:
        return self.table(1, "topics")["topicConfigTable"]

    def offsets(self, broker_id: int) -> dict[str, Any]:
        return self.table(broker_id, "consumerOffset")["offsetTable"]

    def queue_files(self, broker_id: int, topic: str) -> list[Path]:
        return sorted((self.home / str(broker_id) / "consumequeue" / topic).glob("*/*"))

    def commit(self, topic: str, group: str, offset: int) -> None:
        async def work() -> None:
            async with PullConsumer(group, namesrv=self.namesrv) as consumer:
                queue = min(await consumer.queues(topic))
                await consumer.commit(queue, offset)

        asyncio.run(work())


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    with ExitStack() as stack:
        made = Group(tmp_path, stack)
        monkeypatch.setenv("NAMESRV_ADDR", made.namesrv)
        wait_for("the slave's first copy", lambda: "SELF_TEST_TOPIC" in made.topics())
        yield made


def run(*arguments: str) -> None:
    assert cli.run(list(arguments)) == EXIT_OK


@pytest.mark.slow
def test_tables_of_a_slave_process(group: Group) -> None:
    run("topic", "create", "T", "--wq", "1")
    wait_for("the topic", lambda: "T" in group.topics())
    group.make_group("g")
    wait_for("the group", lambda: "g" in group.table(1, "subscriptionGroup")["subscriptionGroupTable"])
    for number in range(5):
        run("send", "T", f"m{number}")
    group.commit("T", "g", 1)
    wait_for("the offset", lambda: group.offsets(1)["T@g"]["0"] == 1)
    wait_for("equal tables", lambda: group.table(0, "topics") == group.table(1, "topics"))
    wait_for("equal offsets", lambda: group.table(0, "consumerOffset") == group.table(1, "consumerOffset"))

    # The master dies. The slave takes commits, and the master has them after its return.
    group.master.kill()
    group.master.wait()
    wait_for("a commit on the slave", lambda: group.commit("T", "g", 4) is None)
    wait_for("the note of it", lambda: group.table(1, "pendingOffsets")["pendingOffsets"] == {"T@g": {"0": 4}})
    group.master = group.start(0)
    wait_for("the offset on the master", lambda: group.offsets(0)["T@g"]["0"] == 4)
    wait_for("nothing pending", lambda: group.table(1, "pendingOffsets")["pendingOffsets"] == {})

    # A topic is deleted and created again: the slave's queue restarts at 0.
    wait_for("queue files", lambda: group.queue_files(1, "T"))
    run("topic", "delete", "T", "--yes", "--force")
    wait_for("the deletion", lambda: "T" not in group.topics() and not group.queue_files(1, "T"))
    run("topic", "create", "T", "--wq", "1")
    run("send", "T", "again")
    wait_for("a new queue", lambda: group.queue_files(1, "T"))
    wait_for("no offset of old", lambda: "T@g" not in group.offsets(0) and "T@g" not in group.offsets(1))
