"""Seeded bugs in transactions, which their tests must catch. Each is one wrong step that a programmer could write.

Their ``suites`` are ``kill`` or ``power loss`` (the crash story), or a test as ``module.function``.
"""

from __future__ import annotations

from typing import Any

from pymq.broker.fast.transaction import FastEnds, FastHalves
from pymq.broker.handlers import transactions as handlers
from pymq.broker.handlers.query import QueryHandlers
from pymq.broker.messages.retries import Retries
from pymq.broker.replication.slave.table_taker import TableTaker
from pymq.broker.transactions import rebuild
from pymq.broker.transactions.checks import TransactionChecks
from pymq.broker.transactions.kept_halves import KeptHalves
from pymq.broker.transactions.open_halves import OpenHalves
from pymq.broker.transactions.progress import TransactionProgress
from pymq.broker.transactions.transactions import Transactions
from pymq.model.properties import sent_properties
from tests.planting import Bug, Seam, Text, does_nothing, gives

_ENDS, _CHECKS, _FAILOVER = "handlers.test_transactions", "transactions.test_checks", "transactions.test_failover"
_FAST = "fast.test_transaction"


def _writes_no_op(real: Any, transactions: Transactions) -> None:
    transactions._ops.clear()


BUGS = [
    Bug("no op record", Seam(Transactions.stage_rest, _writes_no_op), ("kill",)),
    Bug("a start ignores op records", Seam(rebuild._ended, gives((set(), 0))), ("kill", "power loss")),
    Bug(
        "progress does not wait for the disk",
        Text(TransactionProgress.tick, "self._waiting[0][2] <= synced", "True"),
        (f"{_CHECKS}.test_the_offsets_move_only_over_what_the_disk_has",),
    ),
    Bug(
        "a slave takes the progress at once",
        Text(TableTaker.take, "row.waits_for_log", "False"),
        (f"{_FAILOVER}.test_the_progress_waits_for_the_slave_s_log",),
    ),
    Bug(
        "a failed commit is not undone",
        Seam(OpenHalves.restore, does_nothing),
        (f"{_ENDS}.test_a_commit_that_can_t_be_stored_leaves_the_transaction_open",),
    ),
    Bug(
        "earlier copies are forgotten",
        Text(OpenHalves.add, "(*earlier.copies, earlier.queue_offset)", "()"),
        (f"{_CHECKS}.test_the_answer_to_a_check_ends_the_transaction",),
    ),
    Bug(
        "a copy is another transaction",
        Text(OpenHalves.add, "self._by_first.get(half.first_offset)", "None"),
        (f"{_CHECKS}.test_the_first_copy_s_offsets_end_it_as_well_and_once",),
    ),
    Bug(
        "any record can be committed",
        Text(Transactions.half_at, "message.topic == HALF_TOPIC", "True"),
        (f"{_ENDS}.test_a_message_that_is_no_half_message_can_t_be_committed",),
    ),
    Bug(
        "any group ends it",
        Text(handlers._check_identity, "header.producer_group != group", "False"),
        (f"{_ENDS}.test_a_forged_end_is_refused",),
    ),
    Bug(
        "any queue offset ends it",
        Text(handlers._check_identity, "header.tran_state_table_offset != message.queue_offset", "False"),
        (f"{_ENDS}.test_a_forged_end_is_refused",),
    ),
    Bug(
        "a client names the first copy",
        Text(sent_properties, 'not has_broker_word(raw.decode("latin-1"))', "True"),
        (f"{_ENDS}.test_what_only_the_broker_may_say_is_not_taken_from_a_client",),
    ),
    Bug(
        "an id shows a half message",
        Text(QueryHandlers.by_id, "name in HIDDEN_TOPICS and header.topic != name", "False"),
        (f"{_ENDS}.test_no_look_up_shows_a_half_message_through_another_topic",),
    ),
    Bug(
        "a send back shows a half message",
        Text(Retries._message_at, "message.topic in names.WAITING_TOPICS", "False"),
        (f"{_ENDS}.test_no_look_up_shows_a_half_message_through_another_topic",),
    ),
    Bug(
        "it is checked for ever",
        Text(TransactionChecks._handle, "check_count_of(message) >= self._config.transaction_check_max", "False"),
        (f"{_CHECKS}.test_a_transaction_asked_about_too_often_goes_to_the_topic_of_discarded_ones",),
    ),
    Bug(
        "its own immunity time is ignored",
        Text(TransactionChecks._is_due, "half.immunity_ms or 0", "0"),
        (f"{_CHECKS}.test_a_message_s_own_immunity_time_counts_and_costs_no_check",),
    ),
    Bug(
        "the producer's clock counts",
        Text(TransactionChecks._handle, "- half.begun_ms", "- message.born_timestamp_ms"),
        (f"{_CHECKS}.test_a_client_s_clock_does_not_discard_or_keep_a_transaction",),
    ),
    Bug(
        "the producer's clock counts after a start",
        Text(rebuild._begun_ms, "first.store_timestamp_ms", "first.born_timestamp_ms"),
        (f"{_CHECKS}.test_a_client_s_clock_does_not_discard_or_keep_a_checked_transaction_after_a_stop",),
    ),
    Bug(
        "open transactions are not bounded",
        Text(Transactions._check_half, "len(self.halves) >= limit", "False"),
        (f"{_ENDS}.test_open_transactions_are_bounded",),
    ),
    Bug(
        "any group ends a kept one",
        Text(FastEnds.take, "kept.group != header.producer_group", "False"),
        (f"{_FAST}.test_a_forged_end_takes_the_plain_path",),
    ),
    Bug(
        "any queue offset ends a kept one",
        Text(FastEnds.take, "kept.half.queue_offset != header.tran_state_table_offset", "False"),
        (f"{_FAST}.test_a_forged_end_takes_the_plain_path",),
    ),
    Bug(
        "a half message is committed before it is stored",
        Text(FastEnds.take, "kept.half.physical_offset >= self._store.physical_max_offset", "False"),
        (f"{_FAST}.test_a_half_message_that_is_not_stored_yet_can_t_be_ended",),
    ),
    Bug(
        "what a failed commit took back is kept",
        Seam(KeptHalves.clear, does_nothing),
        (f"{_FAST}.test_a_half_message_that_could_not_be_stored_is_not_kept",),
    ),
    Bug(
        "an ended half message stays in memory",
        Seam(KeptHalves.drop, does_nothing),
        (f"{_FAST}.test_kept_half_messages_are_bounded_and_others_are_read",),
    ),
    Bug(
        "half messages are kept without end",
        Text(KeptHalves.add, "self.size_bytes > KEPT_SIZE_MAX_BYTES", "False"),
        (f"{_FAST}.test_kept_half_messages_are_bounded_and_others_are_read",),
    ),
    Bug(
        "the fast path is not bounded",
        Text(FastHalves.put, "not transactions.is_room", "False"),
        (f"{_FAST}.test_open_transactions_are_bounded",),
    ),
]
