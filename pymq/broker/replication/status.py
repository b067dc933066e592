"""What a broker tells of replication: one picture for requests 9103 and 907 and for the runtime table (28).

Cheap enough to be asked every second: everything but the count of messages a slave lacks is at hand, and that is a
binary search in each queue that has any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from pymq.broker.addresses import own_address, own_ha_address
from pymq.broker.replication.lineage import Lineage
from pymq.broker.replication.roles.role import Role
from pymq.config.values import ASYNC_MASTER, SLAVE, SYNC_MASTER
from pymq.errors import StoreError
from pymq.store.counting import messages_behind
from pymq.store.diverged import list_cuts
from pymq.wire.bodies_admin import HaClientRuntimeInfo, HaConnectionInfo, HaStatus
from pymq.wire.bodies_replication import (
    REFUSED,
    CutState,
    MasterLinkState,
    RegainedState,
    ReignBody,
    ReplicationStatus,
    SlaveState,
)

if TYPE_CHECKING:
    from pymq.broker.replication.master.sync_mode import SyncMode
    from pymq.config import BrokerConfig
    from pymq.store.fs import Files
    from pymq.store.store import MessageStore


class FeedsView(Protocol):
    """What is asked of a master's feeds."""

    def states(self) -> list[SlaveState]: ...


class LinkView(Protocol):
    """What is asked of a slave's link."""

    def state(self) -> MasterLinkState: ...


class CutHistory:
    """What was ever cut from this log. Read when first asked for: nothing is cut while a broker's parts live."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._root = root
        self._cuts: list[CutState] | None = None
        self.problem = ""

    def cuts(self) -> list[CutState]:
        """In the order they were made; :attr:`problem` says when they can't be read."""
        if self._cuts is None:
            try:
                self._cuts = [CutState(**asdict(cut)) for cut in list_cuts(self._files, self._root)]
            except (OSError, StoreError) as error:
                self._cuts, self.problem = [], f"what was cut from the log can't be told: {error}"
        return self._cuts


class StatusReport:
    """Puts the picture together. ``feeds`` is a master's, ``link`` a slave's; either may be missing.

    ``lineage`` and ``troubles`` are asked each time; each of the latter is why this broker does not replicate as it
    should, empty when it does.
    """

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store: MessageStore,
        role: Role,
        sync_mode: SyncMode,
        feeds: FeedsView | None = None,
        link: LinkView | None = None,
        lineage: Callable[[], Lineage] = Lineage,
        cuts: CutHistory | None = None,
        troubles: Callable[[], Iterable[str]] = tuple,
        master_role: Callable[[], str] = str,
        rival: Callable[[], str] = str,
        regained: Callable[[], RegainedState | None] = lambda: None,
        end_in_doubt: Callable[[], bool] = lambda: False,
    ) -> None:
        self._config = config
        self._store = store
        self._role = role
        self._sync_mode = sync_mode
        self._feeds = feeds
        self._link = link
        self._lineage = lineage
        self._cuts = cuts
        self._troubles = troubles
        self._master_role = master_role
        self._rival = rival
        self._regained = regained
        self._end_in_doubt = end_in_doubt

    @property
    def role_name(self) -> str:
        """RocketMQ's name of the role this broker has now."""
        if not self._role.is_master:
            return SLAVE
        return SYNC_MASTER if self._sync_mode.is_on else ASYNC_MASTER

    def status(self) -> ReplicationStatus:
        """For request 9103."""
        config, store = self._config, self._store
        slaves = self._slaves()
        cuts = self._cuts.cuts() if self._cuts is not None else []
        return ReplicationStatus(
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            broker_id=self._role.broker_id,
            former_id=self._role.former_id,
            role=self.role_name,
            master_role=self._master_role(),
            address=own_address(config),
            ha_address=own_ha_address(config),
            segment_size_bytes=store.settings.segment_size_bytes,
            log_start=store.physical_min_offset,
            log_end=store.physical_max_offset,
            message_count=store.queue_table.unit_count,
            confirmed_offset=self._sync_mode.copied(),
            lineage=[ReignBody(reign.epoch, reign.start, reign.reign_id) for reign in self._lineage().reigns],
            required_slaves=self._sync_mode.wanted_slaves,
            in_sync_slaves=sum(slave.in_sync for slave in slaves),
            degraded=self._sync_mode.is_degraded,
            problem=self._problem(),
            rival=self._rival(),
            slaves=slaves,
            link=self._link.state() if self._link is not None else None,
            cuts=cuts,
            regained=self._regained(),
            end_in_doubt=self._end_in_doubt(),
        )

    def _problem(self) -> str:
        cuts = [self._cuts.problem] if self._cuts is not None else []
        return "; ".join(filter(None, [*self._troubles(), *cuts]))

    def _slaves(self) -> list[SlaveState]:
        """Also those that are gone: what they lack grows meanwhile."""
        states = self._feeds.states() if self._feeds is not None else []
        return [replace(state, **self._lag(state)) for state in states]

    def _lag(self, slave: SlaveState) -> dict[str, int]:
        if slave.state == REFUSED:
            return {"lag_bytes": -1, "lag_ms": -1}
        return {
            "lag_bytes": max(0, self._store.physical_max_offset - slave.acked_offset),
            "lag_messages": self._messages_behind(slave.acked_offset),
        }

    def _messages_behind(self, offset: int) -> int:
        """-1 when a queue can't be read: whoever asks then wants to know the rest all the more."""
        try:
            return messages_behind(self._store.queue_table, offset)
        except (OSError, StoreError):
            return -1

    def ha_status(self) -> HaStatus:
        """For RocketMQ's request 907."""
        end = self._store.physical_max_offset
        states = [slave for slave in self._slaves() if slave.is_connected]
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
            connected = [slave for slave in status.slaves if slave.is_connected]
            result |= {
                "pymqSlaves": str(len(connected)),
                "pymqInSyncSlaves": str(status.in_sync_slaves),
                "pymqRequiredSlaves": str(status.required_slaves),
                "pymqSlaveLagBytesMax": str(max((slave.lag_bytes for slave in connected), default=0)),
                "pymqSlaveLagMessagesMax": str(max((slave.lag_messages for slave in connected), default=0)),
                "pymqSlaveLagMsMax": str(max((slave.lag_ms for slave in connected), default=0)),
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
