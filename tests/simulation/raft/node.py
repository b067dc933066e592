"""A broker of a Raft group on its simulated machine: hosted as the real process does, and looked at after each turn."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from pymq.broker.assembly import raft_hosting as hosting
from pymq.broker.assembly.broker import Broker
from pymq.broker.raft.driver import TICK_MS
from pymq.broker.raft.group import RaftGroup
from pymq.broker.raft.run_record import BOOT_ID_PATH
from pymq.broker.raft.secret_file import write_secrets
from pymq.config import BrokerConfig
from pymq.raft.node import RaftNode
from pymq.store.disk.fs import make_directory
from pymq.store.disk.memory_fs import MemoryFiles
from tests.broker.raft.groups import SECRETS
from tests.simulation.broker_node import PORT, ROOT, SimBroker, SimJobRunner
from tests.simulation.timeline import MS

SECRET_PATH = "/etc/pymq/raft.secret"


class RaftJobRunner(SimJobRunner):
    """Runs the group's ticks."""

    tick_us = TICK_MS * MS


@contextmanager
def simulated_hosting() -> Iterator[None]:
    """Give simulated ticks to the groups that are hosted within this context."""
    names: Any = hosting
    real, names.JobRunner = names.JobRunner, RaftJobRunner
    try:
        yield
    finally:
        names.JobRunner = real


class _WatchedBroker(Broker):
    on_turn: Callable[[], None] = staticmethod(lambda: None)

    def _end_turn(self) -> None:
        super()._end_turn()
        self.on_turn()


def host_of(group: int, number: int) -> str:
    """Return the address of a machine."""
    return f"10.{group}.0.{number + 1}"


def group_settings(name: str, group: int, node_count: int, number: int) -> dict[str, Any]:
    """Return the settings that make a broker the member with this number."""
    peers = ";".join(f"n{each}-{host_of(group, each)}:{PORT}" for each in range(node_count))
    return {
        "enableDLegerCommitLog": "true",
        "dLegerGroup": name,
        "dLegerPeers": peers,
        "dLegerSelfId": f"n{number}",
        "raftSecretFile": SECRET_PATH,
    }


class RaftBroker(SimBroker):
    """A member of a group."""

    on_turn: Callable[[RaftBroker], None] = staticmethod(lambda broker: None)
    _boot_count = 0

    @property
    def raft(self) -> RaftGroup | None:
        """Its place in the group; None while it is dead, or before its node is there."""
        broker = self._broker if self.process.is_alive else None
        group = broker.raft if broker is not None else None
        return group if group is not None and group.driver is not None else None

    @property
    def node(self) -> RaftNode | None:
        """Its core; None while it is dead, or begins."""
        return self.raft.node if self.raft is not None else None

    @property
    def is_leader(self) -> bool:
        return self.node is not None and self.node.leadership is not None

    @property
    def node_id(self) -> str:
        return str(self._settings["dLegerSelfId"])

    def start(self) -> None:
        self._write_machine_files()
        super().start()

    def _make_broker(self, config: BrokerConfig, rng: random.Random) -> Broker:
        broker = _WatchedBroker(config, clock=self.clock, files=self.disk.files, rng=rng, now_s=self._timeline.now_s)
        broker.on_turn = self._turned
        return broker

    def _turned(self) -> None:
        if self.process.is_alive:
            self.on_turn(self)

    def _write_machine_files(self) -> None:
        files = self.disk.files
        fault, files.fault = files.fault, None  # it is no file on a disk
        make_directory(files, BOOT_ID_PATH.rpartition("/")[0])
        with closing(files.open(BOOT_ID_PATH, create=True)) as file:
            file.truncate(0)
            file.pwrite(0, b"boot-%d" % self._boot_count)
        make_directory(files, SECRET_PATH.rpartition("/")[0])
        write_secrets(files, SECRET_PATH, SECRETS)
        files.fault = fault

    def lose_power(self) -> None:
        self._boot_count += 1
        super().lose_power()

    def empty_disk(self) -> None:
        """Replace the dead machine's disk by an empty one."""
        assert not self.is_alive
        self._boot_count += 1
        self.disk.files = MemoryFiles(now_ms=self.clock.now_ms)
        self.disk._attach()

    def forget_log_end(self, chance: random.Random) -> None:
        """Take from the dead machine's disk a part of the newest log segment, which it had called synced."""
        files, directory = self.disk.files, f"{ROOT}/commitlog"
        if not files.exists(directory) or not (names := files.listdir(directory)):
            return
        node = files.nodes[f"{directory}/{max(names)}"]
        data = bytes(node.data).rstrip(b"\0")
        kept = chance.randrange(len(data) + 1)
        node.write(kept, bytes(len(data) - kept))
        node.sync()
