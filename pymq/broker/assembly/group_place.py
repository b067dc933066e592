"""GroupPlace: how a broker belongs to its group. One object answers for all that differs between the kinds of groups.

:class:`pymq.broker.assembly.plain_place.PlainPlace` is alone, or a master or slave;
:class:`pymq.broker.assembly.waiting_place.WaitingPlace` is that until its Raft group is founded;
:class:`pymq.broker.assembly.raft_place.RaftPlace` is a node. No other module of the broker asks which of them it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pymq.broker.assembly.master_side import MasterSide
from pymq.broker.assembly.messages import Messages
from pymq.broker.assembly.replication import Replication, SlavesInRole
from pymq.broker.assembly.side_parts import SideParts
from pymq.broker.handlers.handlers import ReplicaHandlers
from pymq.broker.handlers.raft import RaftHandlers
from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.metadata.cursors import CursorManager, MaxOffset
from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.raft.answer_proof import AnswerProof
from pymq.broker.raft.majority import Replicas
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
from pymq.broker.request_row import Row
from pymq.broker.runtime import Runtime
from pymq.broker.work.jobs import Job
from pymq.net.server import Server
from pymq.store.store import MessageStore
from pymq.wire.dispatch import Dispatcher, Handler

if TYPE_CHECKING:
    from pymq.broker.raft.group import RaftGroup


class Tables(NamedTuple):
    """Where a broker's tables are saved: those of its metadata, and others."""

    own: ConfigTables
    metadata: ConfigTables


class PartsInPlace(Protocol):
    """What a place asks of :class:`pymq.broker.assembly.parts.BrokerParts`."""

    @property
    def runtime(self) -> Runtime: ...
    @property
    def role(self) -> Role: ...
    @property
    def store(self) -> MessageStore: ...
    @property
    def messages(self) -> Messages: ...
    @property
    def replication(self) -> Replication: ...
    @property
    def side(self) -> ReplicationSide: ...


class ServingBroker(Protocol):
    """What a place asks of :class:`pymq.broker.assembly.broker.Broker`."""

    server: Server

    def refuse(self, why: str) -> None: ...


class GroupPlace(Protocol):
    """A broker's place, for the broker itself and for the parts that it opens in a role."""

    known_peers: KnownPeers

    # -- of the broker -------------------------------------------------------------------------------------------

    @property
    def group(self) -> RaftGroup | None:
        """The node's group; None in a plain group."""
        ...

    @property
    def keeps_role(self) -> bool:
        """True while the recorded role counts, though this broker may have another one by now."""
        ...

    @property
    def replaces_registration(self) -> bool:
        """True when the next role's registration takes the place of this one's at the name servers."""
        ...

    @property
    def closed_dispatcher(self) -> Dispatcher | None:
        """What answers members of the group while the broker's parts are closed."""
        ...

    async def first_role(self, check: StartupCheck, record: RoleRecord) -> tuple[RoleRecord, Role]:
        """Return the role to start in; ``record``: the recorded one. Raises UsageError, StoreError."""
        ...

    async def begin(self, switch: RoleSwitch) -> None:
        """Take part from now on. The broker listens, its store is closed. Raises OSError, StoreError."""
        ...

    def opened(self, runtime: Runtime) -> None:
        """Note that the broker's first parts are open. Raises OSError."""
        ...

    async def listen(self, server: Server, runtime: Runtime) -> None:
        """Listen where members of the group expect it. Raises UsageError."""
        ...

    def serves_later(self, broker: ServingBroker) -> bool:
        """Return True when the group says when the open parts serve, and closes ``broker`` until then."""
        ...

    def of_next_parts(self) -> GroupPlace:
        """Return the place of the parts that are opened next."""
        ...

    def attach(self, parts: PartsInPlace) -> None:
        """Use these open parts. Raises StoreError."""
        ...

    def detach(self) -> None:
        """Use no parts: they are about to be closed."""
        ...

    def end_turn(self) -> None:
        """Do what belongs at the end of a turn, behind the parts."""
        ...

    async def discard(self) -> None:
        """Have the next parts begin without the log. Raises OSError, StoreError."""
        ...

    async def hand_over(self) -> None:
        """Let another member lead before this broker stops."""
        ...

    async def stop(self) -> None:
        """Take part no more."""
        ...

    # -- of the parts --------------------------------------------------------------------------------------------

    @property
    def answer_proof(self) -> AnswerProof | None:
        """What proves answers to members; None in a plain group."""
        ...

    @property
    def on_lost_end(self) -> Callable[[str], None] | None:
        """Who hears that the disk has lost the log's end; None to drop it."""
        ...

    def tables(self, runtime: Runtime, *, is_master: bool) -> Tables:
        """Return the savers of this role's tables."""
        ...

    def master_cursors(self, runtime: Runtime, saver: TableSaver, max_offset: MaxOffset) -> CursorManager:
        """Return a master's or leader's manager of offsets."""
        ...

    def slaves(self, runtime: Runtime, store: MessageStore, owner: Owner) -> HaService | Replicas:
        """Return who copies a master's or leader's log."""
        ...

    def epoch_file(self, runtime: Runtime) -> EpochFile:
        """Return the saved epoch history."""
        ...

    def sync_mode(self, runtime: Runtime, role: Role, store: MessageStore, slaves: SlavesInRole) -> SyncMode:
        """Return the rule of which copies a send waits for."""
        ...

    def slave_side(self, runtime: Runtime, side_parts: SideParts, owner: Owner) -> ReplicationSide:
        """Return a slave's or follower's side of replication."""
        ...

    def begin_parts(self, parts: PartsInPlace) -> None:
        """Open what belongs to the group, before the parts' tables are read. Raises StoreError."""
        ...

    def jobs(self, monitor: MasterMonitor) -> list[Job]:
        """Return the periodic work."""
        ...

    def raft_handlers(self, broker_name: str) -> RaftHandlers:
        """Return what answers members of a Raft group."""
        ...

    def replica_handlers(self, parts: PartsInPlace, side: MasterSide) -> ReplicaHandlers:
        """Return a master's or leader's answers to slaves that join, or ask for tables."""
        ...

    def on_master(self, row: Row, cursors: CursorManager) -> Handler:
        """Return what answers a request at a master or leader."""
        ...

    def on_slave(self, row: Row, text: Callable[[str], str]) -> Handler:
        """Return what answers a request that a slave or follower serves; ``text`` makes the remark of a refusal."""
        ...
