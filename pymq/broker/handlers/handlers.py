"""Handlers: the objects that answer requests, by the names that the table of requests uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pymq.broker.handlers.assignments import AssignmentHandlers
from pymq.broker.handlers.auth import AuthHandlers
from pymq.broker.handlers.clients import ClientHandlers
from pymq.broker.handlers.connections import ConnectionHandlers
from pymq.broker.handlers.consumption import ConsumptionHandlers
from pymq.broker.handlers.figures import FigureHandlers
from pymq.broker.handlers.filter_servers import FilterServerHandlers
from pymq.broker.handlers.groups_admin import GroupAdminHandlers
from pymq.broker.handlers.lite_pops import LitePopHandlers
from pymq.broker.handlers.lites import LiteHandlers
from pymq.broker.handlers.locks import LockHandlers
from pymq.broker.handlers.log_copy import LogCopyHandlers
from pymq.broker.handlers.offsets import OffsetHandlers
from pymq.broker.handlers.pop import PopHandlers
from pymq.broker.handlers.pull import PullHandlers
from pymq.broker.handlers.query import QueryHandlers
from pymq.broker.handlers.raft import RaftHandlers
from pymq.broker.handlers.raft_group import RaftGroupHandlers
from pymq.broker.handlers.relay import RelayHandlers
from pymq.broker.handlers.replication_status import ReplicationStatusHandlers
from pymq.broker.handlers.replies import ReplyHandlers
from pymq.broker.handlers.resets import ResetHandlers
from pymq.broker.handlers.role_change import RoleChangeHandlers
from pymq.broker.handlers.send import SendHandlers
from pymq.broker.handlers.send_back import SendBackHandlers
from pymq.broker.handlers.settings import SettingsHandlers
from pymq.broker.handlers.store_admin import StoreAdminHandlers
from pymq.broker.handlers.tables import TableHandlers
from pymq.broker.handlers.timers import TimerHandlers
from pymq.broker.handlers.topics_admin import TopicAdminHandlers
from pymq.broker.handlers.transactions import TransactionHandlers
from pymq.wire.command import Command
from pymq.wire.dispatch import Peer
from pymq.wire.reply import Reply


class ReplicaHandlers(Protocol):
    """The requests of slaves to their master. A slave refuses them."""

    def join(self, command: Command, header: None, peer: Peer) -> Reply: ...

    def copy_metadata(self, request: Command, header: None, peer: Peer) -> Reply | None: ...


@dataclass(frozen=True, slots=True)
class Handlers:
    """One object for each group of requests."""

    sends: SendHandlers
    replies: ReplyHandlers
    pulls: PullHandlers
    pops: PopHandlers
    lite_pops: LitePopHandlers
    send_back: SendBackHandlers
    transactions: TransactionHandlers
    offsets: OffsetHandlers
    clients: ClientHandlers
    assignments: AssignmentHandlers
    lites: LiteHandlers
    locks: LockHandlers
    query: QueryHandlers
    topics_admin: TopicAdminHandlers
    groups_admin: GroupAdminHandlers
    connections: ConnectionHandlers
    consumption: ConsumptionHandlers
    resets: ResetHandlers
    relay: RelayHandlers
    settings: SettingsHandlers
    figures: FigureHandlers
    store_admin: StoreAdminHandlers
    tables: TableHandlers
    replicas: ReplicaHandlers
    timers: TimerHandlers
    replication_status: ReplicationStatusHandlers
    role_change: RoleChangeHandlers
    raft_group: RaftGroupHandlers
    log_copy: LogCopyHandlers
    raft: RaftHandlers
    filter_servers: FilterServerHandlers
    auth: AuthHandlers
