"""Everything a broker is made of, put together once: store, metadata, data path, handlers. No I/O of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack, suppress

from pymq.broker.addresses import own_address
from pymq.broker.fast.pull import FastPulls
from pymq.broker.fast.send import FastSends
from pymq.broker.fast.targets import SendTargets
from pymq.broker.handlers.pull import PullHandlers
from pymq.broker.handlers.send import SendHandlers
from pymq.broker.messages.delays import DelayService
from pymq.broker.messages.expressions import Expressions
from pymq.broker.messages.reader import Reader
from pymq.broker.messages.retries import Retries
from pymq.broker.messages.writer import Writer
from pymq.broker.metadata.clients import ClientManager
from pymq.broker.metadata.cursors import CursorManager
from pymq.broker.metadata.filter_servers import FilterServers
from pymq.broker.metadata.groups import GroupManager
from pymq.broker.metadata.leaser import Leaser
from pymq.broker.metadata.table_saver import TableSaver, ending_turns
from pymq.broker.metadata.topics import TopicManager
from pymq.broker.replication.epoch_file import EpochFile
from pymq.broker.replication.master.found_topics import make_found_topics
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.master.sync_mode import SyncMode
from pymq.broker.replication.master.table_requests import TableRequests
from pymq.broker.replication.read_advice import ReadAdvice
from pymq.broker.replication.replicated_tables import replicated_tables
from pymq.broker.replication.roles.group_probe import GroupProbe
from pymq.broker.replication.roles.master_monitor import MasterMonitor
from pymq.broker.replication.roles.promotion import RoleRequests
from pymq.broker.replication.roles.role import ChangeRole, Role
from pymq.broker.replication.roles.write_fence import WriteFence
from pymq.broker.replication.slave.cursors import SlaveCursors
from pymq.broker.replication.slave.ha_client import HaClient
from pymq.broker.replication.slave.metadata_copy import HaClientAndTables, MetadataCopy, metadata_copy
from pymq.broker.replication.slave.pending_offsets import PendingOffsets
from pymq.broker.replication.tail_recovery.tail_recovery import make_tail_recovery
from pymq.broker.replication.tail_recovery.tail_search import RecoveredTail
from pymq.broker.report.stats import StatsManager
from pymq.broker.store_settings import store_settings
from pymq.broker.upkeep.cleaner import Cleaner
from pymq.broker.upkeep.flusher import Flusher, RunInThread
from pymq.broker.upkeep.maintenance import MaintenanceTasks, maintenance_tasks
from pymq.broker.upkeep.recovery_progress import RecoveryProgress
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.config.values import SYNC_FLUSH
from pymq.errors import StoreUnavailableError
from pymq.model.hosts import pack_host
from pymq.model.ids import UniqueIdMaker
from pymq.model.layout import UNIT_SIZE_BYTES
from pymq.model.names import SCHEDULE_TOPIC
from pymq.model.route import MASTER_ID
from pymq.store.disk.fs import Files
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.timer_checkpoint import TimerCheckFile
from pymq.store.replica.epoch_table import epoch_table
from pymq.store.store import Follower, MessageStore, RecoveryReport, tags_codes
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
        run_in_thread: RunInThread,
        schedule_turn_end: Callable[[], None],
        role: Role,
        network: Network,
        change_role: ChangeRole,
        memory_bytes: int = ASSUMED_MEMORY_BYTES,
    ) -> None:
        """``change_role``: closes these parts later and opens others in another role; ``memory_bytes``: all of it."""
        assert role.broker_id == config.broker_id
        self.role = role
        self.network = network
        self.change_role = change_role
        self._memory_bytes = memory_bytes
        self._schedule_turn_end = schedule_turn_end
        self.config = config
        self.clock = clock
        self.files = files
        self.store_host = pack_host(config.broker_ip1, config.listen_port)
        self.store = MessageStore(
            root=config.store_path_root_dir,
            files=files,
            clock=clock,
            settings=store_settings(config),
            store_host=self.store_host,
        )
        # Runs a callback once the name servers know the present topics; the composition root puts the registrar here.
        self.when_registered: Callable[[Callable[[], None]], None] = lambda callback: callback()
        self._make_metadata(ending_turns(run_in_thread, schedule_turn_end))
        self._make_data_path(rng, run_in_thread, schedule_turn_end)
        self._make_replication(rng)
        self._make_copies(rng, run_in_thread)
        ids = UniqueIdMaker(clock, self.store_host[:4], config.listen_port, rng.getrandbits(32))
        self._make_message_handlers(ids, schedule_turn_end)
        self.store.add_arrival_listener(self._on_arrival)

    def _table(self, name: str, member: str) -> JsonTable:
        return JsonTable(self.files, f"{self.config.store_path_root_dir}/config/{name}.json", member)

    def _sync_log(self) -> None:
        self.store.sync(log_only=True)

    def _sync_if_possible(self) -> None:
        """So that no saved offset lies behind the log's end after a power loss; consumers of a broken log go on."""
        with suppress(StoreUnavailableError):
            self._sync_log()

    def _make_metadata(self, run_in_thread: RunInThread) -> None:
        """What is known of topics, groups, cursors and clients."""
        config, clock = self.config, self.clock

        def saver(name: str, member: str, before: Callable[[], object] = lambda: None) -> TableSaver:
            return TableSaver(self._table(name, member), run_in_thread, before)

        self.topics = TopicManager(saver("topics", "topicConfigTable"), clock=clock, config=config)
        self.groups = GroupManager(
            saver("subscriptionGroup", "subscriptionGroupTable"),
            clock=clock,
            config=config,
            makes_groups=self.role.is_master,
        )
        self.pending_offsets = PendingOffsets(saver("pendingOffsets", "pendingOffsets"), clock=clock)
        offsets, ends = saver("consumerOffset", "offsetTable", self._sync_if_possible), self.store.max_offset
        if self.role.is_master:
            self.cursors = CursorManager(offsets, clock=clock, config=config, max_offset=ends)
        else:
            self.cursors = SlaveCursors(
                offsets, clock=clock, config=config, max_offset=ends, pending=self.pending_offsets
            )
        self.leaser = Leaser(clock=clock, config=config)
        self.clients = ClientManager(clock=clock, config=config, groups=self.groups)
        self.filter_servers = FilterServers(clock)
        self.stats = StatsManager(clock=clock, config=config)
        self.expressions = Expressions(config=config, stats=self.stats)

    def _make_data_path(
        self, rng: random.Random, run_in_thread: RunInThread, schedule_turn_end: Callable[[], None]
    ) -> None:
        """What moves messages into the store and out of it, and those that wait to another topic."""
        config, clock = self.config, self.clock
        self.sync_mode = SyncMode(config=config, store=self.store, role=self.role)
        self.write_fence = WriteFence(self.store, self.cursors, self.pending_offsets, clock)
        self.flusher = Flusher(self.store, run_in_thread, schedule_turn_end, clock=clock, config=config)
        self.writer = Writer(
            store=self.store,
            clock=clock,
            rng=rng,
            cluster=config.broker_cluster_name,
            delay_levels_ms=list(config.delay_level_ms.values()),
            sync_flush=lambda: config.flush_disk_type == SYNC_FLUSH,
            sync_timeout_ms=lambda: config.sync_flush_timeout_ms,
            request_sync=self.flusher.request,
            copies=self.sync_mode,
        )
        self.flusher.writer = self.writer
        self.cleaner = Cleaner(config=config, clock=clock, store=self.store, run_in_thread=run_in_thread)
        self.maintenance = MaintenanceTasks(maintenance_tasks(self.store, config, clock), clock, run_in_thread)
        self.reader = Reader(self.store, config)
        self.retries = Retries(
            config=config,
            topics=self.topics,
            groups=self.groups,
            leaser=self.leaser,
            writer=self.writer,
            store=self.store,
            stats=self.stats,
        )
        self.delays = DelayService(
            # What was delivered must be on the disk before its delayed original counts as dealt with.
            TableSaver(self._table("delayOffset", "offsetTable"), run_in_thread, self._sync_log),
            clock=clock,
            config=config,
            store=self.store,
            writer=self.writer,
            topics=self.topics,
        )

    def _make_replication(self, rng: random.Random) -> None:
        """What this broker is in its group: a master has ``ha_service``, a slave a ``ha_client``."""
        config, clock = self.config, self.clock
        self.epoch_file = EpochFile(epoch_table(self.files, config.store_path_root_dir), rng)
        self.ha_service: HaService | None = None
        if self.role.is_master:
            self.ha_service = HaService(store=self.store, clock=clock, config=config, rng=rng)
            self.ha_service.on_ack = self._slaves_moved
            self.sync_mode.slaves = self.ha_service
        group_probe = GroupProbe(self.network, config.broker_name)
        self.tail_recovery = make_tail_recovery(self, group_probe)
        self.follower: Follower | None = None
        self.ha_client: HaClient | None = None
        if not self.role.is_master:
            self.follower = self.store.follow()
            self.ha_client = HaClient(
                config=config,
                store=self.store,
                follower=self.follower,
                epoch_file=self.epoch_file,
                network=self.network,
                clock=clock,
                rng=rng,
                role=self.role,
                change_role=self.change_role,
                request_sync=self.flusher.request,
            )
        self.master_monitor = MasterMonitor(
            group_probe=group_probe,
            clock=clock,
            config=config,
            role=self.role,
            address=own_address(config),
            epoch_history=lambda: self.epoch_file.history,
            change_role=self.change_role,
            is_following=lambda: self.ha_client is not None and self.ha_client.is_following,
            has_all_slaves=lambda: self.ha_service is None or self.ha_service.are_all_there,
            known=self._known_members,
        )
        if self.ha_client is not None:
            self.ha_client.on_master_role = self.master_monitor.note_master_role
        self.role_requests = RoleRequests(
            config=config,
            store=self.store,
            role=self.role,
            epoch_file=self.epoch_file,
            write_fence=self.write_fence,
            master_monitor=self.master_monitor,
            ha_client=self.ha_client,
            change_role=self.change_role,
        )

    def _make_copies(self, rng: random.Random, run_in_thread: RunInThread) -> None:
        """The tables that slaves have of their master."""
        self.replicated_tables = replicated_tables(self, start_id=f"{rng.getrandbits(64):016x}")
        self.table_requests = TableRequests(
            tables=self.replicated_tables, store=self.store, clock=self.clock, is_fenced=lambda: self.write_fence.is_on
        )
        self.metadata: MetadataCopy | None = None
        self.ha_client_view: HaClientAndTables | None = None
        if self.ha_client is not None:
            directory = f"{self.config.store_path_root_dir}/config"

            def saver(file_name: str, member: str) -> TableSaver:
                return TableSaver(JsonTable(self.files, f"{directory}/{file_name}", member), run_in_thread)

            timer_check = TimerCheckFile(self.files, self.config.store_path_root_dir)
            self.metadata = metadata_copy(self, self.ha_client, saver, TableSaver(timer_check, run_in_thread))
            self.ha_client_view = HaClientAndTables(self.ha_client, self.metadata)

    def _make_message_handlers(self, ids: UniqueIdMaker, schedule_turn_end: Callable[[], None]) -> None:
        """Sends and pulls, the plain ways and the short ones."""
        config, clock = self.config, self.clock
        self.read_advice = ReadAdvice(
            config=config,
            store=self.store,
            role=self.role,
            memory_bytes=self._memory_bytes,
            slave_count=lambda: self.sync_mode.slaves.in_sync_count,
        )
        self.read_advice.ha_client = self.ha_client
        self.sends = SendHandlers(
            config=config,
            topics=self.topics,
            writer=self.writer,
            retries=self.retries,
            stats=self.stats,
            ids=ids,
            store_host=self.store_host,
            schedule_commit=schedule_turn_end,
        )
        self.pulls = PullHandlers(
            config=config,
            clock=clock,
            topics=self.topics,
            groups=self.groups,
            clients=self.clients,
            cursors=self.cursors,
            expressions=self.expressions,
            reader=self.reader,
            advice=self.read_advice,
            stats=self.stats,
        )
        stager = self.store.plain_stager()
        self.fast_pulls = FastPulls(self.pulls)
        self.fast_sends = FastSends(
            config=config,
            writer=self.writer,
            stager=stager,
            targets=SendTargets(self.topics, stager, self.stats),
            ids=ids,
            store_host=self.store_host,
            otherwise=self.fast_pulls,
        )

    def open(self, is_stopping: Callable[[], bool] = lambda: False) -> RecoveryReport:
        """Recovers the store and reads the tables.

        Raises StoreError, and StoppedError when ``is_stopping``, which a long recovery asks now and then, says so.
        """
        report = self.recover(is_stopping)
        self.begin()
        return report

    def recover(self, is_stopping: Callable[[], bool] = lambda: False) -> RecoveryReport:
        """The first half of :meth:`open`; if ``tail.is_in_doubt`` then, the group can be asked for what is missing."""
        report = self.store.open(RecoveryProgress(self.clock, is_stopping))
        try:
            self.tail_recovery.load(report)
        except BaseException:
            self.give_up()
            raise
        return report

    def begin(self, recovered_tail: RecoveredTail | None = None) -> None:
        """The second half, with what the group gave."""
        try:
            self.tail_recovery.begin(recovered_tail)
            self.read_advice.keeps_offsets |= self.tail_recovery.is_fenced
            self.topics.load(is_copy=not self.role.is_master)
            if self.role.is_master and (self.role.begins_epoch or self.tail_recovery.recovered_tail is not None):
                make_found_topics(self.store, self.topics)
            self.groups.load()
            self.cursors.load()
            self._open_progress()
            self.sync_mode.check()
        except BaseException:
            self.give_up()
            raise

    def give_up(self) -> None:
        """Closes a store that was recovered and did not come to serve: the next start looks at it as this one did."""
        self.store.close(as_clean=self.tail_recovery.was_clean)

    def _known_members(self) -> list[str]:
        """Addresses of the group's brokers that this one has had to do with."""
        if self.ha_service is not None:
            return [slave.address for slave in self.ha_service.states() if slave.broker_id > MASTER_ID]
        assert self.ha_client is not None
        return [self.ha_client.master_address] if self.ha_client.master_address else []

    def leave_group(self, why: str) -> None:
        """Ends the connections of replication; nothing is asked of others any more."""
        self.master_monitor.close()
        self.tail_recovery.close()
        self.table_requests.close()
        if self.ha_service is not None:
            self.ha_service.on_ack = lambda: None  # they go while another thread closes the store
            self.ha_service.close(why)
        if self.ha_client is not None:
            self.ha_client.close()
        if self.metadata is not None:
            self.metadata.close()

    def end_turn(self) -> None:
        """What belongs at the end of each round of the event loop in which something came in."""
        self.writer.commit()
        if self.ha_service is not None:
            self.ha_service.committed()
        if self.ha_client is not None:
            self.ha_client.end_turn()
        self.table_requests.end_turn()
        self.pulls.long_polls.wake()

    def _open_progress(self) -> None:
        """How far groups and delay levels have come: a slave's are its master's, a master's must fit its log."""
        if not self.role.is_master:
            self.delays.load()
            return
        self.pending_offsets.load()
        self.pending_offsets.hand_over(self.cursors)
        # A queue that is not here was on the master before: its next message gets offset 0.
        if not self.tail_recovery.is_fenced:  # else the log may grow to where they are
            self.cursors.fit(self.store.max_offset if self.role.begins_epoch else self.store.queue_end)
        if len(self.pending_offsets):
            self.cursors.save()
            self.pending_offsets.clear()
        self.delays.start()

    def close(self) -> None:
        """Saves the tables and closes the store, which marks its stop as clean. Raises StoreError.

        Each step is done whether or not one before it failed.
        """
        with ExitStack() as steps:  # the last one goes first
            if self.tail_recovery.is_fenced:
                steps.callback(self.give_up)  # nothing was written, and the doubt stays
            else:
                log_end = self.store.physical_max_offset
                steps.callback(self.epoch_file.close, log_end)
                steps.callback(self.store.close)
            steps.callback(self.delays.save)
            steps.callback(self.cursors.save)
            steps.callback(self.pending_offsets.save)
            steps.callback(self.groups.save)
            steps.callback(self.topics.save)
            steps.callback(self.write_fence.keep_commits)

    @property
    def master_address(self) -> str:
        """Where a slave's master answers requests, as far as known."""
        return self.ha_client.master_address if self.ha_client is not None else ""

    @property
    def fast_path(self) -> FastSends | FastPulls:
        """What a server offers each frame first. A slave takes no sends."""
        return self.fast_sends if self.role.is_master else self.fast_pulls

    def _slaves_moved(self) -> None:
        """Slaves have more of the log, or are fewer: answers may go, and messages that are seen wake pulls."""
        was_hiding = self.store.has_unconfirmed
        self.writer.release_confirmed()
        if was_hiding:
            self._schedule_turn_end()

    def _on_arrival(self, topic: str, queue_id: int, max_offset: int, units: bytes) -> None:
        long_polls = self.pulls.long_polls
        if long_polls.is_waited_for(topic, queue_id):
            first = max_offset - len(units) // UNIT_SIZE_BYTES
            long_polls.on_arrival(
                topic,
                queue_id,
                tags_codes(units),
                lambda accept: self.reader.any_accepted(topic, queue_id, first, accept),
            )
        if topic == SCHEDULE_TOPIC and self.role.is_master:
            self.delays.on_arrival(topic, queue_id, max_offset, tags_codes(units))
