"""A Raft group of real processes: a name server and `pymq broker` on loopback ports, to be killed and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType

from pymq.broker.raft.secret_file import SECRET_SIZE_BYTES, Secrets, write_secrets
from pymq.client import Admin
from pymq.errors import PymqError
from pymq.store.disk.fs import RealFiles
from pymq.store.replica.closed_log import ClosedLog
from tests.broker.raft.hosts import Hosts
from tests.broker.raft.machines import Machines
from tests.ports import free_port_block

NAME = "shard-a"
SEGMENT_BYTES = 1 << 20
LOOPBACK = "127.0.0.1"
STOP_TIMEOUT_S = 30
WAIT_S = 60.0
_STEP_S = 0.02
SETTINGS = {
    "enableDLegerCommitLog": "true",
    "mappedFileSizeCommitLog": str(SEGMENT_BYTES),
    "mappedFileSizeConsumeQueue": "60000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "fastListenPort": "-1",
}


def node_ids(count: int) -> list[str]:
    """Return the ids of the nodes of a group of this size."""
    return [f"n{number}" for number in range(count)]


class RaftProcesses:
    """A group below ``directory``. As a context manager it ends every process that it began."""

    def __init__(
        self,
        directory: Path,
        *,
        count: int = 3,
        settings: Mapping[str, str] = MappingProxyType({}),
        command: Sequence[str] = (sys.executable, "-m", "pymq"),
        hosts: Hosts | None = None,
        machines: Machines | None = None,
    ) -> None:
        """``settings``: keys of broker.conf, for all brokers. ``command``: the pymq command. ``hosts``: those of
        the nodes n0, n1 and so on, if each is to have one; else all listen on loopback. ``machines``: those with a
        disk and a clock that fail when asked.
        """
        self.directory = directory
        self.hosts = hosts
        self.machines = machines
        self._command = command
        self._settings = {**SETTINGS, **settings}
        self._namesrv_port = free_port_block(0, 0)
        self.namesrv = f"{hosts.outside if hosts else LOOPBACK}:{self._namesrv_port}"
        self.ports = {node: free_port_block(0, 0) for node in node_ids(count)}
        self.peers = ";".join(f"{node}-{self.address(node)}" for node in self.ports)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> RaftProcesses:
        self._begin("namesrv", "namesrv", "--port", str(self._namesrv_port), *self._listening(self.namesrv))
        for node in self.ports:
            self.start(node)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(STOP_TIMEOUT_S)

    # -- single nodes --------------------------------------------------------------------------------------------

    def start(self, node: str) -> None:
        settings = {**self._settings, "dLegerGroup": NAME, "dLegerPeers": self.peers, "dLegerSelfId": node}
        if self.hosts:
            settings["raftSecretFile"] = self._secret_file()
        flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        where = ["--name", NAME, "--namesrv", self.namesrv, "--port", str(self.ports[node])]
        where += self._listening(self.address(node))
        self._begin(node, "broker", *where, "--store", str(self.root(node)), *flags)

    def _secret_file(self) -> str:
        path = str(self.directory / "raft.secret")
        if not Path(path).exists():
            write_secrets(RealFiles(), path, Secrets(os.urandom(SECRET_SIZE_BYTES)))
        return path

    def _listening(self, address: str) -> list[str]:
        return ["--host", address.partition(":")[0], "--insecure"] if self.hosts else []

    def _begin(self, name: str, *arguments: str) -> None:
        inside = self.hosts.inside(name) if self.hosts and name in self.ports else []
        machine = self.machines.environment(name) if self.machines and name in self.ports else {}
        with (self.directory / f"{name}.log").open("ab") as output:
            self._processes[name] = subprocess.Popen(
                [*inside, *self._command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **machine},
            )

    def address(self, node: str) -> str:
        return f"{self.hosts.addresses[node] if self.hosts else LOOPBACK}:{self.ports[node]}"

    def pid(self, node: str) -> int:
        return self._processes[node].pid

    def send_signal(self, node: str, number: int) -> None:
        os.kill(self.pid(node), number)

    def kill(self, node: str) -> None:
        """``kill -9``."""
        self._processes[node].kill()
        self._processes[node].wait(STOP_TIMEOUT_S)

    def stop(self, node: str) -> int:
        """Stop a node in order; return its exit code."""
        self._processes[node].send_signal(signal.SIGTERM)
        return self._processes[node].wait(STOP_TIMEOUT_S)

    def root(self, node: str) -> Path:
        return self.directory / node

    def output(self, node: str) -> str:
        """Return what a process has printed."""
        return (self.directory / f"{node}.log").read_text()

    # -- the group -----------------------------------------------------------------------------------------------

    def node_at(self, address: str) -> str:
        return next(node for node in self.ports if address == self.address(node))

    async def ids(self, admin: Admin) -> dict[str, int]:
        """Return node -> the brokerId that it is registered with."""
        try:
            brokers = (await admin.cluster.info()).broker_addr_table
        except PymqError:
            return {}
        return {
            self.node_at(address): broker_id
            for broker in brokers.values()
            for broker_id, address in broker.broker_addrs.items()
        }

    async def until_registered(self, admin: Admin) -> str:
        """Wait until each node is registered, one of them as the master; return that one."""
        async with asyncio.timeout(WAIT_S):
            while True:
                ids = await self.ids(admin)
                if len(ids) == len(self.ports) and 0 in ids.values():
                    return next(node for node, broker_id in ids.items() if broker_id == 0)
                await asyncio.sleep(_STEP_S)

    async def leader(self, admin: Admin, *, besides: str = "") -> str:
        """Wait for a registered master that is not ``besides``."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found = [node for node, broker_id in (await self.ids(admin)).items() if broker_id == 0]
                if found and found[0] != besides:
                    return found[0]
                await asyncio.sleep(_STEP_S)

    def log_bytes(self, node: str) -> bytes:
        """Return a stopped node's log."""
        log = ClosedLog(RealFiles(), str(self.root(node)), SEGMENT_BYTES)
        paths = sorted((self.root(node) / "commitlog").iterdir())
        return b"".join(path.read_bytes() for path in paths if path.name.isdigit())[: log.end]
