"""RecoveryFence: a master that may lack what it promised takes no writes, and no slave, until it knows.

After an unclean stop somebody who may have more of this log did not answer. What is written now would stand where the
others have confirmed messages, which they then had to cut. Reads go on. Once those who are missing answer, the broker
is opened anew in its role, which fetches what they have; or when the operator promises less.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from pymq.broker.replication.epoch_history import EpochHistory
from pymq.broker.replication.master.sync_mode import SyncMode
from pymq.broker.replication.roles.group_probe import GroupProbe, Member
from pymq.broker.replication.roles.role import ChangeRole, Role, RoleChange
from pymq.broker.replication.tail_recovery.tail_search import RecoveredTail, missing_of, named
from pymq.config import BrokerConfig
from pymq.config.values import SYNC_FLUSH
from pymq.store.store import MessageStore

log = logging.getLogger(__name__)

_REFUSER = "held epoch"


def is_promise_at_risk(config: BrokerConfig, sync_mode: SyncMode, missing: Mapping[int, str]) -> bool:
    """Whether messages that were answered may be where nobody answers: those who do may have lost them as we did.

    Not with SYNC_FLUSH: then the own disk has all that was answered; nor where sends are taken without slaves.
    """
    return bool(missing) and sync_mode.needed_slaves > 0 and config.flush_disk_type != SYNC_FLUSH


class RecoveryFence:
    """Closes the store to writes while it lives. Call :meth:`tick` about every second."""

    def __init__(
        self,
        recovered_tail: RecoveredTail,
        unsynced: Mapping[int, str],
        *,
        config: BrokerConfig,
        store: MessageStore,
        sync_mode: SyncMode,
        role: Role,
        address: str,
        epoch_history: EpochHistory,
        group_probe: GroupProbe,
        change_role: ChangeRole,
    ) -> None:
        """``address``: our own; ``change_role`` is asked to open this broker anew."""
        self._unsynced = unsynced
        self._config = config
        self._sync_mode = sync_mode
        self._role = role
        self._address = address
        self._epoch_history = epoch_history
        self._group_probe = group_probe
        self._change_role = change_role
        self._is_asking = False
        self._is_closed = False
        self.why = (
            f"{recovered_tail.newer} has followed a newer master: nothing is stored until this broker has stepped down"
            if recovered_tail.newer
            else f"nothing is stored until {named(recovered_tail.missing)} can be asked for messages that this master "
            "answered for and may have lost when it was not stopped in order: start them, or go on without what they "
            "alone have by brokerRole=ASYNC_MASTER"
        )
        store.refuse_writes(self.why, by=_REFUSER)
        log.error("%s", self.why)

    def tick(self) -> None:
        """Looks whether the epoch can begin now."""
        if not self._is_asking:
            self._is_asking = True
            self._group_probe.take(self._config.namesrv_addresses, self._address, self._taken, self._unsynced.values())

    def close(self) -> None:
        """What is answered from now on asks for no role: this broker may have another one by then."""
        self._is_closed = True

    def _taken(self, members: list[Member]) -> None:
        if self._is_closed:
            return
        self._is_asking = False
        config = self._config
        ours = [member for member in members if member.is_of(config.broker_cluster_name, config.broker_name)]
        missing = missing_of(self._unsynced, ours)
        is_newer_there = any(member.epoch > self._epoch_history.epoch for member in ours)  # the watch steps down for it
        if is_newer_there or is_promise_at_risk(self._config, self._sync_mode, missing):
            return
        self._is_asking = True  # once is enough
        why = f"it goes on without {named(missing)}" if missing else "those who may have more of this log answer"
        self._change_role(RoleChange(replace(self._role, begins_epoch=False), why))
