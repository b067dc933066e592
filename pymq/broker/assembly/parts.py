"""BrokerParts: everything a broker is made of while it serves in one role, put together once. No I/O of its own."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from contextlib import ExitStack

from pymq.broker.addresses import own_address
from pymq.broker.assembly.follower_side import FollowerSide
from pymq.broker.assembly.master_side import MasterSide
from pymq.broker.assembly.message_requests import MessageRequests
from pymq.broker.assembly.messages import Messages
from pymq.broker.assembly.pop_parts import PopParts
from pymq.broker.assembly.replication import Replication
from pymq.broker.assembly.runtime_settings import broker_runtime_settings
from pymq.broker.assembly.slave_side import SlaveSide
from pymq.broker.assembly.store_settings import store_settings
from pymq.broker.assembly.upkeep import Upkeep
from pymq.broker.metadata.config_tables import ConfigTables
from pymq.broker.metadata.cursors import CursorManager, MaxOffset
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.metadata.pending_offsets import PendingOffsets
from pymq.broker.metadata.table_saver import TableSaver, ending_turns
from pymq.broker.metadata.topics_made_again import TopicsMadeAgain
from pymq.broker.pop.topic_routes import TopicRoutes
from pymq.broker.raft.group import RaftGroup
from pymq.broker.raft.logged_cursors import LoggedCursors
from pymq.broker.raft.logged_tables import LoggedTable
from pymq.broker.raft.majority import Replicas
from pymq.broker.raft.report import OperatedGroup
from pymq.broker.raft.waiting import WaitingMember
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.peer_proof import NO_PROOF, PeerProof
from pymq.broker.replication.read_advice import ReadAdvice
from pymq.broker.replication.roles.known_peers import KnownPeers
from pymq.broker.replication.roles.master_monitor import MasterMonitor
from pymq.broker.replication.roles.role import ChangeRole, Role
from pymq.broker.replication.roles.write_fence import WriteFence
from pymq.broker.replication.side import ReplicationSide
from pymq.broker.replication.sync_mode import NoSlaves
from pymq.broker.replication.tables.replicated_tables import replicated_tables
from pymq.broker.replication.tables.slave_cursors import SlaveCursors
from pymq.broker.replication.tables.table_pieces import PieceSizes
from pymq.broker.replication.tail_recovery.tail_search import RecoveredTail
from pymq.broker.report.registration import REGISTRATION_JOB, RegistrationRequests
from pymq.broker.stats.stats_manager import StatsManager
from pymq.broker.upkeep.known_retention import RETENTION_FILE, KnownRetention
from pymq.broker.upkeep.recovery_progress import RecoveryProgress
from pymq.broker.work.jobs import SLOW_TICK_PERIOD_MS, TICK_PERIOD_MS, HastenJob, Job
from pymq.broker.work.sliced_work import SlicedWork, inline_work
from pymq.broker.work.worker_threads import RunInThread
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.config.runtime import RuntimeSettings
from pymq.model.hosts import pack_host
from pymq.net.memory_budget import MemoryBudget
from pymq.store.disk.fs import Files
from pymq.store.store import MessageStore, RecoveryReport
from pymq.store.timer.timer_store import WHEEL_SLOTS
from pymq.wire.streams import Network

ASSUMED_MEMORY_BYTES = 8 * 1024 * 1024 * 1024


class BrokerParts:
    """The parts by name. ``config.listen_port`` must be the port in use: it is part of every message id."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        files: Files,
        rng: random.Random,
        network: Network,
        role: Role,
        run_in_thread: RunInThread,
        schedule_turn_end: Callable[[], None],
        change_role: ChangeRole,
        registration_requests: RegistrationRequests,
        on_master_role: Callable[[str], None] = lambda master_role: None,
        hasten_job: HastenJob = lambda name, delay_ms: None,
        memory_bytes: int = ASSUMED_MEMORY_BYTES,
        budget: MemoryBudget | None = None,
        sliced_work: SlicedWork | None = None,
        known_peers: KnownPeers | None = None,
        runtime_settings: RuntimeSettings | None = None,
        timer_slot_count: int = WHEEL_SLOTS,
        piece_sizes: PieceSizes = PieceSizes(),  # noqa: B008 - it does not change
        peer_proof: PeerProof = NO_PROOF,
        raft: RaftGroup | None = None,
        raft_waiting: WaitingMember | None = None,
    ) -> None:
        """``change_role`` closes these parts later and opens others in another role; ``on_master_role`` gets the role
        of the group's master, each time it is seen; ``memory_bytes``: the machine's; ``budget``: the process's; without
        ``sliced_work``, long work is done at once; ``known_peers``: those that earlier parts of this broker knew;
        without ``runtime_settings``, no change of settings outlives the process;
        ``timer_slot_count``: half of the timer wheel's slots; ``piece_sizes``: of large tables that slaves copy;
        ``peer_proof``: what slaves and their master prove to each other; ``raft``: the Raft group, None in a plain
        one; ``raft_waiting``: of a plain group's broker that is to be a node."""
        budget = budget or MemoryBudget()
        assert role.broker_id == config.broker_id
        self.config = config
        self.runtime_settings = runtime_settings or broker_runtime_settings(config, clock)
        self.clock = clock
        self.files = files
        self.role = role
        self.raft: OperatedGroup | None = raft
        self.raft_node, self.raft_waiting = raft, raft_waiting
        self.registration_requests = registration_requests
        self.change_role = change_role
        self.sliced_work = sliced_work or inline_work()
        root, store_host = config.store_path_root_dir, pack_host(config.broker_ip1, config.listen_port)
        self.store = store = MessageStore(
            root=root,
            files=files,
            clock=clock,
            settings=store_settings(config, on_lost_end=raft.on_lost_end if raft is not None else None),
            store_host=store_host,
        )
        self.stats = StatsManager(clock=clock, config=config)
        self._schedule_turn_end = schedule_turn_end
        config_tables, metadata_tables = (
            ConfigTables(files, root, each) for each in (run_in_thread, ending_turns(run_in_thread, schedule_turn_end))
        )
        if raft is not None:
            config_tables = metadata_tables = raft.tables.config_tables(leads=role.is_master)
        self.share_deletions = metadata_tables.share_deletions
        self.metadata = Metadata(
            config=config,
            clock=clock,
            is_master=role.is_master,
            store=store,
            config_tables=metadata_tables,
            make_cursors=self._make_cursors,
            on_filter_servers=registration_requests.register_now,
            budget=budget,
        )
        known_peers = known_peers or KnownPeers(config, clock)
        slaves: HaService | NoSlaves | Replicas = NoSlaves()
        if role.is_master:
            slaves = (
                HaService(
                    store=store, clock=clock, config=config, rng=rng, known_peers=known_peers, peer_proof=peer_proof
                )
                if raft is None
                else raft.replicas
            )
        if isinstance(slaves, HaService):
            slaves.on_member = lambda: hasten_job(REGISTRATION_JOB, 0)
        self.replication = Replication(
            config=config,
            clock=clock,
            rng=rng,
            role=role,
            network=network,
            store=store,
            metadata=self.metadata,
            slaves=slaves,
            files=files,
            change_role=change_role,
            on_master_role=on_master_role,
            known_peers=known_peers,
            raft=raft,
        )
        self.messages = Messages(
            config=config,
            clock=clock,
            rng=rng,
            store=store,
            store_host=store_host,
            metadata=self.metadata,
            stats=self.stats,
            config_tables=config_tables,
            copies=self.replication.sync_mode,
            run_in_thread=run_in_thread,
            schedule_turn_end=schedule_turn_end,
            hasten_job=hasten_job,
            files=files,
            timer_slot_count=timer_slot_count,
            budget=budget,
        )
        self.pop = PopParts(
            config=config,
            clock=clock,
            rng=rng,
            store=store,
            store_host=store_host,
            metadata=self.metadata,
            messages=self.messages,
            stats=self.stats,
        )
        self.topic_routes = TopicRoutes(network, clock=clock, config=config)
        tables = replicated_tables(
            store=store,
            metadata=self.metadata,
            delays=self.messages.delays,
            transactions=self.messages.transactions,
            timers=self.messages.timers,
            stats=self.stats,
            sync_mode=self.replication.sync_mode,
            master_role=self.replication.master_role,
            start_id=f"{rng.getrandbits(64):016x}",
            piece_sizes=piece_sizes,
        )
        self.side: ReplicationSide
        if not isinstance(slaves, NoSlaves):
            self.side = MasterSide(
                role=role,
                clock=clock,
                store=store,
                metadata=self.metadata,
                messages=self.messages,
                pop=self.pop,
                replication=self.replication,
                ha_service=slaves,
                tables=tables,
                schedule_turn_end=schedule_turn_end,
            )
        elif raft is not None:
            self.side = FollowerSide(
                group=raft,
                config=config,
                clock=clock,
                network=network,
                store=store,
                metadata=self.metadata,
                messages=self.messages,
                tables=tables,
                config_tables=config_tables,
            )
        else:
            self.side = SlaveSide(
                config=config,
                clock=clock,
                rng=rng,
                role=role,
                network=network,
                store=store,
                metadata=self.metadata,
                messages=self.messages,
                replication=self.replication,
                tables=tables,
                config_tables=config_tables,
                change_role=change_role,
                hasten_job=hasten_job,
                prove=peer_proof.prove,
            )
        self.master_monitor = MasterMonitor(
            group_probe=self.replication.group_probe,
            clock=clock,
            config=config,
            role=role,
            address=own_address(config),
            epoch_history=lambda: self.replication.epoch_file.history,
            change_role=change_role,
            master_role=self.replication.master_role,
            side=self.side,
            known_peers=known_peers,
            register_now=registration_requests.register_now,
        )
        self.requests = MessageRequests(
            config=config,
            clock=clock,
            rng=rng,
            role=role,
            store=store,
            store_host=store_host,
            metadata=self.metadata,
            messages=self.messages,
            pop=self.pop,
            stats=self.stats,
            read_advice=ReadAdvice(
                config=config,
                store=store,
                role=role,
                memory_bytes=memory_bytes,
                slave_count=lambda: self.replication.sync_mode.slaves.in_sync_count,
                is_following=lambda: self.side.is_following,
                is_tail_fenced=lambda: self.replication.tail_recovery.is_fenced,
            ),
            schedule_turn_end=schedule_turn_end,
            budget=budget,
            hasten_job=hasten_job,
        )
        if role.is_master:
            TopicsMadeAgain(
                topics=self.metadata.topics,
                clients=self.metadata.clients,
                cursors=self.metadata.cursors,
                broadcast_begins=self.metadata.broadcast_begins,
                store=store,
                wake_pulls=self.requests.wake_queue,
            )
        known_retention = KnownRetention(config_tables.table(RETENTION_FILE))
        self.upkeep = Upkeep(
            config=config, clock=clock, store=store, known_retention=known_retention, run_in_thread=run_in_thread
        )

    def _make_cursors(self, saver: TableSaver, pending: PendingOffsets, max_offset: MaxOffset) -> CursorManager:
        config, clock = self.config, self.clock
        if not self.role.is_master:
            return SlaveCursors(saver, clock=clock, config=config, max_offset=max_offset, pending=pending)
        if isinstance(saver, LoggedTable):
            return LoggedCursors(saver, clock=clock, config=config, max_offset=max_offset)
        return CursorManager(saver, clock=clock, config=config, max_offset=max_offset)

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
            if self.raft_node is not None:
                self.raft_node.tables.open(
                    self.store, self.messages.writer, self._schedule_turn_end, leads=self.role.is_master
                )
            self.metadata.load()
            self.side.open()
            self.replication.sync_mode.check()
        except BaseException:
            self.give_up()
            raise

    def join_group(self, group: RaftGroup) -> None:
        """Be the parts of this Raft group's node from now on. Raises StoreError."""
        group.attach(
            self,
            follower=self.side.follower if isinstance(self.side, FollowerSide) else None,
            history=self.replication.epoch_file.history,
            was_clean=self.replication.tail_recovery.was_clean,
            commit=self.messages.writer.commit,
            request_sync=self.messages.flusher.request,
            check_writes=self.replication.sync_mode.check,
        )

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
            (
                Job("group of brokers", TICK_PERIOD_MS, self.master_monitor.tick)
                if self.raft_node is None
                else Job("tables of the Raft group", SLOW_TICK_PERIOD_MS, self.raft_node.tables.tick)
            ),
            *self.side.jobs(),
            *(self.raft_waiting.jobs() if self.raft_waiting is not None else ()),
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
    def tables_age_ms(self) -> int:
        return self.side.metadata_copy.age_ms if isinstance(self.side, SlaveSide) else -1

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
            steps.callback(metadata.cursors.save)
            steps.callback(metadata.pending_offsets.save)
            steps.callback(metadata.auth.save)
            steps.callback(metadata.request_modes.save)
            steps.callback(metadata.order_infos.save)
            steps.callback(metadata.groups.save)
            steps.callback(metadata.topics.save)
            steps.callback(replication.write_fence.keep_commits)
            if self.role.is_master and not replication.tail_recovery.is_fenced:
                steps.callback(self.messages.transactions.save)
