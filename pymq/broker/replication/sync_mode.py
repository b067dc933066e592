"""SyncMode: the rule of SYNC_MASTER: how many slaves a send waits for, and what the sender gets without them.

Unlike RocketMQ's, a PyMQ master stores nothing while too few slaves are in sync. A message that is stored but not
confirmed would be invisible until a slave comes, or lost with the master. The refusal is SERVICE_NOT_AVAILABLE, after
which every client tries another broker. SLAVE_NOT_AVAILABLE and FLUSH_SLAVE_TIMEOUT mean to all clients that the
message *is* stored (Java: MQClientAPIImpl.processSendResponse turns them into a SendResult).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from pymq.broker.replication.roles.role import Role
from pymq.config import BrokerConfig
from pymq.config.values import SLAVE, SYNC_MASTER
from pymq.errors import ConfigError
from pymq.store.store import MessageStore
from pymq.wire.bodies_replication import SlaveState
from pymq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

# Log bytes that may wait for slaves. They also take memory: a queue unit, keys and a waiting answer for each message.
UNCONFIRMED_BYTES_MAX = 64 * 1024 * 1024
_REFUSER = SYNC_MASTER


class Slaves(Protocol):
    """The part of an HaService that is needed here."""

    @property
    def in_sync_count(self) -> int:
        """The number of slaves that are connected and near the log's end."""
        ...

    def offset_acked_by(self, slave_count: int) -> int:
        """The log offset that at least ``copies`` slaves have."""
        ...


class NoSlaves:
    """The slaves of a broker that is a slave itself: there are none."""

    in_sync_count = 0

    def offset_acked_by(self, slave_count: int) -> int:
        """Return 0."""
        return 0

    def live_address(self, broker_id: int) -> str:
        """No slave is connected."""
        return ""

    def states(self) -> list[SlaveState]:
        """No slave was ever connected."""
        return []


class LateReply(NamedTuple):
    """The answer to a sender whose message is not confirmed in time, or will not be awaited any more.

    ``is_stored``: it is in the log for good, and clients may take the answer for a success.
    """

    code: int
    remark: str
    is_stored: bool = True


def unsure_reply(why: str) -> LateReply:
    """Return the answer for a message that another broker may keep or have truncated.

    Clients send again on this code (Java: DefaultMQProducer.retryResponseCodes), and take FLUSH_SLAVE_TIMEOUT for a
    success. RocketMQ's DLedger answers so as well (Java: DLedgerCommitLog, IN_SYNC_REPLICAS_NOT_ENOUGH and
    OS_PAGE_CACHE_BUSY; SendMessageProcessor.handlePutMessageResult). SERVICE_NOT_AVAILABLE says that nothing is stored.
    """
    return LateReply(
        ResponseCode.SYSTEM_ERROR,
        f"it is not known whether the message stays stored: {why}; send it again",
        is_stored=False,
    )


class SyncMode:
    """Decides how many slaves a send waits for, and closes the store to writes when there are too few.

    Each answer uses the current settings, because ``brokerRole``, ``inSyncReplicas`` and others may change at any time.
    """

    _log_name = SYNC_MASTER

    def __init__(self, *, config: BrokerConfig, store: MessageStore, role: Role, slaves: Slaves) -> None:
        self._config = config
        self._role = role
        self._store = store
        self.slaves = slaves
        self._refused_for: tuple[object, ...] | None = None
        self._was_degraded = False

    @property
    def is_on(self) -> bool:
        """True when answers to sends wait for slaves."""
        return self._config.broker_role == SYNC_MASTER and self._role.is_master

    @property
    def counts_own_disk(self) -> bool:
        """True where this broker's disk is among the disks that confirm; slaves' acknowledgements say nothing of it."""
        return False

    @property
    def is_concerned(self) -> bool:
        """True when :meth:`check` may change something: the mode is on, or was on when it closed the store."""
        return self.is_on or self.is_refusing

    @property
    def required_slaves(self) -> int:
        """The number of slaves that must have a message by configuration (``inSyncReplicas`` less the master)."""
        return self._config.in_sync_replicas - 1 if self.is_on else 0

    @property
    def needed_slaves(self) -> int:
        """The number of slaves that a send waits for right now: fewer than required where
        ``enableAutoInSyncReplicas`` allows it and no more are in sync."""
        config, wanted = self._config, self.required_slaves
        if wanted == 0 or not config.auto_in_sync_replicas:
            return wanted
        return min(wanted, max(config.min_in_sync_replicas - 1, self.slaves.in_sync_count))

    @property
    def is_degraded(self) -> bool:
        """True while sends wait for fewer slaves than required."""
        return self.needed_slaves < self.required_slaves

    @property
    def timeout_ms(self) -> int:
        """The time an answer waits for slaves, in milliseconds."""
        return self._config.slave_timeout_ms

    def confirm_offset(self) -> int:
        """Return the log offset that enough slaves acknowledged; the log's end when no slave is needed."""
        needed = self.needed_slaves
        return self.slaves.offset_acked_by(needed) if needed else self._store.physical_max_offset

    def late_reply(self) -> LateReply:
        """Return the answer for a message that was stored ``slaveTimeout`` ago and that too few slaves have."""
        count, needed = self.slaves.in_sync_count, self.needed_slaves
        if count < needed:
            return LateReply(
                ResponseCode.SLAVE_NOT_AVAILABLE,
                f"the message is stored, but {count} of {needed} slaves are in sync (inSyncReplicas "
                f"{self._config.in_sync_replicas}) since: it appears once they have it; start slaves",
            )
        return LateReply(
            ResponseCode.FLUSH_SLAVE_TIMEOUT,
            f"the message is stored, but {needed} of {count} slaves in sync did not confirm it within "
            f"{self.timeout_ms} ms (slaveTimeout): it appears once they do; see `pymq broker status`",
        )

    def given_up_reply(self, why: str, *, keeps_log: bool) -> LateReply:
        """Return the answer for a message whose slaves can't be awaited because of ``why``.

        It is in this log. A master that becomes a slave truncates what its new master lacks.
        """
        if not keeps_log:
            return unsure_reply(why)
        return LateReply(ResponseCode.FLUSH_SLAVE_TIMEOUT, f"the message is stored, but not confirmed by slaves: {why}")

    def check(self) -> None:
        """Open or close the store to writes. Call it after each commit and from time to time."""
        self._note_degraded()
        why = self._reason() if self.is_on else None
        if why is None:
            if self._refused_for is not None:
                self._refused_for = None
                self._store.refuse_writes(None, by=_REFUSER)
                log.info("%s: sends are accepted again", self._log_name)
            return
        # The first text stays while its reason lasts, because the figures in it change all the time.
        if why[0] != self._refused_for:
            self._refused_for = why[0]
            self._store.refuse_writes(why[1], by=_REFUSER)
            log.warning("%s: sends are refused: %s", self._log_name, why[1])

    def _note_degraded(self) -> None:
        may_be = self._config.auto_in_sync_replicas or self._was_degraded
        if not may_be or self.is_degraded == self._was_degraded:
            return
        self._was_degraded = self.is_degraded
        if self._was_degraded:
            log.warning(
                "SYNC_MASTER: degraded: sends wait for %d of the %d slaves that inSyncReplicas requires, no more are "
                "in sync (enableAutoInSyncReplicas)",
                self.needed_slaves,
                self.required_slaves,
            )
        else:
            log.info("SYNC_MASTER: no longer degraded, sends wait for %d slaves", self.required_slaves)

    @property
    def is_refusing(self) -> bool:
        """True while the store is closed to writes because slaves are missing."""
        return self._refused_for is not None

    def _reason(self) -> tuple[tuple[object, ...], str] | None:
        """Return (a key of the reason, its text) when no more sends can be accepted now."""
        needed, count = self.needed_slaves, self.slaves.in_sync_count
        if count < needed:
            config = self._config
            return ("too few", needed, count), (
                f"{config.broker_name} is a SYNC_MASTER and needs {needed} {_slaves(needed)} in sync (inSyncReplicas "
                f"{config.in_sync_replicas}), but has {count}: nothing is stored. Start slaves, or allow less with "
                "enableAutoInSyncReplicas=true or brokerRole=ASYNC_MASTER"
            )
        return self._too_much()

    def _too_much(self) -> tuple[tuple[object, ...], str] | None:
        waiting = self._store.unconfirmed_bytes
        if waiting >= UNCONFIRMED_BYTES_MAX:
            return ("too much",), (
                f"{waiting} bytes wait for slaves, the limit is {UNCONFIRMED_BYTES_MAX}: send again in a "
                "moment; look at the slaves' lag with `pymq broker status`"
            )
        return None


def check_role_setting(config: BrokerConfig, wanted: Mapping[str, str]) -> None:
    """Raise ConfigError for a change of ``brokerRole`` at run time that would turn a master into a slave or back."""
    role = wanted.get("brokerRole")
    if role is None or role == config.broker_role:
        return
    if config.is_slave or role == SLAVE:
        raise ConfigError(
            f"brokerRole is {config.broker_role} and can't become {role[:20]} at run time: a master changes between "
            "ASYNC_MASTER and SYNC_MASTER; `pymq broker promote` makes a slave the master"
        )


def _slaves(count: int) -> str:
    return "slave" if count == 1 else "slaves"
