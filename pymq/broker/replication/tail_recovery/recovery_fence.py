"""RecoveryFence: a write fence of a master that may lack confirmed messages after an unclean stop.

A member that may have more of this log did not answer. New writes would take the place of confirmed messages, and the
slaves would have to truncate those. So the master takes no writes and no slaves; reads continue. Once the missing
members answer, or the operator allows to go on without them, the broker's parts are opened again in the same role. That
fetches what the members have.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from pymq.broker.addresses import own_address
from pymq.broker.replication.roles.group_probe import GroupProbe, Member
from pymq.broker.replication.roles.own_role import OwnRole
from pymq.broker.replication.roles.role import RoleChange
from pymq.broker.replication.roles.second_master import is_newer
from pymq.broker.replication.sync_mode import SyncMode
from pymq.broker.replication.tail_recovery.tail_search import RecoveredTail, missing_of, named
from pymq.broker.runtime import Runtime
from pymq.config import BrokerConfig
from pymq.config.values import SYNC_FLUSH
from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

_REFUSER = "tail recovery"


def is_promise_at_risk(config: BrokerConfig, sync_mode: SyncMode, missing: Mapping[int, str]) -> bool:
    """Return True when the ``missing`` members alone may have acknowledged messages.

    That can't be with SYNC_FLUSH, because our own disk has all of them, nor when sends need no slaves.
    """
    return bool(missing) and sync_mode.needed_slaves > 0 and config.flush_disk_type != SYNC_FLUSH


class RecoveryFence:
    """Closes the store to writes from its construction on. Call :meth:`tick` about every second."""

    def __init__(
        self,
        runtime: Runtime,
        recovered_tail: RecoveredTail,
        unsynced: Mapping[int, str],
        *,
        store: MessageStore,
        sync_mode: SyncMode,
        own: OwnRole,
        group_probe: GroupProbe,
    ) -> None:
        self._unsynced = unsynced
        self._config = runtime.config
        self._sync_mode = sync_mode
        self._role = own.role
        self._address = own_address(runtime.config)
        self._epoch_history = own.epoch_file.history
        self._group_probe = group_probe
        self._change_role = own.change_role
        self._is_asking = False
        self._is_closed = False
        self.why = (
            f"{recovered_tail.newer} has followed a newer master: nothing is stored until this broker steps down"
            if recovered_tail.newer
            else f"nothing is stored without an answer of {named(recovered_tail.missing)}: after its unclean stop this "
            "master may lack acknowledged messages that they have: start them, or give up what they alone have by "
            "brokerRole=ASYNC_MASTER"
        )
        store.refuse_writes(self.why, by=_REFUSER)
        log.error("%s", self.why)

    def tick(self) -> None:
        """Check whether the fence can be lifted."""
        if not self._is_asking:
            self._is_asking = True
            self._group_probe.take(self._config.namesrv_addresses, self._address, self._taken, self._unsynced.values())

    def close(self) -> None:
        """Ignore answers that come from now on: this broker may have another role by then."""
        self._is_closed = True

    def _taken(self, members: list[Member]) -> None:
        if self._is_closed:
            return
        self._is_asking = False
        config = self._config
        ours = [member for member in members if member.is_of(config.broker_cluster_name, config.broker_name)]
        missing = missing_of(self._unsynced, ours)
        is_newer_there = any(
            is_newer(self._epoch_history, member) for member in ours
        )  # the master monitor steps down for it
        if is_newer_there or is_promise_at_risk(self._config, self._sync_mode, missing):
            return
        self._is_asking = True  # no further probe
        why = f"it continues without {named(missing)}" if missing else "all unsynced replicas answer"
        self._change_role(RoleChange(replace(self._role, begins_epoch=False), why))
