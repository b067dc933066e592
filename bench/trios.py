"""Runs three brokers of one name: a Raft group of PyMQ's, or a master with two slaves of Apache's, for their case."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from bench import process
from bench.apache import ApacheBroker
from bench.cases import QUEUES, Figure, Sizes
from bench.control import BenchError, Control, wait_until
from bench.pairs import ATTACH_DEADLINE_S, ApachePair, log_end
from bench.sends import SendLoad, SendPlan
from bench.standalone import PyMQBroker
from pymq.client import Admin
from tests.broker.raft.processes import RaftProcesses
from tests.ports import free_port_block

CASE = "raft-send"
# A master that answers once one of its slaves has a message, too: two of three, as in a Raft group.
APACHE_SETTINGS = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
# A broker's own defaults. The group that RaftProcesses makes for other tests has small files.
_FULL_SIZES = {
    "mappedFileSizeCommitLog": "1073741824",
    "mappedFileSizeConsumeQueue": "6000000",
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
}


class Trio(Protocol):
    """Three brokers of one name; ``leader`` is the address of the one that takes sends."""

    leader: str

    @property
    def leader_pid(self) -> int: ...
    @property
    def follower_pids(self) -> list[int]: ...
    def start(self) -> None:
        """Returns once the other two follow. Raises BenchError."""
        ...

    def stop(self) -> None: ...


class PyMQTrio:
    """A Raft group of PyMQ."""

    name = PyMQBroker.name

    def __init__(
        self, directory: Path, command: list[str] | None = None, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._group = RaftProcesses(
            directory, settings={**_FULL_SIZES, **settings}, command=command or [sys.executable, "-m", "pymq"]
        )
        self._running = contextlib.ExitStack()
        self._leader_node = ""
        self.leader = ""

    @property
    def leader_pid(self) -> int:
        return self._group.pid(self._leader_node)

    @property
    def follower_pids(self) -> list[int]:
        return [self._group.pid(node) for node in self._group.ports if node != self._leader_node]

    def start(self) -> None:
        self._running.enter_context(self._group)
        try:
            self._leader_node = asyncio.run(self._wait_for_leader())
        except TimeoutError:
            output = "".join(self._group.output(node)[-500:] for node in self._group.ports)
            raise BenchError(f"the Raft group elected no leader: {output}") from None
        self.leader = f"127.0.0.1:{self._group.ports[self._leader_node]}"

    async def _wait_for_leader(self) -> str:
        async with Admin(namesrv=self._group.namesrv) as admin:
            return await self._group.until_registered(admin)

    def stop(self) -> None:
        self._running.close()


class ApacheTrio(ApachePair):
    """A master with two slaves of Apache RocketMQ."""

    def __init__(self, directory: Path, heap: str = "512m") -> None:
        super().__init__(directory, heap, APACHE_SETTINGS)
        self.leader = ""

    @property
    def leader_pid(self) -> int:
        return self._master_pid

    @property
    def follower_pids(self) -> list[int]:
        return [self.slave_pid, self._second_pid]

    def start(self) -> None:
        super().start()
        self._master_pid = self.broker_pid
        self.leader = self.broker
        second_port = free_port_block()
        conf = self._write("second.properties", self._slave_settings("second", 2, second_port))
        self._spawn("second", "org.apache.rocketmq.broker.BrokerStartup", "-c", conf)
        self._second_pid = self._processes[-1].pid
        second = f"127.0.0.1:{second_port}"
        wait_until(lambda: _has_whole_log(second, self.leader), f"the slave at {second} to follow", ATTACH_DEADLINE_S)


def _has_whole_log(follower: str, leader: str) -> bool:
    try:
        return log_end(follower) >= log_end(leader)
    except (OSError, BenchError):
        return False


def make_trio(kind: str, directory: Path, heap: str, command: list[str]) -> Trio:
    directory.mkdir(parents=True, exist_ok=True)
    return ApacheTrio(directory, heap) if kind == ApacheBroker.name else PyMQTrio(directory, command)


def raft_send(trio: Trio, sizes: Sizes) -> list[Figure]:
    """Measures single sends of 128 B, each answered once two of the three brokers have it."""
    topic = "bench_raft"
    with Control(trio.leader) as control:
        control.create_topic(topic, QUEUES)
    load = SendLoad(trio.leader, SendPlan(topic, QUEUES))
    pids = [trio.leader_pid, *trio.follower_pids]
    try:
        load.warm_up(min(sizes.warm_messages, sizes.send_messages))
        process.settle_cpu()
        before = [process.cpu_seconds(pid) for pid in pids]
        rate = load.run(sizes.send_messages)
        process.settle_cpu(1.0)
        used_s = [process.cpu_seconds(pid) - start for pid, start in zip(pids, before, strict=True)]
    finally:
        load.close()
    used_us = [seconds / rate.messages * 1e6 for seconds in used_s]
    return [
        Figure(f"{CASE} rate", rate.per_second, "msg/s", 60_000, True),
        Figure(f"{CASE} leader CPU", used_us[0], "us/msg", 10.0),
        Figure(f"{CASE} follower CPU", sum(used_us[1:]) / len(used_us[1:]), "us/msg", None),
    ]
