"""Bugs put into replication on purpose: a story or a seed must catch each.

Each bug names the story or the seed of a hunting plan, with the addition that it names, that noticed it and is tried
first. After other changes of the product another seed may be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pymq.broker.fast.ack import FastAcks
from pymq.broker.handlers.offsets import OffsetHandlers
from pymq.broker.messages.writer import Writer
from pymq.broker.metadata.metadata import Metadata
from pymq.broker.metadata.order_infos import OrderInfos
from pymq.broker.metadata.pending_offsets import PendingOffsets
from pymq.broker.pop.check_points import CheckPoints
from pymq.broker.pop.lite_expiry import LiteExpiry
from pymq.broker.pop.popper import Popper
from pymq.broker.pop.revive_log import ReviveLog
from pymq.broker.pop.reviver import Reviver
from pymq.broker.replication.history import epoch_history
from pymq.broker.replication.history.epoch_file import EpochFile
from pymq.broker.replication.history.epoch_history import EpochEntry, EpochHistory
from pymq.broker.replication.master import join
from pymq.broker.replication.master.ha_connection import HaConnection
from pymq.broker.replication.master.ha_service import HaService
from pymq.broker.replication.roles import role_file, second_master, write_fence
from pymq.broker.replication.roles.member_proof import MemberProof
from pymq.broker.replication.roles.role_file import RoleFile
from pymq.broker.replication.slave.ha_client import HaClient
from pymq.broker.replication.slave.ha_client_session import HaClientSession
from pymq.broker.replication.slave.metadata_copy import MetadataCopy
from pymq.broker.replication.tables import replicated_tables
from pymq.broker.replication.tables.table_pieces import PieceCount
from pymq.broker.replication.tail_recovery import recovery_fence
from pymq.broker.replication.tail_recovery.tail_recovery import TailRecovery
from pymq.broker.replication.tail_recovery.tail_search import TailSearch
from pymq.broker.replication.tail_recovery.unsynced_replicas import UnsyncedReplicas
from pymq.broker.timers import timer_records
from pymq.broker.timers.open_slot import OpenSlot
from pymq.broker.timers.timer_delivery import TimerDelivery
from pymq.broker.timers.timer_service import TimerService
from pymq.broker.transactions.checks import TransactionChecks
from pymq.broker.transactions.transactions import Transactions
from pymq.client.admin.promotion import Promotion
from pymq.model import priorities
from pymq.namesrv import claims
from pymq.store.log.log_record import Scanned
from pymq.store.queue.batch_queue import BatchQueue, BatchUnits
from pymq.store.store import MessageStore
from pymq.store.write.appender import Appender
from tests.planting import Bug, Seam, Text, does_nothing, gives

Real = Callable[..., Any]


# -- broken versions: the first argument is the real function, the others are its arguments ----------------------------


def _shows_at_once(real: Real, appender: Appender, *, await_sync: bool = False, await_confirm: bool = False) -> None:
    real(appender, await_sync=await_sync, await_confirm=False)


def _leaves_merged_out(real: Real, entries: tuple[EpochEntry, ...]) -> tuple[EpochEntry, ...]:
    return tuple(entry for entry in real(entries) if entry in entries)


def _takes_writes(real: Real, store: MessageStore, why: str | None, *, by: str = "retention") -> None:
    if by != write_fence._REFUSER:
        real(store, why, by=by)


def _appends_one(real: Real, queue: BatchQueue, record: Scanned, tags_code: int) -> None:
    end = queue.max_offset
    real(queue, record, tags_code)
    queue.units.message_end = end + 1


def _reads_no_recall(real: Real, delivery: TimerDelivery, slot: OpenSlot) -> None:
    slot.deletions.clear()


def _knows_no_master_role(real: Real, record: role_file.RoleRecord, before: str) -> Any:
    return real(msgspec.structs.replace(record, master_role=""), before)


def _stays_busy(real: Real, copy: MetadataCopy, problem: str) -> None:
    real(copy, problem)
    copy._is_busy = True


def _asks_seldom(real: Real, copy: MetadataCopy) -> None:
    real(copy)
    copy._next_ms += 9_000


def _skips_what_is_new(real: Real, connection: HaConnection, stream: object, at: int, end: int) -> None:
    real(connection, stream, at, end)
    if connection.sent_offset is not None and connection.sent_offset > at:
        connection.sent_offset = end


def _asks_no_member(real: Real, search: TailSearch, members: Sequence[object]) -> Any:
    return real(search, ())


def _is_always_last(real: Real, count: PieceCount, piece: dict[str, Any], entry_count: int) -> tuple[bool, bool]:
    return real(count, piece, entry_count)[0], True


BUGS = (
    # -- answers that come too early
    Bug("answered before slaves have it",
        Text(Writer._commit, "needs_disk, needs_slaves = self._sync_flush(), self._copies.is_on",
             "needs_disk, needs_slaves = self._sync_flush(), False"),
        ("seed 1",)),
    Bug("one slave is enough for two",
        Seam(HaService.offset_acked_by, lambda real, service, count: real(service, min(count, 1))), ("seed 16",)),
    Bug("what was sent counts as confirmed",
        Text(HaService.offset_acked_by, "[connection.ack_offset for", "[connection.sent_offset for"),
        ("seed 3",)),
    Bug("shown before slaves have it", Seam(Appender.commit, _shows_at_once), ("seed 1",)),
    Bug("a slave reports what is not on its disk",
        Text(HaClientSession.report, "offset = min(offset, synced)", "pass"), ("seed 16",)),
    # -- epochs and truncation
    Bug("a promoted slave begins no new epoch",
        Seam(EpochHistory.begin, lambda real, history, start, epoch_id: history.renew(start, epoch_id)),
        ("story come back with a divergent tail",)),
    Bug("no new epoch after an unclean stop", Seam(EpochFile.is_as_left, gives(True)), ("seed 6",)),
    Bug("a divergent tail is taken for the master's",
        Text(join._offset_in_log, "        return common.offset", "        return end"),
        ("story come back with a divergent tail",)),
    Bug("merged epochs are left out", Seam(epoch_history._shorten, _leaves_merged_out),
        ("story come back after many epochs",)),
    Bug("a slave keeps its own epoch history",
        Text(EpochFile.follow, "self._save(theirs.truncate(log_end), None)", "pass"), ("seed 2",)),
    Bug("a divergent tail is not truncated",
        Text(HaClient._joined, "if outcome.start is not None and outcome.start < end",
             "if outcome.start is not None and outcome.start < 0"),
        ("story come back with a divergent tail",)),
    # -- tail recovery
    Bug("no member is asked for a lost tail", Seam(TailSearch._take_all, _asks_no_member),
        ("story lose the masters power",)),
    Bug("a master does not wait for unsynced replicas", Seam(recovery_fence.is_promise_at_risk, gives(False)),
        ("story lose power while the slave is dead",)),
    Bug("unsynced replicas are not noted",
        Text(UnsyncedReplicas.note, "self._save({**others, broker_id: address})", "pass"),
        ("story lose power while the slave is dead",)),
    Bug("slaves truncate although the epoch is fenced", Seam(TailRecovery.fenced_for, gives("")),
        ("story lose power while the slave is dead",)),
    # -- roles
    Bug("the role is not kept on the disk", Seam(RoleFile.save, does_nothing),
        ("story come back with a divergent tail",)),
    Bug("an old master serves on",
        Text(second_master.judge, "member.epoch > us.epoch_history.epoch]",
             "member.epoch > us.epoch_history.epoch + 1_000]"),
        ("story come back with a divergent tail",)),
    Bug("a fenced master takes writes", Seam(MessageStore.refuse_writes, _takes_writes),
        ("story hand over and truncate",)),
    Bug("promoted before it has everything",
        Text(Promotion._caught_up, "return 0 < fence", "return True or 0 < fence"),
        ("story hand over while tables stand still",)),
    Bug("promoted although it lacks the log's end",
        Text(Promotion._caught_up, "or theirs.log_end != ours.log_end", ""),
        ("story hand over while the log stands still",)),
    Bug("a slave knows of no SYNC_MASTER", Seam(role_file.role_name_after_change, _knows_no_master_role),
        ("seed 2",)),
    # -- trust
    Bug("epochs are believed without a proof of the log", Seam(MemberProof._must_prove, gives(False)), ("liar 2",)),
    Bug("a master proves nothing to its slaves", Seam(HaConnection.prove_to_slave, does_nothing), ("proofs 1",)),
    Bug("a name server gives a master's id to anyone with a newer epoch",
        Seam(claims._is_successor, gives(True)), ("liar 1",)),
    # -- tables
    Bug("offsets that wait are overwritten", Seam(PendingOffsets.lay_over, does_nothing), ("story commit to a slave",)),
    Bug("an offset that waits is dropped when an older one arrives",
        Text(PendingOffsets.settle, "if queues.get(known.queue_id) == known.offset:",
             "if known.queue_id in queues:"),
        ("story commit to a slave twice",)),
    Bug("an offset of what a master does not show yet is taken for a lost one",
        Text(OffsetHandlers._advance, "offset > queue.next_offset", "offset > queue.max_offset"),
        ("story commit to a slave what its master hides",)),
    Bug("offsets that wait are forgotten by a promotion", Seam(PendingOffsets.hand_over, does_nothing),
        ("story start a slave as the master",)),
    Bug("a piece of a table counts as all of it", Seam(PieceCount.take, _is_always_last),
        ("story fail over between two pieces",)),
    Bug("a copy begins with pieces of the one before it",
        Text(replicated_tables._Topics.take, "if is_first:", "if False:"),
        ("story delete a topic between two pieces",)),
    Bug("tables are copied once", Seam(MetadataCopy._end_round, _stays_busy), ("seed 1",)),
    Bug("a slave seldom asks for tables", Seam(MetadataCopy._start_round, _asks_seldom),
        ("story fail over with what came behind a copy",)),
    Bug("a slave that is promoted forgets what it had not saved",
        Text(Metadata.saves, "self.cursors.save,", ""),
        ("story fail over with what came last",)),
    # -- transactions
    Bug("a start finds no open transactions", Seam(Transactions.start, does_nothing), ("deal 1",)),
    Bug("a half message goes to its target at once",
        Text(Transactions.put_half, "HALF_TOPIC, TRANSACTION_QUEUE_ID", "topic, queue_id"),
        ("deal 1",)),
    Bug("producers are never asked", Seam(TransactionChecks.tick, does_nothing), ("deal 1",)),
    # -- timer messages
    Bug("a slave's wheel misses what its master's has",
        Text(TimerService.take_over, "self._master_queue_offset = queue_offset",
             "self._master_queue_offset = self.progress.queue_offset = queue_offset"),
        ("timers 2",)),
    Bug("when a timer rolls over depends on when it is read",
        Text(timer_records.plan, "times.window_ms, times.precision_ms)\n    if rolls and slot_ms < begin_ms:",
             "times.window_ms, times.precision_ms)\n    if True:"),
        ("timers 18",)),
    Bug("timers come half a second early",
        Text(OpenSlot.take, "self._heap[0].due_ms <= now_ms", "self._heap[0].due_ms <= now_ms + 500"),
        ("timers 1",)),
    Bug("timers that roll over are lost",
        Text(TimerDelivery._stage_due, "if due.is_roll:", "if due.is_roll and now_ms % 2:"), ("timers 1",)),
    Bug("recalls are stored and never read", Seam(TimerDelivery.read_deletions, _reads_no_recall), ("timers 1",)),
    # -- inner batches
    Bug("an inner batch that a slave follows takes one offset", Seam(BatchQueue.append_record, _appends_one),
        ("batches 1",)),
    Bug("a start forgets where the newest batch ends",
        Text(BatchUnits.set_end, "self._message_end = _UNKNOWN", "self._message_end = offset"), ("batches 1",)),
    Bug("a pull inside a batch gets the next one",
        Text(BatchUnits.number_of, "if sum(self._range(middle)) <= offset:", "if self._range(middle)[0] < offset:"),
        ("batches 1",)),
    # -- pops
    Bug("a slave has a pop's offset before its check point",
        Text(replicated_tables.replicated_tables, "_PopOffsets(metadata.cursors), waits_for_log=True",
             "_PopOffsets(metadata.cursors)"),
        ("story fail over without check points",)),
    Bug("check points are forgotten by a restart", Seam(ReviveLog.load, does_nothing), ("pops 10",)),
    Bug("open check points count as finished",
        Text(CheckPoints.finished_offset, "(self._ends[revive_queue_id] if oldest is None else oldest)",
             "self._ends[revive_queue_id]"),
        ("pops 1",)),
    Bug("messages that are due again are dropped",
        Text(Reviver._deliver, "self._stage(message, point, topic, flag, group)", "pass"), ("pops 1",)),
    Bug("a clock that is set back makes popped messages wait",
        Seam(CheckPoints.clock_went_back, does_nothing), ("pops 7",)),
    # -- lite topics
    Bug("old messages expire unread beside young ones", Seam(LiteExpiry._keep_unread, does_nothing), ("lites 8",)),
    Bug("the fast path takes lite acknowledgements during a hand-over",
        Text(FastAcks._take_lite, "self._is_fenced() or not", "not"), ("lites 30",)),
    Bug("tables from before the fence are enough for a hand-over",
        Text(Promotion._caught_up, "0 < fence == ha_client.metadata_fence", "ha_client.metadata_age_ms >= 0"),
        ("lites 286",)),
    Bug("slaves do not take hand-outs of lite topics", Seam(OrderInfos.take_over, does_nothing), ("lites 6",)),
    # -- priorities
    Bug("retries lose their priority",
        Text(Reviver._retry_queue, "return message.queue_id if message.queue_id < count else 0", "return 0"),
        ("priorities 1",)),
    Bug("a pop by priority begins at the lowest",
        Text(Popper._in_turn, "range(count - 1, -1, -1) if self._config.priority_order_asc else range(count)",
             "range(count)"),
        ("priorities 1",)),
    Bug("a pop by priority gets retries first",
        Text(Popper.pop, "retry_first = chance < (", "retry_first = by_priority or chance < ("), ("priorities 1",)),
    Bug("a group's factor does not count",
        Text(priorities._factor, "return min(int(text), FACTOR_MAX)", "return FACTOR_MAX"), ("priorities 9",)),
    # -- the log
    Bug("nothing is sent again after a reconnection",
        Text(HaConnection._begin, "self.sent_offset = self.ack_offset = self._begun_at = offset",
             "self.sent_offset = self.ack_offset = self._begun_at = self._store.physical_max_offset"),
        ("seed 2",)),
    Bug("the master's newest records are never sent", Seam(HaConnection._send, _skips_what_is_new),
        ("story catch up with megabytes",)),
)  # fmt: skip
