"""RaftPlace: a broker that is a node of a Raft group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pymq.broker.assembly.follower_side import FollowerSide
from pymq.broker.assembly.group_place import GroupPlace, PartsInPlace, ServingBroker, Tables
from pymq.broker.assembly.master_side import MasterSide
from pymq.broker.assembly.raft_hosting import OpenSettings, RaftHosting, listen_as_member, member_record
from pymq.broker.assembly.replication import SlavesInRole
from pymq.broker.assembly.side_parts import SideParts
from pymq.broker.handlers.handlers import ReplicaHandlers
from pymq.broker.handlers.raft import RaftHandlers
from pymq.broker.handlers.replicas import LeaderReplicaHandlers
from pymq.broker.metadata.cursors import CursorManager, MaxOffset
from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.raft.answer_proof import AnswerProof
from pymq.broker.raft.current_reads import current
from pymq.broker.raft.group import RaftGroup
from pymq.broker.raft.group_epochs import GroupEpochFile
from pymq.broker.raft.logged_cursors import LoggedCursors, confirming, refusing_commits
from pymq.broker.raft.logged_tables import LoggedTable
from pymq.broker.raft.majority import MajorityMode, Replicas
from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.master_monitor import MasterMonitor
from pymq.broker.replication.roles.owner import Owner
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.roles.role_file import RoleRecord
from pymq.broker.replication.roles.role_switch import RoleSwitch
from pymq.broker.replication.side import ReplicationSide
from pymq.broker.replication.startup_check import StartupCheck
from pymq.broker.replication.sync_mode import SyncMode
from pymq.broker.request_row import Row, Rule
from pymq.broker.runtime import Runtime
from pymq.broker.work.jobs import SLOW_TICK_PERIOD_MS, Job
from pymq.net.server import Server
from pymq.store.replica.epoch_table import epoch_table
from pymq.store.store import MessageStore
from pymq.wire.dispatch import Dispatcher, Handler


class MakeHosting(Protocol):
    """Makes what hosts the node, once the broker listens; ``was_master``: of the plain group, at the last stop."""

    def __call__(self, members: OpenSettings, *, was_master: bool) -> RaftHosting: ...


class RaftPlace(GroupPlace):
    """See :class:`GroupPlace` for all methods."""

    replaces_registration = True  # a name server that is away costs no time

    def __init__(
        self, members: OpenSettings, make_hosting: MakeHosting, *, was_master: bool, known_peers: KnownPeers
    ) -> None:
        self.known_peers = known_peers
        self._members = members
        self._make_hosting = make_hosting
        self._was_master = was_master
        self._hosting: RaftHosting | None = None

    def host(self) -> RaftHosting:
        """Begin to host the node. The broker's parts are closed."""
        self._hosting = self._make_hosting(self._members, was_master=self._was_master)
        return self._hosting

    @property
    def _hosted(self) -> RaftHosting:
        assert self._hosting is not None
        return self._hosting

    @property
    def group(self) -> RaftGroup | None:
        return self._hosting.group if self._hosting is not None else None

    @property
    def keeps_role(self) -> bool:
        return self._hosting is None or not self._hosting.group.gate.founded

    @property
    def closed_dispatcher(self) -> Dispatcher | None:
        return self._hosting.dispatcher if self._hosting is not None else None

    async def first_role(self, check: StartupCheck, record: RoleRecord) -> tuple[RoleRecord, Role]:
        return member_record(self._members.settings)

    async def begin(self, switch: RoleSwitch) -> None:
        await self.host().prepare()

    def opened(self, runtime: Runtime) -> None: ...

    async def listen(self, server: Server, runtime: Runtime) -> None:
        await listen_as_member(self._members.settings, server, runtime.config)

    def serves_later(self, broker: ServingBroker) -> bool:
        if not self._hosted.is_running:
            broker.refuse("the broker waits for the leader of its Raft group")
            self._hosted.start(broker.server)
        return True

    def of_next_parts(self) -> GroupPlace:
        return self

    def attach(self, parts: PartsInPlace) -> None:
        side = parts.side
        self._hosted.group.attach(
            parts,
            follower=side.follower if isinstance(side, FollowerSide) else None,
            history=parts.replication.epoch_file.history,
            was_clean=parts.replication.tail_recovery.was_clean,
            commit=parts.messages.writer.commit,
            request_sync=parts.messages.flusher.request,
            check_writes=parts.replication.sync_mode.check,
        )

    def detach(self) -> None:
        self._hosted.group.detach()

    def end_turn(self) -> None:
        if self._hosting is not None:
            self._hosting.group.end_turn()

    async def discard(self) -> None:
        await self._hosted.discard()

    async def hand_over(self) -> None:
        await self._hosted.hand_over()

    async def stop(self) -> None:
        if self._hosting is not None:
            await self._hosting.stop()

    @property
    def answer_proof(self) -> AnswerProof | None:
        return self._hosted.group.answer_proof

    @property
    def on_lost_end(self) -> Callable[[str], None] | None:
        return self._hosted.group.on_lost_end

    def tables(self, runtime: Runtime, *, is_master: bool) -> Tables:
        logged = self._hosted.group.tables.config_tables(leads=is_master)
        return Tables(logged, logged)

    def master_cursors(self, runtime: Runtime, saver: TableSaver, max_offset: MaxOffset) -> CursorManager:
        assert isinstance(saver, LoggedTable)
        return LoggedCursors(saver, clock=runtime.clock, config=runtime.config, max_offset=max_offset)

    def slaves(self, runtime: Runtime, store: MessageStore, owner: Owner) -> HaService | Replicas:
        return self._hosted.group.replicas

    def epoch_file(self, runtime: Runtime) -> EpochFile:
        table = epoch_table(runtime.files, runtime.root)
        return GroupEpochFile(table, runtime.rng, self._hosted.group.history_of)

    def sync_mode(self, runtime: Runtime, role: Role, store: MessageStore, slaves: SlavesInRole) -> SyncMode:
        return MajorityMode(self._hosted.group, config=runtime.config, store=store, role=role, slaves=slaves)

    def slave_side(self, runtime: Runtime, side_parts: SideParts, owner: Owner) -> ReplicationSide:
        return FollowerSide(runtime, side_parts, self._hosted.group)

    def begin_parts(self, parts: PartsInPlace) -> None:
        self._hosted.group.tables.open(
            parts.store, parts.messages.writer, parts.runtime.schedule_turn_end, leads=parts.role.is_master
        )

    def jobs(self, monitor: MasterMonitor) -> list[Job]:
        return [Job("tables of the Raft group", SLOW_TICK_PERIOD_MS, self._hosted.group.tables.tick)]

    def raft_handlers(self, broker_name: str) -> RaftHandlers:
        return RaftHandlers(self.group, broker_name)

    def replica_handlers(self, parts: PartsInPlace, side: MasterSide) -> ReplicaHandlers:
        return LeaderReplicaHandlers(parts.runtime.config, side.table_requests)

    def on_master(self, row: Row, cursors: CursorManager) -> Handler:
        handler = row.handler
        if row.has(Rule.AWAITS_OFFSETS):
            assert isinstance(cursors, LoggedCursors)
            handler = confirming(handler, cursors)
        return current(handler, self._hosted.group.reads) if row.has(Rule.CURRENT) else handler

    def on_slave(self, row: Row, text: Callable[[str], str]) -> Handler:
        return refusing_commits(row.handler, text) if row.has(Rule.AWAITS_OFFSETS) else row.handler
