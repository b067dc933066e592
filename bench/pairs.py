"""Runs a name server, a master and one slave as processes, of PyMQ or Apache, for the replication cases."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from bench import process
from bench.apache import ApacheBroker
from bench.cases import Server
from bench.control import BenchError, Control, wait_until
from bench.standalone import PyMQBroker
from tests.ports import free_port_block

GET_BROKER_RUNTIME_INFO = 28
GET_BROKER_HA_STATUS = 907
ATTACH_DEADLINE_S = 120.0
BROKER_NAME = "broker-a"


class Pair(Server, Protocol):
    """A master (``broker``) and its slave, which can be stopped and started again on its directory."""

    slave: str

    @property
    def slave_pid(self) -> int: ...
    def start_slave(self) -> None:
        """Starts the slave; waits only until it answers."""
        ...

    def stop_slave(self) -> None: ...


def log_end(address: str) -> int:
    """Returns the physical offset at which a broker's log ends.

    Raises:
        BenchError, OSError: the broker does not answer.
    """
    with Control(address) as control:
        header, body = control.ask(GET_BROKER_RUNTIME_INFO, {})
    if header["code"] != 0:
        raise BenchError(f"{address} refused the request for its log's end: {header.get('remark')}")
    return int(json.loads(body)["table"]["commitLogMaxOffset"])


def attach(pair: Pair) -> None:
    """Returns once the slave has the whole log of the master.

    Raises:
        BenchError: it had not after two minutes.
    """

    def is_attached() -> bool:
        try:
            with Control(pair.broker) as control:
                _, body = control.ask(GET_BROKER_HA_STATUS, {})
            return bool(json.loads(body)["haConnectionInfo"]) and log_end(pair.slave) >= log_end(pair.broker)
        except (OSError, BenchError):
            return False

    wait_until(is_attached, f"the slave at {pair.slave} to follow", ATTACH_DEADLINE_S)


class PyMQPair:
    """A name server, a master and a slave of PyMQ on free loopback ports."""

    name = PyMQBroker.name

    def __init__(
        self, directory: Path, command: list[str] | None = None, settings: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """``settings``: keys of broker.conf, for both brokers."""
        self._directory = directory
        self._settings = settings
        self._command = command or [sys.executable, "-m", "pymq"]
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.namesrv = self.broker = self.slave = ""
        self.ready_s = 0.0

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._processes.values()]

    @property
    def broker_pid(self) -> int:
        return self._processes["master"].pid

    @property
    def slave_pid(self) -> int:
        return self._processes["slave"].pid

    def start(self) -> None:
        """Starts all three processes.

        Raises:
            BenchError: one of them was not ready within 30 s.
        """
        try:
            self.namesrv = self._spawn("namesrv", "namesrv", "--port", "0")
            self.broker = self._spawn_broker("master", 0, free_port_block())
            self.slave = f"127.0.0.1:{free_port_block()}"
            self.start_slave()
            attach(self)
        except BaseException:
            self.stop()
            raise

    def start_slave(self) -> None:
        self._spawn_broker("slave", 1, int(self.slave.rpartition(":")[2]))

    def stop_slave(self) -> None:
        self._end(self._processes.pop("slave"))

    def stop(self) -> None:
        while self._processes:
            self._end(self._processes.popitem()[1])

    def topic_list_command(self) -> list[str]:
        return [*self._command, "topic", "list", "--namesrv", self.namesrv]

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def _spawn_broker(self, role: str, broker_id: int, port: int) -> str:
        arguments = ["--id", str(broker_id), "--name", BROKER_NAME, "--namesrv", self.namesrv, "--port", str(port)]
        arguments += ["--store", str(self._directory / role)]
        for key, value in self._settings.items():
            arguments += ["--set", f"{key}={value}"]
        return self._spawn(role, "broker", *arguments)

    def _spawn(self, role: str, *arguments: str) -> str:
        """Starts one process, waits for its ready line, and returns its address."""
        self._directory.mkdir(parents=True, exist_ok=True)
        log = self._directory / f"{role}.err"
        with log.open("a") as errors:
            child = subprocess.Popen(
                [*self._command, *arguments, "--json"], stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._processes[role] = child
        line = process.first_line(child)
        if not line:
            raise BenchError(f"pymq {arguments[0]} did not become ready: {log.read_text()[-2000:].strip()}")
        address: str = json.loads(line)[arguments[0]]
        return address

    @staticmethod
    def _end(child: subprocess.Popen[str]) -> None:
        process.stop(child)
        assert child.stdout is not None
        child.stdout.close()


class ApachePair(ApacheBroker):
    """A name server, a master and a slave of Apache RocketMQ."""

    def __init__(self, directory: Path, heap: str = "512m", settings: Mapping[str, str] = MappingProxyType({})) -> None:
        super().__init__(directory, heap, settings)
        self._slave: subprocess.Popen[bytes] | None = None
        self.slave = ""

    @property
    def pids(self) -> list[int]:
        return [*super().pids, *([self._slave.pid] if self._slave is not None else [])]

    @property
    def slave_pid(self) -> int:
        assert self._slave is not None
        return self._slave.pid

    def start(self) -> None:
        super().start()
        port = free_port_block()
        self.slave = f"127.0.0.1:{port}"
        self._slave_conf = self._write("slave.properties", self._slave_settings("slave", 1, port))
        self.start_slave()
        attach(self)

    def _slave_settings(self, name: str, broker_id: int, port: int) -> dict[str, object]:
        store = self._directory / name
        return {
            **self._broker_settings(port),
            "brokerId": broker_id,
            "brokerRole": "SLAVE",
            "storePathRootDir": store,
            "storePathCommitLog": store / "commitlog",
        }

    def start_slave(self) -> None:
        self._spawn("slave", "org.apache.rocketmq.broker.BrokerStartup", "-c", self._slave_conf)
        self._slave = self._processes.pop()

    def stop_slave(self) -> None:
        assert self._slave is not None
        process.stop(self._slave)
        self._slave = None

    def stop(self) -> None:
        if self._slave is not None:
            self.stop_slave()
        super().stop()
