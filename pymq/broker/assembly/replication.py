"""Replication: what a broker of either role has of its group: epoch history, sync mode, write fence, tail recovery."""

from __future__ import annotations

import random
from collections.abc import Callable

from pymq.broker.metadata.metadata import Metadata
from pymq.broker.raft.group import RaftGroup
from pymq.broker.raft.group_epochs import GroupEpochFile
from pymq.broker.raft.majority import MajorityMode, Replicas
from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.history.log_proof import OwnLog
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.roles.group_probe import GroupProbe
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.master_role import SeenMasterRole
from pymq.broker.replication.roles.member_proof import MemberProof
from pymq.broker.replication.roles.role import ChangeRole, Role
from pymq.broker.replication.roles.write_fence import WriteFence
from pymq.broker.replication.sync_mode import NoSlaves, SyncMode
from pymq.broker.replication.tail_recovery.tail_recovery import TailRecovery
from pymq.broker.replication.tail_recovery.unsynced_replicas import UnsyncedReplicas, unsynced_replicas_table
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.store.disk.fs import Files
from pymq.store.replica.epoch_table import epoch_table
from pymq.store.store import MessageStore
from pymq.wire.streams import Network


class Replication:
    """The parts that do not differ by role; those that do are behind
    :class:`pymq.broker.replication.side.ReplicationSide`."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        rng: random.Random,
        role: Role,
        network: Network,
        store: MessageStore,
        metadata: Metadata,
        slaves: HaService | NoSlaves | Replicas,
        files: Files,
        change_role: ChangeRole,
        on_master_role: Callable[[str], None],
        known_peers: KnownPeers,
        raft: RaftGroup | None = None,
    ) -> None:
        """``on_master_role`` hears what kind of master the group has, each time one is seen."""
        self.known_peers = known_peers
        table = epoch_table(files, config.store_path_root_dir)
        self.epoch_file = EpochFile(table, rng) if raft is None else GroupEpochFile(table, rng, raft.history_of)
        proof = MemberProof(network, lambda: self.epoch_file.history, lambda: _own_log(store))
        self.group_probe = GroupProbe(network, config.broker_name, known_peers.note_listed, proof.check)
        self.master_role = SeenMasterRole(role.master_role, on_master_role)
        self.sync_mode = SyncMode(config=config, store=store, role=role, slaves=slaves)
        if raft is not None:
            self.sync_mode = MajorityMode(raft, config=config, store=store, role=role, slaves=slaves)
        self.write_fence = WriteFence(store, metadata.cursors, metadata.pending_offsets, clock)
        self.tail_recovery = TailRecovery(
            config=config,
            store=store,
            role=role,
            epoch_file=self.epoch_file,
            unsynced=UnsyncedReplicas(
                unsynced_replicas_table(files, config.store_path_root_dir),
                clock,
                lambda: config.ha_housekeeping_interval_ms,
            ),
            slaves=slaves,
            sync_mode=self.sync_mode,
            group_probe=self.group_probe,
            change_role=change_role,
            clock=clock,
        )


def _own_log(store: MessageStore) -> OwnLog:
    return OwnLog(
        store.physical_min_offset, store.physical_max_offset, store.settings.segment_size_bytes, store.tail_digest
    )
