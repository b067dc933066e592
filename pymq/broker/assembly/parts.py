"""BrokerParts: everything a broker is made of while it serves in one role, put together once. No I/O of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pymq.broker.addresses import own_address
from pymq.broker.assembly.broker_data import BrokerData
from pymq.broker.assembly.group_place import GroupPlace
from pymq.broker.assembly.master_side import MasterSide
from pymq.broker.assembly.message_requests import MessageRequests
from pymq.broker.assembly.messages import Messages
from pymq.broker.assembly.pop_parts import PopParts
from pymq.broker.assembly.replication import Replication, SlavesInRole
from pymq.broker.assembly.runtime_settings import broker_runtime_settings
from pymq.broker.assembly.side_parts import SideParts
from pymq.broker.assembly.store_settings import store_settings
from pymq.broker.assembly.upkeep import Upkeep
from pymq.broker.metadata.cursors import CursorManager, MaxOffset
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.metadata.pending_offsets import PendingOffsets
from pymq.broker.metadata.table_saver import TableSaver
from pymq.broker.metadata.topics_made_again import TopicsMadeAgain
from pymq.broker.pop.topic_routes import TopicRoutes
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.read_advice import ReadAdvice
from pymq.broker.replication.roles.master_monitor import MasterMonitor
from pymq.broker.replication.roles.owner import Owner
from pymq.broker.replication.roles.role import Role
from pymq.broker.replication.roles.write_fence import WriteFence
from pymq.broker.replication.side import ReplicationSide
from pymq.broker.replication.sync_mode import NoSlaves
from pymq.broker.replication.tables.replicated_tables import ReplicatedTable, replicated_tables
from pymq.broker.replication.tables.slave_cursors import SlaveCursors
from pymq.broker.replication.tables.table_pieces import PieceSizes
from pymq.broker.replication.tail_recovery.tail_search import RecoveredTail
from pymq.broker.report.registration import RegistrationRequests
from pymq.broker.runtime import Runtime
from pymq.broker.stats.stats_manager import StatsManager
from pymq.broker.upkeep.known_retention import RETENTION_FILE, KnownRetention
from pymq.broker.upkeep.recovery_progress import RecoveryProgress
from pymq.broker.work.jobs import SLOW_TICK_PERIOD_MS, Job
from pymq.config.runtime import RuntimeSettings
from pymq.store.store import MessageStore, RecoveryReport
from pymq.store.timer.timer_store import WHEEL_SLOTS

if TYPE_CHECKING:
    from pymq.broker.raft.report import OperatedGroup

ASSUMED_MEMORY_BYTES = 8 * 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Sizes:
    """``memory_bytes``: the machine's; ``timer_slot_count``: half of the wheel's; ``pieces``: of tables for slaves."""

    memory_bytes: int = ASSUMED_MEMORY_BYTES
    timer_slot_count: int = WHEEL_SLOTS
    pieces: PieceSizes = PieceSizes()  # noqa: RUF009 - it does not change


class BrokerParts:
    """The parts by name."""

    def __init__(
        self,
        runtime: Runtime,
        role: Role,
        place: GroupPlace,
        owner: Owner,
        registration_requests: RegistrationRequests,
        runtime_settings: RuntimeSettings | None = None,
        sizes: Sizes = Sizes(),
    ) -> None:
        """``place``: of the broker in its group; ``owner`` runs the broker and opens its parts; without
        ``runtime_settings``, no change of settings outlives the process."""
        config, clock = runtime.config, runtime.clock
        assert role.broker_id == config.broker_id
        self.runtime, self.config, self.clock = runtime, config, clock
        self.role, self.place, self.owner = role, place, owner
        self.registration_requests = registration_requests
        self.runtime_settings = runtime_settings or broker_runtime_settings(config, clock)
        self.raft: OperatedGroup | None = place.group
        self.stats = StatsManager(clock=clock, config=config)
        self.store = store = MessageStore(
            root=runtime.root,
            files=runtime.files,
            clock=clock,
            settings=store_settings(config, on_lost_end=place.on_lost_end),
            store_host=runtime.store_host,
        )
        tables = place.tables(runtime, is_master=role.is_master)
        self.metadata = metadata = Metadata(
            runtime,
            is_master=role.is_master,
            store=store,
            config_tables=tables.metadata,
            make_cursors=self._make_cursors,
            on_filter_servers=registration_requests.register_now,
        )
        slaves: SlavesInRole = place.slaves(runtime, store, owner) if role.is_master else NoSlaves()
        self.replication = Replication(runtime, role, place, owner, store=store, metadata=metadata, slaves=slaves)
        data = BrokerData(store, metadata, self.stats)
        self.messages = Messages(
            runtime,
            data=data,
            config_tables=tables.own,
            copies=self.replication.sync_mode,
            hasten_job=owner.hasten_job,
            timer_slot_count=sizes.timer_slot_count,
        )
        self.pop = PopParts(runtime, data=data, messages=self.messages)
        self.topic_routes = TopicRoutes(runtime.network, clock=clock, config=config)
        side_parts = SideParts(
            role=role,
            store=store,
            metadata=metadata,
            messages=self.messages,
            replication=self.replication,
            tables=self._replicated_tables(sizes.pieces),
            config_tables=tables.own,
        )
        self.side: ReplicationSide = (
            place.slave_side(runtime, side_parts, owner)
            if isinstance(slaves, NoSlaves)
            else MasterSide(runtime, side_parts, self.pop, slaves)
        )
        self.master_monitor = MasterMonitor(
            runtime,
            group_probe=self.replication.group_probe,
            own=self.replication.own_role,
            address=own_address(config),
            side=self.side,
            known_peers=place.known_peers,
            register_now=registration_requests.register_now,
        )
        self.requests = MessageRequests(
            runtime,
            role=role,
            data=data,
            messages=self.messages,
            pop=self.pop,
            read_advice=self._read_advice(sizes.memory_bytes),
            hasten_job=owner.hasten_job,
            when_registered=registration_requests.when_registered,
            is_fenced=lambda: self.replication.write_fence.is_on,
        )
        if role.is_master:
            TopicsMadeAgain(
                topics=metadata.topics,
                clients=metadata.clients,
                cursors=metadata.cursors,
                broadcast_begins=metadata.broadcast_begins,
                store=store,
                wake_pulls=self.requests.wake_queue,
            )
        self.upkeep = Upkeep(runtime, store=store, known_retention=KnownRetention(tables.own.table(RETENTION_FILE)))

    def _make_cursors(self, saver: TableSaver, pending: PendingOffsets, max_offset: MaxOffset) -> CursorManager:
        if self.role.is_master:
            return self.place.master_cursors(self.runtime, saver, max_offset)
        return SlaveCursors(self.runtime, saver, max_offset=max_offset, pending=pending)

    def _replicated_tables(self, piece_sizes: PieceSizes) -> list[ReplicatedTable]:
        return replicated_tables(
            store=self.store,
            metadata=self.metadata,
            delays=self.messages.delays,
            transactions=self.messages.transactions,
            timers=self.messages.timers,
            stats=self.stats,
            sync_mode=self.replication.sync_mode,
            master_role=self.replication.master_role,
            start_id=f"{self.runtime.rng.getrandbits(64):016x}",
            piece_sizes=piece_sizes,
        )

    def _read_advice(self, memory_bytes: int) -> ReadAdvice:
        return ReadAdvice(
            config=self.config,
            store=self.store,
            role=self.role,
            memory_bytes=memory_bytes,
            slave_count=lambda: self.replication.sync_mode.slaves.in_sync_count,
            is_following=lambda: self.side.is_following,
            is_tail_fenced=lambda: self.replication.tail_recovery.is_fenced,
        )

    # -- opening -------------------------------------------------------------------------------------------------

    def open(self, is_stopping: Callable[[], bool] = lambda: False) -> RecoveryReport:
        """Recover the store and read the tables.

        Raises StoreError, and StoppedError when ``is_stopping``, which a long recovery asks now and then, says so.
        """
        report = self.recover(is_stopping)
        self.begin()
        return report

    def recover(self, is_stopping: Callable[[], bool] = lambda: False) -> RecoveryReport:
        """The first half of :meth:`open`. If the tail is in doubt then, the group can be asked for what is missing."""
        report = self.store.open(RecoveryProgress(self.clock, is_stopping))
        try:
            self.replication.tail_recovery.load(report)
            for address in self.replication.tail_recovery.unsynced_addresses:
                self.replication.known_peers.confirm(address)  # they were known when they joined
        except BaseException:
            self.give_up()
            raise
        return report

    def begin(self, recovered_tail: RecoveredTail | None = None) -> None:
        """The second half of :meth:`open`, with what the group gave."""
        try:
            self.replication.tail_recovery.begin(recovered_tail)
            self.place.begin_parts(self)
            self.metadata.load()
            self.side.open()
            self.replication.sync_mode.check()
        except BaseException:
            self.give_up()
            raise

    def give_up(self) -> None:
        """Close a store that was recovered but never served: the next start finds it as this one did."""
        self.store.close(as_clean=self.replication.tail_recovery.was_clean)

    # -- serving -------------------------------------------------------------------------------------------------

    def jobs(self) -> list[Job]:
        """Return the periodic work, for the event loop to run."""
        return [
            *self.requests.jobs(),
            *self.messages.jobs(),
            *self.upkeep.jobs(),
            *self.metadata.jobs(),
            Job("statistics", SLOW_TICK_PERIOD_MS, self.stats.tick),
            *self.place.jobs(self.master_monitor),
            *self.side.jobs(),
        ]

    def follow_settings(self, changed: Collection[str]) -> None:
        """Do at once what settings that ``changed`` at run time ask for; all others are read where they are used."""
        self.metadata.topics.follow_settings(changed)
        if "brokerPermission" in changed:
            self.registration_requests.register_now()  # it is part of each topic's permission in routes

    def end_turn(self) -> None:
        """Do what belongs at the end of each round of the event loop in which something came in."""
        self.messages.writer.commit()
        self.requests.long_polls.wake_the_only_one()
        self.side.end_turn()

    def after_turn(self) -> bool:
        """Do what can wait until the turn's answers are written. Return True when more of it is left."""
        return self.requests.wake_waiting()

    # -- for a node to be (:class:`pymq.broker.raft.waiting.ServingParts`) --------------------------------------------

    @property
    def is_master(self) -> bool:
        return self.role.is_master

    @property
    def history(self) -> EpochHistory:
        return self.replication.epoch_file.history

    @property
    def write_fence(self) -> WriteFence:
        return self.replication.write_fence

    @property
    def tables_fence(self) -> int:
        return self.side.tables_fence

    # -- closing -------------------------------------------------------------------------------------------------

    def leave_group(self, why: str) -> None:
        """End the connections of replication because of ``why``; ask other brokers nothing more."""
        self.master_monitor.close()
        self.replication.tail_recovery.close()
        self.side.close(why)

    def stop(self) -> None:
        """Begin no more work in threads, and ignore the result of what still runs: :meth:`close` follows."""
        self.messages.stop()
        self.upkeep.stop()
        self.metadata.stop()

    def close(self) -> None:
        """Save the tables and close the store, which marks its stop as clean. Raises StoreError.

        Each step is done even when one before it failed.
        """
        metadata, replication = self.metadata, self.replication
        with ExitStack() as steps:  # the last one goes first
            if replication.tail_recovery.is_fenced:
                steps.callback(self.give_up)  # nothing was written, and the doubt stays
            else:
                log_end = self.store.physical_max_offset
                steps.callback(replication.epoch_file.close, log_end)
                steps.callback(self.store.close)
            steps.callback(self.messages.delays.save)
            steps.callback(self.messages.timers.close)
            for save in reversed(metadata.saves()):
                steps.callback(save)
            steps.callback(replication.write_fence.keep_commits)
            if self.role.is_master and not replication.tail_recovery.is_fenced:
                steps.callback(self.messages.transactions.save)
