"""One name server and the brokers of one name, Apache's and PyMQ's, as master and slaves; compares their logs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from tests.interop.support import probe
from tests.interop.support.apache import JVM_FLAGS, STOP_TIMEOUT_S, TERMINATED, TIMER_FLUSH_INTERVAL_MS
from tests.interop.support.maven import class_path
from tests.interop.support.process import Server
from tests.interop.support.tools import own_places, require
from tests.ports import free_port_block

REPOSITORY = Path(__file__).parent.parent.parent.parent
CLUSTER = "DefaultCluster"
BROKER_NAME = "broker-a"
SEGMENT_SIZE_BYTES = 256 * 1024
READY_TIMEOUT_S = 180
CATCH_UP_TIMEOUT_S = 120
GET_RUNTIME_INFO = 28


class NameServer:
    """A name server of PyMQ."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port_block(0, 0)
        self.address = f"127.0.0.1:{self.port}"
        self._directory = directory
        self.start()

    def start(self) -> None:
        """Start it, also again after a kill, and wait until it answers."""
        command = [sys.executable, "-m", "pymq", "namesrv", "--port", str(self.port)]
        self._server = Server("namesrv", command, self._directory, env={"PYTHONPATH": str(REPOSITORY)})
        probe.wait_until("the name server", lambda: probe.call(self.address, probe.GET_CLUSTER_INFO).code == 0)

    def stop(self) -> None:
        self._server.stop()

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        self._server.kill()

    def registered(self) -> list[tuple[str, str]]:
        """Return the ids and addresses of all brokers."""
        reply = probe.call(self.address, probe.GET_CLUSTER_INFO)
        return re.findall(r'[{,]"?(\d+)"?:"([^"]+)"', reply.body.decode())  # bare ids are not valid JSON keys

    def members(self) -> dict[str, str]:
        """Return the addresses of the brokers of ``BROKER_NAME`` by id, if there is no other name."""
        return dict(self.registered())


class Member:
    """A broker process that can be started again on its directory and ports. Subclasses know its command."""

    kind = ""

    def __init__(self, directory: Path, namesrv: NameServer, broker_id: int, settings: dict[str, str] | None) -> None:
        self.directory = directory
        self.store = directory / "store"
        self.namesrv = namesrv
        self.broker_id = broker_id
        self.settings = {
            "brokerClusterName": CLUSTER,
            "brokerName": BROKER_NAME,
            "brokerId": str(broker_id),
            "brokerIP1": "127.0.0.1",
            "bindAddress": "127.0.0.1",
            "namesrvAddr": namesrv.address,
            "storePathRootDir": str(self.store),
            "mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES),
            **(settings or {}),
        }
        self._choose_ports()
        directory.mkdir(parents=True, exist_ok=True)
        self._server: Server | None = None
        self._lives = 0

    def _choose_ports(self) -> None:
        self.port = free_port_block()
        self.broker = f"127.0.0.1:{self.port}"
        self.settings |= {"listenPort": str(self.port), "haListenPort": str(self.port + 1)}

    def start(self) -> None:
        """Start it and wait until it answers and is registered; the first start picks free ports."""
        self._lives += 1
        self._server = self._spawn(f"{self.kind}-{self._lives}")
        try:
            self._wait_until_there(self._server)
        except AssertionError:
            if self._lives > 1 or not self._server.found_port_taken():
                raise
            self._choose_ports()
            self.start()

    def _wait_until_there(self, server: Server) -> None:
        def is_there() -> bool:
            server.assert_running()
            # For some seconds after its start Apache's broker fails to build the runtime table.
            is_registered = any(address == self.broker for _, address in self.namesrv.registered())
            return is_registered and probe.call(self.broker, GET_RUNTIME_INFO).code == 0

        probe.wait_until(f"{self.kind} broker {self.broker_id}", is_there, timeout_s=READY_TIMEOUT_S)

    def _spawn(self, name: str) -> Server:
        raise NotImplementedError

    def _write_config(self, settings: dict[str, str]) -> Path:
        path = self.directory / "broker.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def kill(self) -> None:
        """Kill the process, as a crash would."""
        assert self._server is not None
        self._server.kill()

    def stop(self) -> None:
        """Stop the process cleanly."""
        assert self._server is not None
        code = self._server.stop(STOP_TIMEOUT_S)
        assert code in (0, TERMINATED), f"{self.kind} ended with {code}:\n{self._server.log_tail()}"

    def end(self) -> None:
        """End the process in any state, after a test."""
        if self._server is not None:
            self._server.kill()

    def log_tail(self) -> str:
        assert self._server is not None
        return self._server.log_tail(100)

    def log_end(self) -> int:
        """Return the physical offset at which its log ends."""
        reply = probe.call(self.broker, GET_RUNTIME_INFO)
        assert reply.code == 0, reply
        return int(json.loads(reply.body)["table"]["commitLogMaxOffset"])

    def segments(self) -> dict[int, bytes]:
        """Return the files of its log by start offset."""
        return {int(path.name): path.read_bytes() for path in sorted((self.store / "commitlog").iterdir())}


class ApacheMember(Member):
    """A real broker 5.3.3."""

    kind = "apache"

    def _spawn(self, name: str) -> Server:
        (java,) = require("java")
        role = "ASYNC_MASTER" if self.broker_id == 0 else "SLAVE"
        extra = {
            "brokerRole": role,
            "storePathCommitLog": str(self.store / "commitlog"),
            "autoCreateTopicEnable": "true",
            "diskMaxUsedSpaceRatio": "98",
            "waitTimeMillsInSendQueue": "20000",
            "osPageCacheBusyTimeOutMills": "20000",
            "slaveReadEnable": "true",
            "timerFlushIntervalMs": TIMER_FLUSH_INTERVAL_MS,
        }
        config = self._write_config({**extra, **self.settings})
        base = [java, *JVM_FLAGS, f"-Drocketmq.home.dir={self.directory}", *own_places(self.directory)]
        command = [*base, "-cp", class_path("server-5.3.3"), "org.apache.rocketmq.broker.BrokerStartup"]
        return Server(name, [*command, "-c", str(config)], self.directory)


class PymqMember(Member):
    """`pymq broker --id N`."""

    kind = "pymq"

    def _spawn(self, name: str) -> Server:
        config = self._write_config(self.settings)
        command = [sys.executable, "-m", "pymq", "broker", "--id", str(self.broker_id), "-c", str(config)]
        return Server(name, command, self.directory, env={"PYTHONPATH": str(REPOSITORY)})


def wait_for_copy(master: Member, slave: Member) -> int:
    """Wait until the slave has all of the master's log; return the offset at which both end.

    A broker may write by itself: after a crash Apache's delivers delayed messages again.
    """
    end = 0

    def has_all() -> bool:
        nonlocal end
        end = master.log_end()
        return slave.log_end() == end == master.log_end()

    try:
        probe.wait_until(f"the {slave.kind} slave to have the master's log", has_all, timeout_s=CATCH_UP_TIMEOUT_S)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\nmaster:\n{master.log_tail()}\nslave:\n{slave.log_tail()}") from None
    return end


def assert_same_log(master: Member, slave: Member) -> int:
    """Check that both logs are byte-identical from the slave's first segment on; return the number of bytes."""
    end = wait_for_copy(master, slave)
    ours, theirs = master.segments(), slave.segments()
    compared = 0
    for start, data in theirs.items():
        size = min(len(data), end - start)
        if size > 0:
            assert ours[start][:size] == data[:size], f"the segments at {start} differ"
            compared += size
    assert compared, f"nothing to compare: master has {list(ours)}, slave {list(theirs)}, the log ends at {end}"
    return compared
