"""RaftGroup: a broker's place in its Raft group: the driver, fed once a turn, and the role that the broker takes by it.

Everything that comes in (messages, ticks, the log's new end, finished syncs) waits for the end of the broker's turn,
behind the turn's commit. So the driver never meets a record that is staged, and loses no leadership in the middle of a
turn. It outlives the broker's parts: while they are closed for a change of role, votes and heartbeats go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from pymq.broker.raft.bodies import founding_id
from pymq.broker.raft.broker_log import BrokerLog
from pymq.broker.raft.current_reads import CurrentReads
from pymq.broker.raft.disk_watch import DiskWatch
from pymq.broker.raft.driver import RaftDriver, tick_ms_of
from pymq.broker.raft.founders import Founders, own_report, with_log
from pymq.broker.raft.founding import NodeReport, Verdict, epochs_of, start_of
from pymq.broker.raft.group_epochs import group_history
from pymq.broker.raft.group_proofs import GroupProofs
from pymq.broker.raft.group_status import best_successor, follower_states, what_it_is
from pymq.broker.raft.group_tables import GroupTables
from pymq.broker.raft.hosted_broker import HostedBroker, OpenParts
from pymq.broker.raft.inbox import Inbox
from pymq.broker.raft.joining import Joining
from pymq.broker.raft.leader_watch import LeaderWatch
from pymq.broker.raft.log_reader import LogReader
from pymq.broker.raft.majority import Replicas
from pymq.broker.raft.members import GroupSettings
from pymq.broker.raft.outgoing import Part
from pymq.broker.raft.peers import Peers
from pymq.broker.raft.problems import RecentProblems
from pymq.broker.raft.reception import Reception
from pymq.broker.raft.run_record import RunRecord
from pymq.broker.raft.showing import Showing
from pymq.broker.raft.state_files import RaftStateFile
from pymq.broker.replication.history.epoch_history import EpochHistory
from pymq.broker.replication.roles.role import Role, RoleChange
from pymq.broker.runtime import Runtime
from pymq.config.values import SYNC_FLUSH
from pymq.errors import RaftRefusedError, StoreError
from pymq.model.route import MASTER_ID
from pymq.raft.messages import FoundRequest, Message, Snapshot
from pymq.raft.node import RaftNode
from pymq.raft.state import Membership, Replica
from pymq.store.store import Follower, MessageStore
from pymq.wire.bodies_replication import SlaveState

log = logging.getLogger(__name__)


class RaftGroup:
    """One broker's node. One thread calls everything. :meth:`attach` comes first."""

    def __init__(
        self,
        runtime: Runtime,
        settings: GroupSettings,
        broker: HostedBroker,
        *,
        proofs: GroupProofs,
        peers: Peers,
        tables: GroupTables,
        joining: Joining,
    ) -> None:
        """``broker`` takes the role of the node. ``tables`` are those of its next parts."""
        self.settings, self.peers, self.tables = settings, peers, tables
        self.gate, self.answer_proof = proofs.messages, proofs.answers
        self.driver: RaftDriver | None = None
        self.replicas, self.watch = Replicas(self), LeaderWatch(settings, runtime.clock)
        self.reads = CurrentReads(lambda: self._driver)
        self.on_read = self.reads.answered
        self._config = runtime.config
        self._clock = runtime.clock
        self._rng = runtime.rng
        self._tick_ms = tick_ms_of(settings)
        self._state_file = RaftStateFile(runtime.files, runtime.root, runtime.rng)
        self._run_record = RunRecord(runtime.files, runtime.root)
        self._log = BrokerLog(runtime.clock, runtime.store_host, self._truncate)
        self._broker = broker
        self._founders = Founders(
            settings,
            network=runtime.network,
            clock=runtime.clock,
            own_report=self.node_report,
            proof=proofs.answers,
        )
        self._inbox, self._problems = Inbox(), RecentProblems(runtime.clock)
        self.reception = Reception(
            self.gate, peers, self._inbox, has_begun=lambda: self.driver is not None, on_refused=self._problems.note
        )
        self._is_tick_due = self._has_begun_term = self._is_serving = False
        self._is_beyond = False  # the store has records that the core refused
        self._parts: OpenParts | None = None
        self._follower: Follower | None = None
        self._showing: Showing | None = None
        self._commit: Callable[[], None] = lambda: None
        self._check_writes = self._when_deposed = self._commit
        self._opened_term: int | None = None  # for which the parts are a leader's
        self._asked_term: int | None = None  # for which the next parts are to be
        self._opened_end = 0
        self._truncate_to: int | None = None
        self._disk_watch = DiskWatch(self, self._problems, LogReader(runtime.network, proofs.answers))
        self._start_history = EpochHistory()
        self._joining = joining
        joining.on_problem = self.on_problem
        peers.on_gone = self._inbox.gone.append
        peers.next_part = lambda to: self.driver.next_part(to) if self.driver is not None else None

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def node(self) -> RaftNode:
        """The core. The driver must have begun."""
        return self._driver.node

    @property
    def _driver(self) -> RaftDriver:
        assert self.driver is not None
        return self.driver

    @property
    def on_lost_end(self) -> Callable[[str], None] | None:
        """Who hears that the disk has lost the log's end; None when the machine was not off. Raises OSError."""
        return None if self.driver is not None or self._run_record.is_same_boot else self._run_record.note_lost

    @property
    def confirm_offset(self) -> int:
        return self.node.confirm_offset if self.driver is not None else 0

    @property
    def voter_count(self) -> int:
        return len(self.node.membership.voters) if self.driver is not None else len(self.settings.members)

    @property
    def may_write(self) -> bool:
        """Return True while this broker, as the leader, takes records."""
        return not self.why_no_writes

    @property
    def why_no_writes(self) -> str:
        """Why this broker takes no records now; empty when it does."""
        driver = self.driver
        if driver is not None and driver.may_write and self._opened_term == driver.node.term:
            return ""
        return f"{self.settings.name}: {self._what_it_is()}: nothing is stored, send again in a moment"

    def _what_it_is(self) -> str:
        return what_it_is(self.driver, self._founders.decision.why)

    @property
    def leader_address(self) -> str:
        """Where the leader takes requests, if it is another node and known; else empty."""
        leader = self.node.leader if self.driver is not None else None
        return "" if leader is None else self.peers.address_of(leader.node_id)

    def problems(self) -> list[str]:
        """Return what an operator should know now."""
        if self.driver is None or self.node.log.memberships:
            return self._problems.texts()
        return [f"the Raft group is not founded: {self._founders.decision.why}", *self._problems.texts()]

    def follower_states(self) -> list[SlaveState]:
        """Return the followers of this leader, as a master's slaves."""
        return follower_states(self.node, self.settings) if self.driver is not None else []

    def history_of(self, before: EpochHistory) -> EpochHistory:
        """Return the epoch history of the log, for a file that has ``before``."""
        founded = self.gate.founded
        if self.driver is None or not founded or not self.node.log.memberships:
            return before
        return group_history(before, self.node.log, founded)

    # -- the broker's parts ------------------------------------------------------------------------------------------

    def attach(
        self,
        parts: OpenParts,
        *,
        follower: Follower | None,
        history: EpochHistory,
        was_clean: bool,
        commit: Callable[[], None],
        request_sync: Callable[[], None],
        check_writes: Callable[[], None],
    ) -> None:
        """Use these parts, which are open, from now on. ``follower`` is None in a leader's parts.

        ``commit`` commits what is staged, ``check_writes`` opens or closes the store to writes. Raises StoreError when
        the log is not as the node knows it.
        """
        self._parts, self._follower, self._commit, self._check_writes = parts, follower, commit, check_writes
        store = parts.store
        self._log.attach(store, follower, request_sync)
        self._log.check_writes = check_writes
        if self.driver is None:
            self._start_history = history
            self._begin(store, self._run_record.why_lost(was_clean=was_clean))
        end, known_end = store.physical_max_offset, self.node.log.end
        if (end > known_end and not self._is_beyond) or (end < known_end and not self._driver.is_held):
            raise StoreError(
                f"the log ends at {end}, the Raft node knows it up to {known_end}: start the broker again; it compares "
                "its log with the leader's"
            )
        self._truncate_to, self._opened_end = known_end if end > known_end else None, end
        self._is_beyond = end > known_end
        self._opened_term = self._asked_term if parts.role.is_master else None
        self._showing = Showing(follower, self._clock, self.tables.confirmed) if follower is not None else None
        self._has_begun_term = self._is_serving = False

    def detach(self) -> None:
        """Use no parts: they are about to be closed. What they staged is committed."""
        self._note_log()
        self.reads.refuse_all()
        self._parts = self._follower = self._showing = None
        self._commit = self._check_writes = lambda: None
        self._opened_term, self._is_serving = None, False
        self._joining.interrupt()
        self._log.detach()
        self.tables.close()

    def _begin(self, store: MessageStore, why_lost: str) -> None:
        end, is_synced = store.physical_max_offset, self._config.flush_disk_type == SYNC_FLUSH
        state = self._state_file.open(self.settings.self_id, end, lost=why_lost)
        self._run_record.begin(is_synced=is_synced)
        if not state.is_founded and not state.epochs:
            state = replace(state, confirm_offset=0, epochs=epochs_of(self._start_history))
        nodes = tuple(member.node for member in self.settings.members)
        node = RaftNode(state, store.physical_min_offset, end, nodes, self._rng, answers_before_sync=is_synced)
        self.driver = RaftDriver(
            node,
            log=self._log,
            state_file=self._state_file,
            connections=self,
            owner=self,
            waits_for_sync=is_synced,
            now_ms=self._now_ms(),
            tick_ms=self._tick_ms,
        )
        self._note_founded()
        log.info("Raft node %s (disk %s) of %s begins in term %d as %s", *node.replica, self.settings.name, node.term,
                 start_of(state).value)  # fmt: skip

    # -- what comes in -----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Have the driver look at the clock, at the end of this turn. Call it with each tick of the settings."""
        self._is_tick_due = True
        self.peers.tick()

    def end_turn(self) -> None:
        """Let the node take what this turn brought. The turn's records are committed."""
        driver = self.driver
        if driver is None:
            return
        self._note_log()
        for message in self._inbox.take():
            self._settle()
            self._take(driver, message)
        self._settle()
        for node in self._inbox.take_gone():
            self.watch.on_gone(node)
            driver.lost(node)
        if self._is_tick_due:
            self._is_tick_due = False
            self._tick(driver)
        self.watch.look(driver.node)
        self._follow_node()
        self._check_writes()
        self.peers.pump()

    def _settle(self) -> None:
        """Commit what a confirmation had the tables write: the next message may depose this node."""
        self._commit()
        self._note_log()

    def _take(self, driver: RaftDriver, message: Message | Part) -> None:
        self.watch.on_message(message.request if isinstance(message, Part) else message)
        if isinstance(message, Part):
            driver.take_part(message)
        elif not isinstance(message, FoundRequest) or self._may_found:
            driver.take(message)
            self._note_founded()
        self.watch.look(driver.node)

    def _tick(self, driver: RaftDriver) -> None:
        if not self.node.log.memberships:
            self._founders.tick()
        if self._may_found or self._may_join:
            driver.poll(self._now_ms())
        self._release()
        if self._parts is not None:
            self._disk_watch.tick(driver, self._parts.store)
        self._joining.advance(driver, self._log.request_sync)

    @property
    def _may_found(self) -> bool:
        return bool(self.node.log.memberships) or self._founders.may_found

    @property
    def _may_join(self) -> bool:
        """True when a founded group may give this replica its log. One that is no group's log is never replaced."""
        is_free = self._joining.is_copying or (self._parts is not None and self._parts.store.physical_max_offset == 0)
        return is_free and self._founders.decision.verdict is Verdict.JOIN

    def _now_ms(self) -> int:
        """The time in whole ticks: the job that ticks is never exactly on time."""
        return round(self._clock.monotonic_ms() / self._tick_ms) * self._tick_ms

    def _note_log(self) -> None:
        """Tell the driver how far log and disk have come."""
        driver, parts = self.driver, self._parts
        if driver is None or parts is None:
            return
        view, store = driver.node.log, parts.store
        if store.physical_max_offset > view.end and self._follower is None:
            self._propose(driver, store.physical_max_offset)
        if store.synced_offset > view.synced_end:
            driver.synced(store.synced_offset, view.truncation_count)

    def _propose(self, driver: RaftDriver, end: int) -> None:
        """Tell the core of the leader's own records. A node that leads no more drops what came after that."""
        try:
            driver.appended(end)
        except RaftRefusedError as error:
            if driver.node.leadership is None:
                self._is_beyond = True
                self._truncate(driver.node.log.end)
                text = f"{error}: its records from offset {driver.node.log.end} on are dropped with its role"
                self._problems.note(text, "deposed")

    def _release(self) -> None:
        """Tell the driver what the store has deleted."""
        parts, driver = self._parts, self.driver
        if parts is not None and driver is not None:
            begin = parts.store.physical_min_offset
            if driver.node.log.begin < begin <= driver.node.confirm_offset:
                driver.released(begin)

    def _note_founded(self) -> None:
        if not self.gate.founded and self.node.log.memberships:
            self.gate.founded = founding_id(self.node.log.memberships[0].membership)

    # -- the role that follows ---------------------------------------------------------------------------------------

    def _follow_node(self) -> None:
        """Have the broker take the node's role, and serve once all that it had is confirmed."""
        parts = self._parts
        if parts is None or self._broker.is_changing:
            return
        node = self.node
        if node.lost_bytes:
            self._begin_again(node.lost_bytes)
            return
        leads_term = node.term if node.leadership is not None else None
        if self._truncate_to is not None or self._joining.discards_log or leads_term != self._opened_term:
            self._ask_role(leads_term)
            return
        if leads_term is not None:
            self._begin_term(leads_term)
        elif self._showing is not None:
            self._showing.show(node.confirm_offset)
        self._serve_when_confirmed(leads_term)

    def _ask_role(self, leads_term: int | None) -> None:
        truncate_to, self._truncate_to = self._truncate_to, None
        self._asked_term = leads_term
        node = self.node
        if leads_term is not None:
            role = Role(MASTER_ID, begins_epoch=True)
            why = f"{node.replica.node_id} was elected the leader of {self.settings.name} in term {leads_term}"
        else:
            role = Role(self.settings.own.broker_id, master_address=self.leader_address)
            why = self._what_it_is()
        discards_log = self._joining.discards_log
        if discards_log:
            why = f"{node.replica.node_id} {self._joining.why_discarded} (Raft group {self.settings.name})"
        self._broker.change_role(RoleChange(role, why, truncate_to, discards_log))

    def _truncate(self, end: int) -> None:
        """Have the log truncated at ``end``; the driver asks again until it is."""
        if not self._broker.is_changing:
            self._truncate_to = end

    def _begin_term(self, term: int) -> None:
        """Write the first record of the own epoch: with it everything older is confirmed (dissertation §6.4)."""
        driver = self._driver
        if self._has_begun_term or not driver.may_write:
            return
        try:
            end = self._log.write_epoch(term)
        except StoreError as error:
            self.on_problem(f"the first record of term {term} can't be written: {error}")
            return
        self._has_begun_term = True
        driver.appended(end)

    def _serve_when_confirmed(self, leads_term: int | None) -> None:
        if self._is_serving or self.confirm_offset < self._opened_end or not self.node.log.memberships:
            return
        leadership = self.node.leadership
        if leads_term is not None and (leadership is None or not leadership.is_current):
            return
        if leads_term is None and self.node.leader is None:
            return
        self._is_serving = True
        self._broker.serve()

    # -- what is asked of it -----------------------------------------------------------------------------------------

    def transfer(self, node_id: str) -> None:
        """Hand leadership over to a voter. Raises RaftRefusedError."""
        self.tables.flush()
        self._settle()
        self._driver.transfer(node_id)
        self._check_writes()  # before what comes in this turn

    def when_deposed(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` when this node leads no more."""
        self._when_deposed = listener

    def change(self, membership: Membership) -> None:
        """Change the membership. Raises RaftRefusedError when that can't be now, StoreError when the disk fails."""
        if not self.may_write:
            raise RaftRefusedError(self.why_no_writes)
        self.tables.flush()
        self._settle()
        self._driver.change(membership)

    def best_successor(self) -> str:
        """Return the voter that leadership should go to; empty when there is none, or this node does not lead."""
        return "" if self.driver is None else best_successor(self.node, self.settings.preferred, self.peers.is_gone)

    def node_report(self) -> NodeReport:
        """Return what this node says about itself to others that found the group or join it."""
        report = own_report(
            self._config,
            self.settings,
            self.gate.founded,
            self.history_of(self._start_history),
            is_master=self._broker.was_master,
        )
        return report if self._parts is None else with_log(report, self._parts.store)

    # -- the driver's connections and owner --------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        self._note_founded()
        self.peers.send(message)

    def wake(self, to: Replica) -> None:
        self.peers.wake(to)

    def on_role(self, role: object, term: int) -> None:
        if self.node.leadership is None:
            self._when_deposed()

    def on_confirm(self, confirm_offset: int) -> None:
        if self._opened_term is not None:
            self.replicas.confirmed()
        self.tables.confirmed(confirm_offset)

    def on_snapshot(self, snapshot: Snapshot) -> None:
        if self._parts is not None and self._follower is not None:
            self._joining.offered(snapshot, self.leader_address, self._parts.store, self._follower)

    def forget(self) -> None:
        """Be another replica from the next parts on: log and state are another one's."""
        self.driver = None
        self._founders.forget()

    def _begin_again(self, why: str) -> None:
        """Be a new replica, with the log that is there, from the next parts on. Raises OSError."""
        self._run_record.note_lost(why)
        self.driver = None
        self._broker.change_role(RoleChange(Role(self.settings.own.broker_id), why))

    def on_problem(self, text: str) -> None:
        self._problems.note(text)
