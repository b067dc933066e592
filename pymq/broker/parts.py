"""Everything a broker is made of, put together once: store, metadata, data path, handlers. No I/O of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack, suppress

from pymq.broker.addresses import own_address
from pymq.broker.caretaker import Caretaker, chores_of
from pymq.broker.cleaner import Cleaner
from pymq.broker.clients import ClientManager
from pymq.broker.cursors import CursorManager
from pymq.broker.delays import DelayService
from pymq.broker.expressions import Expressions
from pymq.broker.fast_pull import FastPulls
from pymq.broker.fast_send import FastSends
from pymq.broker.fast_targets import SendTargets
from pymq.broker.filter_servers import FilterServers
from pymq.broker.flusher import Flusher, RunInThread
from pymq.broker.groups import GroupManager
from pymq.broker.handlers.pull import PullHandlers
from pymq.broker.handlers.send import SendHandlers
from pymq.broker.leaser import Leaser
from pymq.broker.reader import Reader
from pymq.broker.recovery_progress import RecoveryProgress
from pymq.broker.replication.copied_tables import copied_tables
from pymq.broker.replication.lineage_file import LINEAGE_FILE, LineageKeeper
from pymq.broker.replication.lost_tail.own_tail import own_tail
from pymq.broker.replication.lost_tail.regained_tail import Regained
from pymq.broker.replication.master.copy_requests import CopyRequests
from pymq.broker.replication.master.feeds import Feeds
from pymq.broker.replication.master.found_topics import make_found_topics
from pymq.broker.replication.master.sync_mode import SyncMode
from pymq.broker.replication.read_advice import ReadAdvice
from pymq.broker.replication.roles.census import Census
from pymq.broker.replication.roles.freeze import Freeze
from pymq.broker.replication.roles.promotion import RoleRequests
from pymq.broker.replication.roles.role import ChangeRole, Role
from pymq.broker.replication.roles.watch import GroupWatch
from pymq.broker.replication.slave.cursors import SlaveCursors
from pymq.broker.replication.slave.link import MasterLink
from pymq.broker.replication.slave.metadata_copy import LinkAndTables, MetadataCopy, metadata_copy
from pymq.broker.replication.slave.pending_offsets import PendingOffsets
from pymq.broker.retries import Retries
from pymq.broker.stats import StatsManager
from pymq.broker.store_settings import store_settings
from pymq.broker.table_saver import TableSaver, ending_turns
from pymq.broker.topics import TopicManager
from pymq.broker.writer import Writer
from pymq.clock import Clock
from pymq.config import BrokerConfig
from pymq.config.values import SYNC_FLUSH
from pymq.errors import StoreUnavailableError
from pymq.model.hosts import pack_host
from pymq.model.ids import UniqueIdMaker
from pymq.model.names import SCHEDULE_TOPIC
from pymq.model.route import MASTER_ID
from pymq.store.consume_queue import tags_codes
from pymq.store.following import Follower
from pymq.store.fs import Files
from pymq.store.plain_stage import PlainStager
from pymq.store.recovery import RecoveryReport
from pymq.store.settings import UNIT_SIZE_BYTES
from pymq.store.store import MessageStore
from pymq.store.tables import JsonTable
from pymq.store.timer_check import TimerCheckFile
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
        self.freeze = Freeze(self.store, self.cursors, self.pending_offsets, clock)
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
        self.caretaker = Caretaker(chores_of(self.store, config, clock), clock, run_in_thread)
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
        """What this broker is in its group: a master has ``feeds``, a slave a ``link``."""
        config, clock = self.config, self.clock
        path = f"{config.store_path_root_dir}/config/{LINEAGE_FILE}.json"
        self.lineage = LineageKeeper(JsonTable(self.files, path), rng)
        self.feeds: Feeds | None = None
        if self.role.is_master:
            self.feeds = Feeds(store=self.store, clock=clock, config=config, rng=rng)
            self.feeds.on_acked = self._slaves_moved
            self.sync_mode.slaves = self.feeds
        census = Census(self.network, config.broker_name)
        self.tail = own_tail(self, census)
        self.follower: Follower | None = None
        self.link: MasterLink | None = None
        if not self.role.is_master:
            self.follower = Follower(self.store)
            self.link = MasterLink(
                config=config,
                store=self.store,
                follower=self.follower,
                lineage=self.lineage,
                network=self.network,
                clock=clock,
                rng=rng,
                role=self.role,
                change_role=self.change_role,
                request_sync=self.flusher.request,
            )
        self.watch = GroupWatch(
            census=census,
            clock=clock,
            config=config,
            role=self.role,
            address=own_address(config),
            lineage=lambda: self.lineage.lineage,
            change_role=self.change_role,
            is_following=lambda: self.link is not None and self.link.is_following,
            has_all_slaves=lambda: self.feeds is None or self.feeds.are_all_there,
            known=self._known_members,
        )
        if self.link is not None:
            self.link.on_master_role = self.watch.note_master_role
        self.role_requests = RoleRequests(
            config=config,
            store=self.store,
            role=self.role,
            lineage=self.lineage,
            freeze=self.freeze,
            watch=self.watch,
            link=self.link,
            change_role=self.change_role,
        )

    def _make_copies(self, rng: random.Random, run_in_thread: RunInThread) -> None:
        """The tables that slaves have of their master."""
        self.copied_tables = copied_tables(self, start_id=f"{rng.getrandbits(64):016x}")
        self.copy_requests = CopyRequests(
            tables=self.copied_tables, store=self.store, clock=self.clock, is_frozen=lambda: self.freeze.is_on
        )
        self.metadata: MetadataCopy | None = None
        self.link_view: LinkAndTables | None = None
        if self.link is not None:
            directory = f"{self.config.store_path_root_dir}/config"

            def saver(file_name: str, member: str) -> TableSaver:
                return TableSaver(JsonTable(self.files, f"{directory}/{file_name}", member), run_in_thread)

            timer_check = TimerCheckFile(self.files, self.config.store_path_root_dir)
            self.metadata = metadata_copy(self, self.link, saver, TableSaver(timer_check, run_in_thread))
            self.link_view = LinkAndTables(self.link, self.metadata)

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
        self.read_advice.link = self.link
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
        stager = PlainStager(self.store, self.store_host)
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
            self.tail.load(report)
        except BaseException:
            self.give_up()
            raise
        return report

    def begin(self, regained: Regained | None = None) -> None:
        """The second half, with what the group gave."""
        try:
            self.tail.begin(regained)
            self.read_advice.keeps_offsets |= self.tail.is_held
            self.topics.load(is_copy=not self.role.is_master)
            if self.role.is_master and (self.role.begins_reign or self.tail.regained is not None):
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
        self.store.close(as_clean=self.tail.was_clean)

    def _known_members(self) -> list[str]:
        """Addresses of the group's brokers that this one has had to do with."""
        if self.feeds is not None:
            return [slave.address for slave in self.feeds.states() if slave.broker_id > MASTER_ID]
        assert self.link is not None
        return [self.link.master_address] if self.link.master_address else []

    def leave_group(self, why: str) -> None:
        """Ends the connections of replication; nothing is asked of others any more."""
        self.watch.close()
        self.tail.close()
        self.copy_requests.close()
        if self.feeds is not None:
            self.feeds.on_acked = lambda: None  # they go while another thread closes the store
            self.feeds.close(why)
        if self.link is not None:
            self.link.close()
        if self.metadata is not None:
            self.metadata.close()

    def end_turn(self) -> None:
        """What belongs at the end of each round of the event loop in which something came in."""
        self.writer.commit()
        if self.feeds is not None:
            self.feeds.committed()
        if self.link is not None:
            self.link.end_turn()
        self.copy_requests.end_turn()
        self.pulls.long_polls.wake()

    def _open_progress(self) -> None:
        """How far groups and delay levels have come: a slave's are its master's, a master's must fit its log."""
        if not self.role.is_master:
            self.delays.load()
            return
        self.pending_offsets.load()
        self.pending_offsets.hand_over(self.cursors)
        # A queue that is not here was on the master before: its next message gets offset 0.
        if not self.tail.is_held:  # else the log may grow to where they are
            self.cursors.fit(self.store.max_offset if self.role.begins_reign else self.store.queue_end)
        if len(self.pending_offsets):
            self.cursors.save()
            self.pending_offsets.clear()
        self.delays.start()

    def close(self) -> None:
        """Saves the tables and closes the store, which marks its stop as clean. Raises StoreError.

        Each step is done whether or not one before it failed.
        """
        with ExitStack() as steps:  # the last one goes first
            if self.tail.is_held:
                steps.callback(self.give_up)  # nothing was written, and the doubt stays
            else:
                log_end = self.store.physical_max_offset
                steps.callback(self.lineage.close, log_end)
                steps.callback(self.store.close)
            steps.callback(self.delays.save)
            steps.callback(self.cursors.save)
            steps.callback(self.pending_offsets.save)
            steps.callback(self.groups.save)
            steps.callback(self.topics.save)
            steps.callback(self.freeze.keep_commits)

    @property
    def master_address(self) -> str:
        """Where a slave's master answers requests, as far as known."""
        return self.link.master_address if self.link is not None else ""

    @property
    def fast_path(self) -> FastSends | FastPulls:
        """What a server offers each frame first. A slave takes no sends."""
        return self.fast_sends if self.role.is_master else self.fast_pulls

    def _slaves_moved(self) -> None:
        """Slaves have more of the log, or are fewer: answers may go, and messages that are seen wake pulls."""
        was_hiding = bool(self.store.appender.hidden)
        self.writer.copied()
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
