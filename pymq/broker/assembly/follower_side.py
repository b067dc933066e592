"""FollowerSide: a Raft follower's side of replication: bytes come from the driver, tables from the leader."""

from __future__ import annotations

from collections.abc import Sequence

from pymq.broker.assembly.messages import Messages
from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.raft.group import RaftGroup
from pymq.broker.replication.slave.metadata_copy import metadata_copy
from pymq.broker.replication.tables.replicated_tables import ReplicatedTable
from pymq.broker.work.jobs import TICK_PERIOD_MS, Job
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.store.store import MessageStore
from pymq.wire.bodies_replication import HaClientState, SlaveState
from pymq.wire.streams import Network


class FollowerSide:
    """A :class:`pymq.broker.replication.side.ReplicationSide`. To :func:`metadata_copy` it is the followed master."""

    def __init__(
        self,
        *,
        group: RaftGroup,
        config: BrokerConfig,
        clock: Clock,
        network: Network,
        store: MessageStore,
        metadata: Metadata,
        messages: Messages,
        tables: Sequence[ReplicatedTable],
        config_tables: ConfigTables,
    ) -> None:
        self._group = group
        self._delays = messages.delays
        self._timers = messages.timers
        self.follower = store.follow()
        self.metadata_copy = metadata_copy(
            config=config,
            clock=clock,
            network=network,
            store=store,
            metadata=metadata,
            delays=messages.delays,
            ha_client=self,
            tables=tables,
            config_tables=config_tables,
        )

    def open(self) -> None:
        """See :class:`ReplicationSide`, as with all that follow. Offsets came with the tables."""
        self._delays.load()
        self._timers.open(is_master=False)

    def end_turn(self) -> None:
        """The group takes its turn behind all parts."""

    def close(self, why: str) -> None:
        self.metadata_copy.close()

    def jobs(self) -> list[Job]:
        return [
            Job("tables of the leader", TICK_PERIOD_MS, self.metadata_copy.tick),
            Job("tables of the log", TICK_PERIOD_MS, lambda: self._group.tables.confirmed(self._group.confirm_offset)),
        ]

    def members(self) -> list[str]:
        return [self.master_address] if self.master_address else []

    def note_master(self, master_address: str, ha_address: str) -> None: ...

    def note_master_end(self, log_end: int) -> None: ...

    def slave_states(self) -> list[SlaveState]:
        return []

    def ha_client_state(self) -> HaClientState | None:
        return None

    @property
    def has_all_slaves(self) -> bool:
        return True

    @property
    def master_address(self) -> str:
        return self._group.leader_address

    @property
    def is_following(self) -> bool:
        return bool(self._group.leader_address)

    @property
    def has_caught_up(self) -> bool:
        return self.is_following
