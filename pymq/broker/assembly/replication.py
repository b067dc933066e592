"""Replication: what a broker of either role has of its group: epoch history, sync mode, write fence, tail recovery."""

from __future__ import annotations

from typing import Protocol

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.raft.majority import Replicas
from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.history.log_proof import OwnLog
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.roles.group_probe import GroupProbe
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.master_role import SeenMasterRole
from pymq.broker.replication.roles.member_proof import MemberProof
from pymq.broker.replication.roles.own_role import OwnRole
from pymq.broker.replication.roles.owner import Owner
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.roles.write_fence import WriteFence
from pymq.broker.replication.sync_mode import NoSlaves, SyncMode
from pymq.broker.replication.tail_recovery.tail_recovery import TailRecovery
from pymq.broker.replication.tail_recovery.unsynced_replicas import UnsyncedReplicas, unsynced_replicas_table
from pymq.broker.runtime import Runtime
from pymq.store.store import MessageStore

SlavesInRole = HaService | NoSlaves | Replicas


class ReplicationPlace(Protocol):
    """What is asked of :class:`pymq.broker.assembly.group_place.GroupPlace`."""

    known_peers: KnownPeers

    def epoch_file(self, runtime: Runtime) -> EpochFile: ...

    def sync_mode(self, runtime: Runtime, role: Role, store: MessageStore, slaves: SlavesInRole) -> SyncMode: ...


class Replication:
    """The parts of replication that every role has.

    :class:`pymq.broker.replication.side.ReplicationSide` has the parts of one role.
    """

    def __init__(
        self,
        runtime: Runtime,
        role: Role,
        place: ReplicationPlace,
        owner: Owner,
        *,
        store: MessageStore,
        metadata: Metadata,
        slaves: SlavesInRole,
    ) -> None:
        self.known_peers = known_peers = place.known_peers
        self.epoch_file = place.epoch_file(runtime)
        proof = MemberProof(runtime.network, lambda: self.epoch_file.history, lambda: _own_log(store))
        self.group_probe = GroupProbe(runtime.network, runtime.config.broker_name, known_peers.note_listed, proof.check)
        self.master_role = SeenMasterRole(role.master_role, owner.on_master_role)
        self.own_role = OwnRole(role, self.epoch_file, self.master_role, owner.change_role)
        self.sync_mode = place.sync_mode(runtime, role, store, slaves)
        self.write_fence = WriteFence(store, metadata.cursors, metadata.pending_offsets, runtime.clock)
        self.tail_recovery = TailRecovery(
            runtime,
            store=store,
            own=self.own_role,
            unsynced=UnsyncedReplicas(
                unsynced_replicas_table(runtime.files, runtime.root),
                runtime.clock,
                lambda: runtime.config.ha_housekeeping_interval_ms,
            ),
            slaves=slaves,
            sync_mode=self.sync_mode,
            group_probe=self.group_probe,
        )


def _own_log(store: MessageStore) -> OwnLog:
    return OwnLog(
        store.physical_min_offset, store.physical_max_offset, store.settings.segment_size_bytes, store.tail_digest
    )
