"""OwnTail: the end of a master's log after an unclean stop: whether it is in doubt, who has more, what came of it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from pymq.broker.addresses import own_address
from pymq.broker.replication.lineage_file import LineageKeeper
from pymq.broker.replication.lost_tail.held_reign import HeldReign, is_promise_at_risk
from pymq.broker.replication.lost_tail.regained_tail import Ask, Regained, RegainedTail, named
from pymq.broker.replication.lost_tail.tail_holders import TAIL_HOLDERS_FILE, TailHolders
from pymq.broker.replication.master.feeds import Feeds
from pymq.broker.replication.master.sync_mode import SyncMode
from pymq.broker.replication.roles.census import Census, Member
from pymq.broker.replication.roles.role import ChangeRole, Role
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.config.values import SYNC_FLUSH
from pymq.store.recovery import RecoveryReport
from pymq.store.regrowing import RegrowingLog
from pymq.store.store import MessageStore
from pymq.store.tables import JsonTable
from pymq.wire.bodies_replication import RegainedState

if TYPE_CHECKING:
    from pymq.broker.parts import BrokerParts
    from pymq.broker.replication.slave.link import MasterLink

log = logging.getLogger(__name__)

Members = Callable[[list[str]], Awaitable[Sequence[Member]]]


class OwnTail:
    """Of one broker in one role; a slave's is never in doubt, for its master's decides.

    After the store was opened: :meth:`load`; while it :attr:`is_in_doubt` the group is asked with :meth:`search`; then
    :meth:`begin`.
    """

    def __init__(
        self,
        *,
        config: BrokerConfig,
        store: MessageStore,
        role: Role,
        lineage: LineageKeeper,
        holders: TailHolders,
        feeds: Feeds | None,
        sync_mode: SyncMode,
        census: Census,
        change_role: ChangeRole,
        clock: Clock,
    ) -> None:
        self.regained: RegainedState | None = None  # what slaves gave at this start
        self._config = config
        self._store = store
        self._role = role
        self._lineage = lineage
        self._holders = holders
        self._feeds = feeds
        self._sync_mode = sync_mode
        self._census = census
        self._change_role = change_role
        self._clock = clock
        self.was_clean = True  # the last stop
        self._held: HeldReign | None = None

    def load(self, report: RecoveryReport) -> None:
        """Reads what this log claims, and who may have more of it. Raises StoreError."""
        self.was_clean = report.clean
        self._lineage.load(self._log_end)
        if self._role.is_master:
            self._holders.load()

    @property
    def _log_end(self) -> int:
        return self._store.physical_max_offset

    @property
    def _address(self) -> str:
        return own_address(self._config)

    @property
    def is_in_doubt(self) -> bool:
        """Whether messages that this master answered for may be missing at its log's end. Whoever was made master just
        now is not asked: what is lost by that was decided before."""
        goes_on = self._role.is_master and not self._role.begins_reign and bool(self._lineage.lineage.reigns)
        return goes_on and not self._lineage.is_as_left(self._log_end, was_clean=self.was_clean)

    def may_lack_confirmed(self, link: MasterLink | None) -> bool:
        """Whether a slave may lack messages that it had confirmed before an unclean stop: until it has had all of its
        master's log again. What it confirms under SYNC_FLUSH is on its disk."""
        is_sure = link is None or link.has_caught_up or self._config.flush_disk_type == SYNC_FLUSH
        return not is_sure and not self.was_clean

    def search(self, ask: Ask, pause: Callable[[int], Awaitable[None]], members: Members) -> Awaitable[Regained]:
        """Gets what others have of this log. ``members`` takes a census that includes these addresses."""
        config, holders = self._config, self._holders.slaves
        search = RegainedTail(
            RegrowingLog(self._store),
            self._lineage.lineage,
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
            members=lambda: members(list(holders.values())),
            ask=ask,
            pause=pause,
            clock=self._clock,
        )
        return search.run(holders)

    def begin(self, regained: Regained | None) -> None:
        """Begins a reign where a master needs one, or holds it until more is known. ``regained``: what the search came
        to. Raises StoreUnavailableError."""
        if regained is not None:
            self._tell(regained)
            if regained.newer or is_promise_at_risk(self._config, self._sync_mode, regained.missing):
                self._hold(regained)
                return
            if regained.missing:
                log.warning(
                    "%s did not answer: what they alone have of the log behind %d will be cut there",
                    named(regained.missing),
                    regained.end,
                )
        if self._role.is_master:
            begins_reign = self._role.begins_reign
            self._lineage.open_as_master(self._log_end, was_clean=self.was_clean, begins_reign=begins_reign)

    def _tell(self, regained: Regained) -> None:
        if regained.sources:
            self.regained = RegainedState(
                start=regained.start,
                end=regained.end,
                sources=list(regained.sources),
                time_ms=self._clock.now_ms(),
            )
            log.warning(
                "%d bytes that were lost from the log's end are back, from offset %d to %d: %s gave them",
                regained.size_bytes,
                regained.start,
                regained.end,
                ", ".join(regained.sources),
            )

    def _hold(self, regained: Regained) -> None:
        self._held = HeldReign(
            regained,
            dict(self._holders.slaves),
            config=self._config,
            store=self._store,
            sync_mode=self._sync_mode,
            role=self._role,
            address=self._address,
            lineage=self._lineage.lineage,
            census=self._census,
            change_role=self._change_role,
        )

    @property
    def is_held(self) -> bool:
        """True while no reign has begun: the log's end is as it was found."""
        return self._held is not None

    @property
    def held_for(self) -> str:
        """Why no reign has begun, for people; empty when one has."""
        return self._held.why if self._held is not None else ""

    def note_slave(self, broker_id: int, address: str) -> None:
        """A slave is about to be sent the log. Raises StoreUnavailableError; then it must not be."""
        self._holders.note(broker_id, address)

    def close(self) -> None:
        """Nothing is asked for any more: the broker stops, or takes another role."""
        if self._held is not None:
            self._held.close()

    def tick(self) -> None:
        """A master's, about once a second: looks whether a reign that is held can begin, else who need not be asked
        any more should this broker stop now."""
        if self._held is not None:
            self._held.tick()
        elif self._feeds is not None and not all(map(self._feeds.live_address, self._holders.slaves)):
            self._holders.forget_needless(self._feeds.states(), self._store.synced_offset)


def own_tail(parts: BrokerParts, census: Census) -> OwnTail:
    """Of a broker whose feeds and lineage are made."""
    config, clock = parts.config, parts.clock
    table = JsonTable(parts.files, f"{config.store_path_root_dir}/config/{TAIL_HOLDERS_FILE}.json")
    return OwnTail(
        config=config,
        store=parts.store,
        role=parts.role,
        lineage=parts.lineage,
        holders=TailHolders(table, clock, lambda: config.ha_housekeeping_interval_ms),
        feeds=parts.feeds,
        sync_mode=parts.sync_mode,
        census=census,
        change_role=parts.change_role,
        clock=clock,
    )
