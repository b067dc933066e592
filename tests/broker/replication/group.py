"""A master and slaves on files in memory: stores, HaServices and HaClients without the rest of a broker."""

from __future__ import annotations

import random
from typing import Any

from pymq.broker.handlers.log_copy import LogCopyHandlers
from pymq.broker.handlers.replicas import MasterReplicaHandlers
from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.master.table_requests import TableRequests
from pymq.broker.replication.peer_proof import NO_PROOF, PeerProof, Prove
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.master_role import SeenMasterRole
from pymq.broker.replication.roles.own_role import OwnRole
from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.broker.replication.slave.ha_client import HaClient
from pymq.clock import ManualClock
from pymq.config import BrokerConfig, load_broker_config
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.replica.epoch_table import epoch_table
from pymq.store.store import MessageStore
from pymq.wire.access import peers_only
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command
from pymq.wire.dispatch import Dispatcher, Route
from tests.broker.replication.cable import Cable
from tests.broker.world import FakePeer, runtime_of
from tests.store.support import ROOT, make_store, put

STEP_MS = 10
SEGMENT = 65536  # the least that may be configured
MASTER = "127.0.0.1:10911"
MASTER_HA = "127.0.0.1:10912"
# The operator named the host of all slaves; tests of other peers name none.
MASTER_SETTINGS: dict[str, Any] = {"listenPort": 10911, "haListenPort": 10912, "haSlaveHosts": "127.0.0.1"}


class Node:
    """A store with its epoch history, opened. ``files`` may hold an earlier life."""

    def __init__(self, clock: ManualClock, files: MemoryFiles | None = None, **settings: Any) -> None:
        self.clock = clock
        self.files = files or MemoryFiles()
        defaults = {"mappedFileSizeCommitLog": SEGMENT, "storePathRootDir": ROOT, "haTransferBatchSize": 4096}
        overrides = {key: str(value) for key, value in {**defaults, **settings}.items()}
        self.config: BrokerConfig = load_broker_config(None, overrides)
        self.store: MessageStore = make_store(
            self.files, clock, segment_size_bytes=self.config.mapped_file_size_commit_log_bytes
        )
        self.report = self.store.open()
        self.rng = random.Random(self.config.broker_id)
        self.epoch_file = EpochFile(epoch_table(self.files, ROOT), self.rng)
        self.epoch_file.load(self.store.physical_max_offset)

    @property
    def log(self) -> bytes:
        """Return all bytes of the log."""
        start, end = self.store.physical_min_offset, self.store.physical_max_offset
        parts = []
        while start < end:
            parts.append(bytes(self.store.read_log(start, end - start)))
            start += len(parts[-1])
        return b"".join(parts)


class Master(Node):
    """Answers join requests at ``MASTER`` and takes HA connections at ``MASTER_HA``."""

    def __init__(
        self,
        cable: Cable,
        clock: ManualClock,
        files: MemoryFiles | None = None,
        peer_proof: PeerProof = NO_PROOF,
        **settings: Any,
    ) -> None:
        super().__init__(clock, files, **{**MASTER_SETTINGS, **settings})
        self.cable = cable
        self.epoch_file.open_as_master(
            self.store.physical_max_offset,
            was_clean=self.report.clean,
            begins_epoch=not self.epoch_file.history.entries,
        )
        self.known_peers = KnownPeers(self.config, clock)
        self.ha_service = HaService(
            store=self.store,
            clock=clock,
            config=self.config,
            rng=self.rng,
            known_peers=self.known_peers,
            peer_proof=peer_proof,
        )
        handlers = MasterReplicaHandlers(
            config=self.config,
            store=self.store,
            ha_service=self.ha_service,
            table_requests=TableRequests(tables=[], store=self.store, clock=clock, fence=lambda: 0),
            epoch_history=lambda: self.epoch_file.history,
            known_peers=self.known_peers,
        )
        copies = LogCopyHandlers(config=self.config, store=self.store)
        routes = [
            Route(RequestCode.PYMQ_JOIN_MASTER, None, handlers.join, peers_only()),
            Route(RequestCode.PYMQ_LIST_LOG_DIGESTS, None, copies.digests, peers_only()),
        ]
        dispatcher = Dispatcher(routes, "broker")
        cable.answerers[MASTER] = lambda command: _dispatch(dispatcher, command)
        cable.listeners[MASTER_HA] = self.ha_service.accept

    def put(self, *bodies: bytes) -> None:
        """Store messages, one turn each."""
        for body in bodies:
            put(self.store, "T", 0, body, keys=f"k{len(body)}")
            self.ha_service.committed()

    def take_over(self, cable: Cable) -> None:
        """Answer at the master's addresses of another network."""
        cable.answerers |= self.cable.answerers
        cable.listeners |= self.cable.listeners

    def stop(self) -> None:
        """Stop cleanly. The address does not answer any more."""
        self.leave("the broker stops")
        end = self.store.physical_max_offset
        self.store.close()
        self.epoch_file.close(end)

    def leave(self, why: str) -> None:
        del self.cable.answerers[MASTER], self.cable.listeners[MASTER_HA]
        self.ha_service.close(why)


class Slave(Node):
    """Follows the broker that answers at ``MASTER``."""

    def __init__(
        self,
        cable: Cable,
        clock: ManualClock,
        files: MemoryFiles | None = None,
        broker_id: int = 1,
        prove: Prove | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(clock, files, **{"brokerId": broker_id, "listenPort": 20910 + broker_id, **settings})
        self.cable = cable
        self.follower = self.store.follow()
        self.role_changes: list[RoleChange] = []
        self.sync_requests = 0
        self.ha_client = HaClient(
            runtime_of(self.config, clock, self.files, network=cable, rng=random.Random(broker_id)),
            store=self.store,
            follower=self.follower,
            own=OwnRole(
                Role(broker_id), self.epoch_file, SeenMasterRole("", lambda name: None), self.role_changes.append
            ),
            request_sync=self._note_sync_request,
            prove=prove,
        )

    def _note_sync_request(self) -> None:
        self.sync_requests += 1

    def run(self, ms: int = STEP_MS) -> None:
        """Let time pass, and run everything that is due."""
        for _ in range(ms // STEP_MS):
            self.clock.advance(STEP_MS)
            self.ha_client.tick()
            self.cable.settle()
        self.ha_client.tick()


def following(cable: Cable, clock: ManualClock, master: Master, **settings: Any) -> Slave:
    """Return a slave that has found its master."""
    slave = Slave(cable, clock, **settings)
    slave.ha_client.note_master(MASTER, MASTER_HA)
    slave.run(20)
    assert slave.ha_client.is_following, slave.ha_client.state()
    return slave


def _dispatch(dispatcher: Dispatcher, command: Command) -> Command:
    reply = dispatcher.dispatch(FakePeer(), command)
    assert reply is not None
    return reply.to_command(command)
