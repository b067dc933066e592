"""PlainPlace: a broker alone, or a master with slaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pymq.broker.assembly.group_place import GroupPlace, PartsInPlace, ServingBroker, Tables
from pymq.broker.assembly.master_side import MasterSide
from pymq.broker.assembly.replication import SlavesInRole
from pymq.broker.assembly.side_parts import SideParts
from pymq.broker.assembly.slave_side import SlaveSide
from pymq.broker.handlers.handlers import ReplicaHandlers
from pymq.broker.handlers.raft import RaftHandlers
from pymq.broker.handlers.replicas import MasterReplicaHandlers
from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.metadata.cursors import CursorManager, MaxOffset
from pymq.broker.metadata.table_saver import TableSaver, ending_turns
from pymq.broker.raft.answer_proof import AnswerProof
from pymq.broker.raft.majority import Replicas
from pymq.broker.raft.node_directory import leave_group
from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.peer_proof import NO_PROOF, PeerProof
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.master_monitor import MasterMonitor
from pymq.broker.replication.roles.owner import Owner
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.roles.role_file import RoleRecord
from pymq.broker.replication.roles.role_switch import RoleSwitch
from pymq.broker.replication.side import ReplicationSide
from pymq.broker.replication.startup_check import StartupCheck
from pymq.broker.replication.sync_mode import SyncMode
from pymq.broker.report.registration import REGISTRATION_JOB
from pymq.broker.request_row import Row
from pymq.broker.runtime import Runtime
from pymq.broker.work.jobs import TICK_PERIOD_MS, Job
from pymq.net.server import Server
from pymq.store.replica.epoch_table import epoch_table
from pymq.store.store import MessageStore
from pymq.wire.dispatch import Dispatcher, Handler

if TYPE_CHECKING:
    from pymq.broker.raft.group import RaftGroup


class PlainPlace(GroupPlace):
    """See :class:`GroupPlace` for all methods."""

    group: RaftGroup | None = None
    keeps_role = False
    replaces_registration = False
    closed_dispatcher: Dispatcher | None = None
    answer_proof: AnswerProof | None = None
    on_lost_end: Callable[[str], None] | None = None

    def __init__(self, known_peers: KnownPeers, peer_proof: PeerProof = NO_PROOF) -> None:
        """``known_peers``: of this broker's earlier parts too; ``peer_proof``: between slaves and their master."""
        self.known_peers = known_peers
        self._peer_proof = peer_proof

    async def first_role(self, check: StartupCheck, record: RoleRecord) -> tuple[RoleRecord, Role]:
        return await check.role(record)

    async def begin(self, switch: RoleSwitch) -> None: ...

    def opened(self, runtime: Runtime) -> None:
        leave_group(runtime.files, runtime.root)

    async def listen(self, server: Server, runtime: Runtime) -> None: ...

    def serves_later(self, broker: ServingBroker) -> bool:
        return False

    def of_next_parts(self) -> GroupPlace:
        return self

    def attach(self, parts: PartsInPlace) -> None: ...

    def detach(self) -> None: ...

    def end_turn(self) -> None: ...

    async def discard(self) -> None:
        raise AssertionError("a plain group's broker never discards its log")

    async def hand_over(self) -> None: ...

    async def stop(self) -> None: ...

    def tables(self, runtime: Runtime, *, is_master: bool) -> Tables:
        run, files, root = runtime.run_in_thread, runtime.files, runtime.root
        return Tables(
            ConfigTables(files, root, run), ConfigTables(files, root, ending_turns(run, runtime.schedule_turn_end))
        )

    def master_cursors(self, runtime: Runtime, saver: TableSaver, max_offset: MaxOffset) -> CursorManager:
        return CursorManager(saver, clock=runtime.clock, config=runtime.config, max_offset=max_offset)

    def slaves(self, runtime: Runtime, store: MessageStore, owner: Owner) -> HaService | Replicas:
        service = HaService(
            store=store,
            clock=runtime.clock,
            config=runtime.config,
            rng=runtime.rng,
            known_peers=self.known_peers,
            peer_proof=self._peer_proof,
        )
        service.on_member = lambda: owner.hasten_job(REGISTRATION_JOB, 0)
        return service

    def epoch_file(self, runtime: Runtime) -> EpochFile:
        return EpochFile(epoch_table(runtime.files, runtime.root), runtime.rng)

    def sync_mode(self, runtime: Runtime, role: Role, store: MessageStore, slaves: SlavesInRole) -> SyncMode:
        return SyncMode(config=runtime.config, store=store, role=role, slaves=slaves)

    def slave_side(self, runtime: Runtime, side_parts: SideParts, owner: Owner) -> ReplicationSide:
        return SlaveSide(runtime, side_parts, owner, self._peer_proof.prove)

    def begin_parts(self, parts: PartsInPlace) -> None: ...

    def jobs(self, monitor: MasterMonitor) -> list[Job]:
        return [Job("group of brokers", TICK_PERIOD_MS, monitor.tick)]

    def raft_handlers(self, broker_name: str) -> RaftHandlers:
        return RaftHandlers(None, broker_name)

    def replica_handlers(self, parts: PartsInPlace, side: MasterSide) -> ReplicaHandlers:
        replication = parts.replication
        assert isinstance(side.ha_service, HaService)
        return MasterReplicaHandlers(
            config=parts.runtime.config,
            store=parts.store,
            ha_service=side.ha_service,
            table_requests=side.table_requests,
            epoch_history=lambda: replication.epoch_file.history,
            why_not=lambda: replication.tail_recovery.fenced_for,
            known_peers=replication.known_peers,
        )

    def on_master(self, row: Row, cursors: CursorManager) -> Handler:
        return row.handler

    def on_slave(self, row: Row, text: Callable[[str], str]) -> Handler:
        return row.handler
