"""TailRecovery: after an unclean stop a master gets the lost end of its log from its slaves, or takes no writes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from pymq.broker.addresses import own_address
from pymq.broker.replication.roles.group_probe import GroupProbe, Member
from pymq.broker.replication.roles.own_role import OwnRole
from pymq.broker.replication.sync_mode import SyncMode
from pymq.broker.replication.tail_recovery.recovery_fence import RecoveryFence, is_promise_at_risk
from pymq.broker.replication.tail_recovery.tail_search import Ask, RecoveredTail, TailSearch, named
from pymq.broker.replication.tail_recovery.unsynced_replicas import UnsyncedReplicas
from pymq.broker.runtime import Runtime
from pymq.config.values import SYNC_FLUSH
from pymq.errors import StoreUnavailableError
from pymq.store.replica.tail_refill import TailRefill
from pymq.store.store import MessageStore, RecoveryReport
from pymq.wire.bodies_replication import RecoveredTailState, SlaveState

log = logging.getLogger(__name__)

_EPOCH = "epoch history"  # refuses writes until an epoch has begun
Members = Callable[[list[str]], Awaitable[Sequence[Member]]]


class ConnectedSlaves(Protocol):
    """What is asked of a master's slaves; a slave has none."""

    def live_address(self, broker_id: int) -> str:
        """Where the connected slave of this id answers; empty when there is none."""
        ...

    def states(self) -> list[SlaveState]:
        """Each slave that is connected or was."""
        ...


class TailRecovery:
    """Serves one broker in one role. A slave's log is never in doubt, because its master's log decides.

    Call :meth:`load` after the store is open, :meth:`search` if the log's end :attr:`is_in_doubt`, then :meth:`begin`.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        store: MessageStore,
        own: OwnRole,
        unsynced: UnsyncedReplicas,
        slaves: ConnectedSlaves,
        sync_mode: SyncMode,
        group_probe: GroupProbe,
    ) -> None:
        self.recovered_tail: RecoveredTailState | None = None  # what slaves returned at this start
        self._runtime = runtime
        self._config = runtime.config
        self._store = store
        self._own = own
        self._role = own.role
        self._epoch_file = own.epoch_file
        self._unsynced = unsynced
        self._slaves = slaves
        self._sync_mode = sync_mode
        self._group_probe = group_probe
        self._clock = runtime.clock
        self.was_clean = True  # the last stop
        self._fence: RecoveryFence | None = None
        self._waits_for = ""  # why no epoch could begin yet

    def load(self, report: RecoveryReport) -> None:
        """Read the epoch history of this log and its unsynced replicas. Raises StoreError."""
        self.was_clean = report.clean
        self._epoch_file.load(self._log_end)
        if self._role.is_master:
            self._unsynced.load()

    @property
    def _log_end(self) -> int:
        return self._store.physical_max_offset

    @property
    def _address(self) -> str:
        return own_address(self._config)

    @property
    def is_in_doubt(self) -> bool:
        """True when acknowledged messages may be missing at this master's log end.

        It is False for a newly promoted master: the promotion has already decided what is lost.
        """
        goes_on = self._role.is_master and not self._role.begins_epoch and bool(self._epoch_file.history.entries)
        return goes_on and not self._epoch_file.is_as_left(self._log_end, was_clean=self.was_clean)

    def may_lack_confirmed(self, *, has_caught_up: bool) -> bool:
        """Return True when a slave may lack messages that it had confirmed before an unclean stop.

        That lasts until it ``has_caught_up``, that is, has had all of its master's log again. With SYNC_FLUSH its disk
        has what it confirmed.
        """
        is_sure = has_caught_up or self._config.flush_disk_type == SYNC_FLUSH
        return not is_sure and not self.was_clean

    def search(self, ask: Ask, pause: Callable[[int], Awaitable[None]], members: Members) -> Awaitable[RecoveredTail]:
        """Get the part of this log that other members have. ``members`` probes the group including these addresses."""
        unsynced = self._unsynced.slaves
        search = TailSearch(
            self._runtime,
            TailRefill(self._store),
            self._epoch_file.history,
            members=lambda: members(list(unsynced.values())),
            ask=ask,
            pause=pause,
        )
        return search.run(unsynced)

    def begin(self, recovered_tail: RecoveredTail | None) -> None:
        """Begin an epoch if a master needs one, or raise the fence. ``recovered_tail`` is the result of the search.

        Raises StoreUnavailableError.
        """
        if recovered_tail is not None:
            self._note_recovered(recovered_tail)
            if recovered_tail.newer or is_promise_at_risk(self._config, self._sync_mode, recovered_tail.missing):
                self._raise_fence(recovered_tail)
                return
            if recovered_tail.missing:
                log.warning(
                    "%s did not answer: they will have to truncate what they alone have of the log after %d",
                    named(recovered_tail.missing),
                    recovered_tail.end,
                )
        if self._role.is_master:
            self._begin_epoch()

    def _begin_epoch(self) -> None:
        """Begin an epoch if one is needed. While the disk has no room for it, reads are served, and nothing else.

        Raises StoreUnavailableError for a newly promoted master.
        """
        begins_epoch = self._role.begins_epoch
        try:
            self._epoch_file.open_as_master(self._log_end, was_clean=self.was_clean, begins_epoch=begins_epoch)
        except StoreUnavailableError as error:
            if begins_epoch:
                raise  # a promotion that can't be recorded fails
            self._waits_for = str(error)
            self._store.refuse_writes(self._waits_for, by=_EPOCH)
            return
        if self._waits_for:
            self._waits_for = ""
            self._store.refuse_writes(None, by=_EPOCH)

    def _note_recovered(self, recovered_tail: RecoveredTail) -> None:
        if recovered_tail.sources:
            self.recovered_tail = RecoveredTailState(
                start=recovered_tail.start,
                end=recovered_tail.end,
                sources=list(recovered_tail.sources),
                time_ms=self._clock.now_ms(),
            )
            log.warning(
                "%d bytes of the log's end that were lost are back, from offset %d to %d, from %s",
                recovered_tail.size_bytes,
                recovered_tail.start,
                recovered_tail.end,
                ", ".join(recovered_tail.sources),
            )

    def _raise_fence(self, recovered_tail: RecoveredTail) -> None:
        self._fence = RecoveryFence(
            self._runtime,
            recovered_tail,
            dict(self._unsynced.slaves),
            store=self._store,
            sync_mode=self._sync_mode,
            own=self._own,
            group_probe=self._group_probe,
        )

    @property
    def is_fenced(self) -> bool:
        """True while the fence is up: no epoch has begun, and the log's end is as it was found."""
        return self._fence is not None or bool(self._waits_for)

    @property
    def fenced_for(self) -> str:
        """Why the fence is up; empty without one."""
        return self._fence.why if self._fence is not None else self._waits_for

    def note_slave(self, broker_id: int, address: str) -> None:
        """Note a slave before it is sent the log. Raises StoreUnavailableError; then it must not be sent anything."""
        self._unsynced.note(broker_id, address)

    @property
    def unsynced_addresses(self) -> list[str]:
        """Where the slaves are that may have more of this master's log than its disk."""
        return list(self._unsynced.slaves.values())

    def close(self) -> None:
        """Stop asking, because the broker stops or changes its role."""
        if self._fence is not None:
            self._fence.close()

    def tick(self) -> None:
        """Check whether the fence can be lifted, or else drop replicas that need not be listed any more.

        Call it about once a second on a master.
        """
        if self._fence is not None:
            self._fence.tick()
        elif self._waits_for:
            self._begin_epoch()
        elif not all(map(self._slaves.live_address, self._unsynced.slaves)):
            self._unsynced.forget_needless(self._slaves.states(), self._store.synced_offset)
