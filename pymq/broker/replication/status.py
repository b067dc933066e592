"""What a broker tells of replication: one picture for requests 9103 and 907 and for the runtime table (28).

Cheap enough to be asked every second: everything but the count of messages a slave lacks is at hand, and that is a
binary search in each queue that has any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from pymq.broker.replication.lineage import Lineage
from pymq.broker.replication.role import Role
from pymq.model.hosts import format_address
from pymq.store.counting import messages_behind
from pymq.wire.bodies_admin import HaClientRuntimeInfo, HaConnectionInfo, HaStatus
from pymq.wire.bodies_replication import CutState, MasterLinkState, ReignBody, ReplicationStatus, SlaveState

if TYPE_CHECKING:
    from pymq.config import BrokerConfig
    from pymq.store.store import MessageStore

ASYNC_MASTER = "ASYNC_MASTER"
SYNC_MASTER = "SYNC_MASTER"
SLAVE = "SLAVE"


class FeedsView(Protocol):
    """What is asked of a master's feeds."""

    @property
    def in_sync_count(self) -> int: ...
    def confirmed(self, copies: int) -> int: ...
    def states(self) -> list[SlaveState]: ...


class LinkView(Protocol):
    """What is asked of a slave's link."""

    def state(self) -> MasterLinkState: ...


class StatusReport:
    """Puts the picture together. ``feeds`` is a master's, ``link`` a slave's; either may be missing.

    ``lineage``, ``cuts`` and ``trouble`` are asked each time; the last is why this broker does not replicate as its
    settings say, empty when it does.
    """

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store: MessageStore,
        role: Role,
        feeds: FeedsView | None = None,
        link: LinkView | None = None,
        lineage: Callable[[], Lineage] = Lineage,
        cuts: Callable[[], Sequence[CutState]] = tuple,
        trouble: Callable[[], str] = str,
    ) -> None:
        self._config = config
        self._store = store
        self._role = role
        self._feeds = feeds
        self._link = link
        self._lineage = lineage
        self._cuts = cuts
        self._trouble = trouble

    @property
    def role_name(self) -> str:
        """RocketMQ's name of the role this broker has now."""
        if not self._role.is_master:
            return SLAVE
        return SYNC_MASTER if self._config.broker_role == SYNC_MASTER else ASYNC_MASTER

    def status(self) -> ReplicationStatus:
        """For request 9103."""
        config, store = self._config, self._store
        slaves = self._slaves()
        required = config.in_sync_replicas - 1 if self.role_name == SYNC_MASTER else 0
        in_sync = sum(slave.in_sync for slave in slaves)
        return ReplicationStatus(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            broker_id=self._role.broker_id,
            former_id=self._role.former_id,
            role=self.role_name,
            address=format_address(config.broker_ip1, config.listen_port),
            ha_address=format_address(config.broker_ip2 or config.broker_ip1, config.ha_listen_port),
            segment_size_bytes=store.settings.segment_size_bytes,
            log_start=store.physical_min_offset,
            log_end=store.physical_max_offset,
            message_count=store.queue_table.unit_count,
            confirmed_offset=self._confirmed(required),
            lineage=[ReignBody(reign.epoch, reign.start, reign.reign_id) for reign in self._lineage().reigns],
            required_slaves=required,
            in_sync_slaves=in_sync,
            degraded=in_sync < required,
            problem=self._trouble(),
            slaves=slaves,
            link=self._link.state() if self._link is not None else None,
            cuts=list(self._cuts()),
        )

    def _slaves(self) -> list[SlaveState]:
        slaves = self._feeds.states() if self._feeds is not None else []
        for slave in slaves:
            if slave.lag_messages < 0:
                slave.lag_messages = messages_behind(self._store.queue_table, slave.acked_offset)
        return slaves

    def _confirmed(self, required_slaves: int) -> int:
        """Up to where as many slaves have the log as a SYNC_MASTER waits for; the log's end where none has to."""
        if self._feeds is None or required_slaves == 0:
            return self._store.physical_max_offset
        return self._feeds.confirmed(required_slaves)

    def ha_status(self) -> HaStatus:
        """For RocketMQ's request 907."""
        end = self._store.physical_max_offset
        states = self._feeds.states() if self._feeds is not None else []
        return HaStatus(
            master=self._role.is_master,
            master_commit_log_max_offset=end,
            in_sync_slave_nums=sum(slave.in_sync for slave in states),
            ha_connection_info=[
                HaConnectionInfo(
                    addr=slave.address,
                    slave_ack_offset=slave.acked_offset,
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
        if self._link is None:
            return HaClientRuntimeInfo()
        link = self._link.state()
        heard_ms = max(0, link.last_heard_ms)
        return HaClientRuntimeInfo(
            master_addr=link.ha_address,
            transferred_byte_in_second=link.bytes_per_second,
            max_offset=log_end,
            last_read_timestamp=heard_ms,
            last_write_timestamp=heard_ms,
            master_flush_offset=max(0, link.master_log_end),
        )

    def figures(self) -> dict[str, str]:
        """For the runtime table: RocketMQ has no such keys there, so all begin with ``pymq``."""
        status = self.status()
        result = {
            "pymqBrokerId": str(status.broker_id),
            "pymqRole": status.role,
            "pymqEpoch": str(status.lineage[-1].epoch if status.lineage else 0),
            "pymqConfirmedOffset": str(status.confirmed_offset),
            "pymqReplicationProblem": status.problem,
        }
        if self._role.is_master:
            result |= {
                "pymqSlaves": str(len(status.slaves)),
                "pymqInSyncSlaves": str(status.in_sync_slaves),
                "pymqRequiredSlaves": str(status.required_slaves),
                "pymqSlaveLagBytesMax": str(max((slave.lag_bytes for slave in status.slaves), default=0)),
                "pymqSlaveLagMessagesMax": str(max((slave.lag_messages for slave in status.slaves), default=0)),
                "pymqSlaveLagMsMax": str(max((slave.lag_ms for slave in status.slaves), default=0)),
            }
        if status.link is not None:
            result |= {
                "pymqMasterAddress": status.link.master_address,
                "pymqLinkState": status.link.state,
                "pymqLagBytes": str(status.link.lag_bytes),
                "pymqLagMs": str(status.link.lag_ms),
                "pymqMetadataAgeMs": str(status.link.metadata_age_ms),
            }
        return result
