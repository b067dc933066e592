"""MasterSide: a master's side of replication: its slaves, their tables, and progress that only a master makes."""

from __future__ import annotations

from collections.abc import Callable

from pymq.broker.assembly.pop_parts import PopParts
from pymq.broker.assembly.side_parts import SideParts
from pymq.broker.messages.lite_topics import with_light_queues
from pymq.broker.raft.majority import Replicas
from pymq.broker.replication.master.found_topics import make_found_topics
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.master.table_requests import TableRequests
from pymq.broker.replication.tail_recovery.unsynced_replicas import TICK_PERIOD_MS as TAIL_TICK_PERIOD_MS
from pymq.broker.runtime import Runtime
from pymq.broker.work.jobs import SLOW_TICK_PERIOD_MS, TICK_PERIOD_MS, Job
from pymq.model.route import MASTER_ID
from pymq.wire.bodies_replication import HaClientState, SlaveState
from pymq.wire.streams import StreamHandler


class MasterSide:
    """A :class:`pymq.broker.replication.side.ReplicationSide`."""

    master_address = ""
    is_following = False
    has_caught_up = True

    tables_fence = 0

    def __init__(
        self, runtime: Runtime, side_parts: SideParts, pop: PopParts, ha_service: HaService | Replicas
    ) -> None:
        messages, replication = side_parts.messages, side_parts.replication
        self._role = side_parts.role
        self._store = side_parts.store
        self._metadata = side_parts.metadata
        self._delays = messages.delays
        self._pop = pop
        self._transactions = messages.transactions
        self._transaction_checks = messages.transaction_checks
        self._timers = messages.timers
        self._waiting_answers = messages.waiting_answers
        self._tail_recovery = replication.tail_recovery
        self._write_fence = replication.write_fence
        self._schedule_turn_end = runtime.schedule_turn_end
        self.ha_service = ha_service
        self.table_requests = TableRequests(
            tables=side_parts.tables,
            store=side_parts.store,
            clock=runtime.clock,
            fence=lambda: self._write_fence.number,
        )
        ha_service.add_ack_listener(self._slaves_moved)
        ha_service.on_slave = self._tail_recovery.note_slave

    def open(self) -> None:
        """Fit the progress to the log: what is behind its end never was, or was lost."""
        metadata, store = self._metadata, self._store
        is_new_master = self._role.begins_epoch or self._tail_recovery.recovered_tail is not None
        if is_new_master or not metadata.topics.had_table:
            make_found_topics(store, metadata.topics)
        metadata.pending_offsets.load()
        metadata.pending_offsets.hand_over(metadata.cursors)
        if not self._tail_recovery.is_fenced:  # else the log may grow to where they are
            # A queue that is not here was on the master before: its next message gets offset 0.
            queue_end = with_light_queues(store, store.max_offset if self._role.begins_epoch else store.queue_end)
            metadata.cursors.fit(queue_end)
            metadata.order_infos.fit(queue_end)
        if len(metadata.pending_offsets):
            metadata.cursors.save()
            metadata.pending_offsets.clear()
        self._delays.start()
        self._pop.revive_log.load()
        self._pop.ordered_queues.load()
        self._transactions.start()
        self._timers.open(is_master=True)

    def end_turn(self) -> None:
        """Send what was committed, and answer slaves that wait for a table's change."""
        self.ha_service.committed()
        self.table_requests.end_turn()

    def close(self, why: str) -> None:
        """See :class:`ReplicationSide`, as with all that follow."""
        self.table_requests.close()
        self.ha_service.close(why)

    def jobs(self) -> list[Job]:
        return [
            Job("delayed delivery", TICK_PERIOD_MS, self._delays.tick),
            Job("popped messages", TICK_PERIOD_MS, self._pop.reviver.tick),
            Job("ordered queues", TICK_PERIOD_MS, self._pop.ordered_queues.tick),
            Job("dead letters of lite topics", TICK_PERIOD_MS, self._pop.lite_popper.tick),
            Job("expired lite topics", TICK_PERIOD_MS, self._pop.lite_expiry.tick),
            Job("progress of transactions", SLOW_TICK_PERIOD_MS, self._transactions.tick),
            Job("transaction checks", TICK_PERIOD_MS, self._transaction_checks.tick),
            Job("slaves", TICK_PERIOD_MS, self.ha_service.tick),
            Job("slaves that wait for tables", TICK_PERIOD_MS, self.table_requests.tick),
            Job("end of the log", TAIL_TICK_PERIOD_MS, self._tail_recovery.tick),
            Job("write fence", TICK_PERIOD_MS, self._write_fence.tick),
        ]

    def members(self) -> list[str]:
        return [slave.address for slave in self.ha_service.states() if slave.broker_id > MASTER_ID]

    def note_master(self, master_address: str, ha_address: str) -> None: ...

    def slave_states(self) -> list[SlaveState]:
        return self.ha_service.states()

    def ha_client_state(self) -> HaClientState | None:
        return None

    @property
    def accept(self) -> Callable[[], StreamHandler] | None:
        return self.ha_service.accept if isinstance(self.ha_service, HaService) else None

    @property
    def has_all_slaves(self) -> bool:
        return self.ha_service.are_all_there

    def _slaves_moved(self) -> None:
        """Slaves have more of the log, or are fewer: answers may go, and messages that appear wake pulls."""
        had_unconfirmed = self._store.has_unconfirmed
        self._waiting_answers.release_confirmed()
        if had_unconfirmed:
            self._schedule_turn_end()
