"""StatusReport: a broker's replication status for requests 9103, 907 and 1007 and for the runtime table (28).

It is cheap enough for a request every second. Only the number of messages that a slave lacks needs work: a binary
search in each queue that lags.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from pymq.broker.addresses import own_address, own_ha_address
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.roles.role import Role
from pymq.broker.runtime import Runtime
from pymq.config.values import ASYNC_MASTER, SLAVE, SYNC_MASTER
from pymq.errors import StoreError
from pymq.store.replica.divergent_tail import list_truncations
from pymq.wire.bodies_admin import EpochCache, EpochRange, HaClientRuntimeInfo, HaConnectionInfo, HaStatus
from pymq.wire.bodies_replication import (
    REFUSED,
    EpochEntryBody,
    HaClientState,
    RecoveredTailState,
    ReplicationStatus,
    SlaveState,
    TruncationState,
)

if TYPE_CHECKING:
    from pymq.broker.raft.report import OperatedGroup
    from pymq.broker.replication.sync_mode import SyncMode
    from pymq.store.disk.fs import Files
    from pymq.store.store import MessageStore
    from pymq.wire.bodies_raft import RaftGroupState


class SideStates(Protocol):
    """What is asked of a :class:`pymq.broker.replication.side.ReplicationSide`."""

    def slave_states(self) -> list[SlaveState]: ...

    def ha_client_state(self) -> HaClientState | None: ...


class TruncationHistory:
    """All truncations of this log. They are read once: nothing truncates the log of an open store."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root
        self._truncations: list[TruncationState] | None = None
        self.problem = ""

    def truncations(self) -> list[TruncationState]:
        """Return them in the order of time. When they can't be read, :attr:`problem` says why."""
        if self._truncations is None:
            try:
                self._truncations = [
                    TruncationState(**asdict(state)) for state in list_truncations(self._files, self._root)
                ]
            except (OSError, StoreError) as error:
                self._truncations, self.problem = [], f"the records of this log's truncations can't be read: {error}"
        return self._truncations


def _group_state(group: OperatedGroup | None) -> RaftGroupState | None:
    if group is None:
        return None
    from pymq.broker.raft.report import group_state  # noqa: PLC0415 - a plain group's broker does without

    return group_state(group)


@dataclass(frozen=True, slots=True)
class AskedForStatus:
    """What is asked for each status, because it changes or is made later.

    Each text of ``troubles`` is a reason why this broker does not replicate as it should; empty texts don't count.
    """

    epoch_history: Callable[[], EpochHistory] = EpochHistory
    troubles: Callable[[], Iterable[str]] = tuple
    master_role: Callable[[], str] = str
    second_master: Callable[[], str] = str
    recovered_tail: Callable[[], RecoveredTailState | None] = lambda: None
    end_in_doubt: Callable[[], bool] = lambda: False
    raft: Callable[[], OperatedGroup | None] = lambda: None


class StatusReport:
    """Builds the status."""

    def __init__(
        self,
        runtime: Runtime,
        *,
        store: MessageStore,
        role: Role,
        sync_mode: SyncMode,
        side: SideStates,
        truncations: TruncationHistory | None = None,
        asked: AskedForStatus = AskedForStatus(),
    ) -> None:
        self._config = runtime.config
        self._store = store
        self._role = role
        self._sync_mode = sync_mode
        self._side = side
        self._truncations = truncations
        self._asked = asked

    @property
    def role_name(self) -> str:
        """RocketMQ's name of the role that this broker has now."""
        if not self._role.is_master:
            return SLAVE
        return SYNC_MASTER if self._sync_mode.is_on else ASYNC_MASTER

    def status(self) -> ReplicationStatus:
        """Return the answer to request 9103. It looks at all queues."""
        return replace(self._status(), message_count=sum(queue.max_offset for queue in self._store.queue_views()))

    def _status(self) -> ReplicationStatus:
        """Return the status without the number of messages."""
        config, store = self._config, self._store
        slaves = self._slaves()
        truncations = self._truncations.truncations() if self._truncations is not None else []
        return ReplicationStatus(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            broker_id=self._role.broker_id,
            former_id=self._role.former_id,
            role=self.role_name,
            master_role=self._asked.master_role(),
            address=own_address(config),
            ha_address=own_ha_address(config),
            segment_size_bytes=store.settings.segment_size_bytes,
            log_start=store.physical_min_offset,
            log_end=store.physical_max_offset,
            confirm_offset=self._sync_mode.confirm_offset(),
            epoch_history=[
                EpochEntryBody(entry.epoch, entry.start, entry.epoch_id)
                for entry in self._asked.epoch_history().entries
            ],
            required_slaves=self._sync_mode.required_slaves,
            in_sync_slaves=sum(slave.in_sync for slave in slaves),
            degraded=self._sync_mode.is_degraded,
            problem=self._problem(),
            second_master=self._asked.second_master(),
            slaves=slaves,
            ha_client=self._side.ha_client_state(),
            truncations=truncations,
            recovered_tail=self._asked.recovered_tail(),
            end_in_doubt=self._asked.end_in_doubt(),
            raft=_group_state(self._asked.raft()),
        )

    def _problem(self) -> str:
        truncations = [self._truncations.problem] if self._truncations is not None else []
        return "; ".join(filter(None, [*self._asked.troubles(), *truncations]))

    def _slaves(self) -> list[SlaveState]:
        """Return all slaves, also slaves that are gone: their lag grows meanwhile."""
        return [replace(state, **self._lag(state)) for state in self._side.slave_states()]

    def _lag(self, slave: SlaveState) -> dict[str, int]:
        if slave.state == REFUSED:
            return {"lag_bytes": -1, "lag_ms": -1}
        return {
            "lag_bytes": max(0, self._store.physical_max_offset - slave.ack_offset),
            "lag_messages": self._messages_behind(slave.ack_offset),
        }

    def _messages_behind(self, offset: int) -> int:
        """Return -1 when a queue can't be read, so that the rest of the status is still there."""
        if offset >= self._store.physical_max_offset:
            return 0
        try:
            return sum(queue.count_from(offset) for queue in self._store.queue_views())
        except (OSError, StoreError):
            return -1

    def ha_status(self) -> HaStatus:
        """Return the answer to RocketMQ's request 907."""
        end = self._store.physical_max_offset
        states = [slave for slave in self._slaves() if slave.is_connected]
        return HaStatus(
            master=self._role.is_master,
            master_commit_log_max_offset=end,
            in_sync_slave_nums=sum(slave.in_sync for slave in states),
            ha_connection_info=[
                HaConnectionInfo(
                    addr=slave.address,
                    slave_ack_offset=slave.ack_offset,
                    diff=slave.lag_bytes,
                    in_sync=slave.in_sync,
                    transferred_byte_in_second=slave.bytes_per_second,
                    transfer_from_where=slave.sent_offset,
                )
                for slave in states
            ],
            ha_client_runtime_info=self._client_info(end),
        )

    def _client_info(self, log_end: int) -> HaClientRuntimeInfo:
        ha_client = self._side.ha_client_state()
        if ha_client is None:
            return HaClientRuntimeInfo()
        heard_ms = max(0, ha_client.last_heard_ms)
        return HaClientRuntimeInfo(
            master_addr=ha_client.ha_address,
            transferred_byte_in_second=ha_client.bytes_per_second,
            max_offset=log_end,
            last_read_timestamp=heard_ms,
            last_write_timestamp=heard_ms,
            master_flush_offset=max(0, ha_client.master_log_end),
        )

    def epoch_cache(self) -> EpochCache:
        """Return the answer to RocketMQ's request 1007.

        An epoch is one range, also when its master renewed it after an unclean stop: RocketMQ has no such entries.
        """
        end = self._store.physical_max_offset
        ranges: list[EpochRange] = []
        for entry in self._asked.epoch_history().entries:
            if ranges and ranges[-1].epoch == entry.epoch:
                continue
            if ranges:
                ranges[-1].end_offset = entry.start
            ranges.append(EpochRange(epoch=entry.epoch, start_offset=entry.start, end_offset=end))
        return EpochCache(
            cluster_name=self._config.broker_cluster_name,
            broker_name=self._config.broker_name,
            broker_id=self._role.broker_id,
            epoch_list=ranges,
            max_offset=end,
        )

    def figures(self) -> dict[str, str]:
        """Return the entries of the runtime table. RocketMQ has no such keys there; all begin with ``pymq``."""
        status = self._status()
        result = {
            "pymqBrokerId": str(status.broker_id),
            "pymqRole": status.role,
            "pymqEpoch": str(status.epoch_history[-1].epoch if status.epoch_history else 0),
            "pymqConfirmOffset": str(status.confirm_offset),
            "pymqReplicationProblem": status.problem,
        }
        if self._role.is_master:
            connected = [slave for slave in status.slaves if slave.is_connected]
            result |= {
                "pymqSlaves": str(len(connected)),
                "pymqInSyncSlaves": str(status.in_sync_slaves),
                "pymqRequiredSlaves": str(status.required_slaves),
                "pymqSlaveLagBytesMax": str(max((slave.lag_bytes for slave in connected), default=0)),
                "pymqSlaveLagMessagesMax": str(max((slave.lag_messages for slave in connected), default=0)),
                "pymqSlaveLagMsMax": str(max((slave.lag_ms for slave in connected), default=0)),
            }
        if status.ha_client is not None:
            result |= {
                "pymqMasterAddress": status.ha_client.master_address,
                "pymqHaClientState": status.ha_client.state,
                "pymqLagBytes": str(status.ha_client.lag_bytes),
                "pymqLagMs": str(status.ha_client.lag_ms),
                "pymqMetadataAgeMs": str(status.ha_client.metadata_age_ms),
            }
        return result
