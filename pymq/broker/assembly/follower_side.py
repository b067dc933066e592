"""FollowerSide: a Raft follower's side of replication: bytes come from the driver, tables from the leader."""

from __future__ import annotations

from pymq.broker.assembly.side_parts import SideParts
from pymq.broker.raft.group import RaftGroup
from pymq.broker.replication.slave.metadata_copy import metadata_copy
from pymq.broker.runtime import Runtime
from pymq.broker.work.jobs import TICK_PERIOD_MS, Job
from pymq.wire.bodies_replication import HaClientState, SlaveState


class FollowerSide:
    """A :class:`pymq.broker.replication.side.ReplicationSide`. To :func:`metadata_copy` it is the followed master."""

    accept = None
    tables_fence = 0

    def __init__(self, runtime: Runtime, side_parts: SideParts, group: RaftGroup) -> None:
        messages = side_parts.messages
        self._group = group
        self._delays = messages.delays
        self._timers = messages.timers
        self.follower = side_parts.store.follow()
        self.metadata_copy = metadata_copy(
            runtime,
            store=side_parts.store,
            metadata=side_parts.metadata,
            delays=messages.delays,
            ha_client=self,
            tables=side_parts.tables,
            config_tables=side_parts.config_tables,
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
