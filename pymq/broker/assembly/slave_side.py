"""SlaveSide: a slave's side of replication: it follows its master's log and copies its tables."""

from __future__ import annotations

from pymq.broker.assembly.side_parts import SideParts
from pymq.broker.replication.peer_proof import Prove
from pymq.broker.replication.roles.owner import Owner
from pymq.broker.replication.slave.ha_client import TICK_PERIOD_MS as HA_CLIENT_TICK_PERIOD_MS
from pymq.broker.replication.slave.ha_client import HaClient
from pymq.broker.replication.slave.metadata_copy import HaClientAndTables, metadata_copy
from pymq.broker.runtime import Runtime
from pymq.broker.work.jobs import TICK_PERIOD_MS, Job
from pymq.wire.bodies_replication import HaClientState, SlaveState

HA_CLIENT_JOB = "link to the master"


class SlaveSide:
    """A :class:`pymq.broker.replication.side.ReplicationSide`."""

    has_all_slaves = True

    accept = None

    def __init__(self, runtime: Runtime, side_parts: SideParts, owner: Owner, prove: Prove | None) -> None:
        store, messages, replication = side_parts.store, side_parts.messages, side_parts.replication
        self._delays = messages.delays
        self._timers = messages.timers
        self.follower = store.follow()
        self.ha_client = HaClient(
            runtime,
            store=store,
            follower=self.follower,
            own=replication.own_role,
            request_sync=messages.flusher.request,
            wake_in=lambda delay_ms: owner.hasten_job(HA_CLIENT_JOB, delay_ms),
            prove=prove,
        )
        self.metadata_copy = metadata_copy(
            runtime,
            store=side_parts.store,
            metadata=side_parts.metadata,
            delays=messages.delays,
            ha_client=self.ha_client,
            tables=side_parts.tables,
            config_tables=side_parts.config_tables,
        )
        self.ha_client_and_tables = HaClientAndTables(self.ha_client, self.metadata_copy)

    def open(self) -> None:
        """See :class:`ReplicationSide`, as with all that follow. Offsets came with the tables."""
        self._delays.load()
        self._timers.open(is_master=False)

    def end_turn(self) -> None:
        self.ha_client.end_turn()

    def close(self, why: str) -> None:
        self.ha_client.close()
        self.metadata_copy.close()

    def jobs(self) -> list[Job]:
        return [
            Job(HA_CLIENT_JOB, HA_CLIENT_TICK_PERIOD_MS, self.ha_client.tick),
            Job("tables of the master", TICK_PERIOD_MS, self.metadata_copy.tick),
        ]

    def members(self) -> list[str]:
        return [self.ha_client.master_address] if self.ha_client.master_address else []

    def note_master(self, master_address: str, ha_address: str) -> None:
        self.ha_client.note_master(master_address, ha_address)

    def slave_states(self) -> list[SlaveState]:
        return []

    def ha_client_state(self) -> HaClientState | None:
        return self.ha_client_and_tables.state()

    @property
    def master_address(self) -> str:
        return self.ha_client.master_address

    @property
    def is_following(self) -> bool:
        return self.ha_client.is_following

    @property
    def has_caught_up(self) -> bool:
        return self.ha_client.has_caught_up

    @property
    def tables_fence(self) -> int:
        return self.metadata_copy.fence
