"""Seeded bugs in the driver: wrong steps between a right core and a disk, a clock and connections.

Their ``suites`` are ``stories``, or a test of :mod:`tests.broker.raft.test_driver`.
"""

from __future__ import annotations

from typing import Any

from pymq.broker.raft.driver import RaftDriver, _Undone
from pymq.broker.raft.incoming import write_pieces
from pymq.broker.raft.sending import Sending
from tests.planting import Bug, Seam, Text, does_nothing


def _forgets(real: Any, driver: RaftDriver, undone: _Undone, error: Exception) -> None:
    driver._owner.on_problem(str(error))


BUGS = [
    Bug(
        "messages leave before the state is saved",
        Text(RaftDriver._run, "self._to_disk(undone)", "self._tell(undone.ready); self._to_disk(undone)"),
        ("test_a_vote_is_on_the_disk_before_it_leaves",),
    ),
    Bug("a node whose disk failed goes on without what it refused", Seam(RaftDriver._hold, _forgets), ("stories",)),
    Bug(
        "a held node takes messages",
        Text(RaftDriver._goes_on, "return self._undone is None", "return True"),
        ("test_a_node_is_held_while_its_disk_refuses_the_state",),
    ),
    Bug(
        "a pause is made up for tick by tick",
        Text(RaftDriver.poll, "self._next_tick_ms = now_ms + self._tick_ms", "self._next_tick_ms += self._tick_ms"),
        ("test_a_pause_counts_as_one_tick",),
    ),
    Bug(
        "bytes count before they are synced",
        Text(RaftDriver._sync, "if not self._waits_for_sync:", "if True:"),
        ("test_a_follower_acknowledges_what_counts",),
    ),
    Bug(
        "bytes that need no sync never count",
        Text(RaftDriver._sync, "self.node.persisted(view.end, view.truncation_count)", "return"),
        ("test_the_last_voter_confirms_alone",),
    ),
    Bug(
        "a sync after a truncation is not asked for",
        Text(
            RaftDriver._sync,
            "(view.truncation_count, view.end) != self._asked_sync_of",
            "view.end > self._asked_sync_of[1]",
        ),
        ("test_a_divergent_tail_is_truncated_first",),
    ),
    Bug(
        "what was confirmed is not told",
        Text(RaftDriver._tell, "self._owner.on_confirm(self._shown_confirm_offset)", "pass"),
        ("test_what_a_majority_has_is_confirmed_and_told_once",),
    ),
    Bug(
        "a record of a membership is written before the state",
        Text(RaftDriver._stage, "self._is_staged = True", "self._log.write_membership()"),
        ("test_a_membership_is_in_the_state_before_its_record_is_written",),
    ),
    Bug(
        "the state of a snapshot is saved before its log is there",
        Text(RaftDriver.install, "self._drive()", "self._log.truncate(0); self._drive()"),
        ("test_a_snapshot_is_in_the_log_before_it_is_in_the_state",),
    ),
    Bug(
        "a former leader sends what it had to send",
        Text(RaftDriver._tell_role, "self._sendings.clear()", "pass"),
        ("test_a_former_leader_sends_no_bytes",),
    ),
    Bug(
        "a leader that hands over writes on",
        Text(RaftDriver.may_write, "and leader.transfer_target is None ", ""),
        ("test_a_leader_that_hands_over_writes_nothing",),
    ),
    Bug(
        "a log that can't be read ends the leader",
        Text(RaftDriver.next_part, "(StoreError, NotFoundError)", "StoreError"),
        ("test_bytes_that_can_not_be_read_are_a_problem_and_no_end",),
    ),
    Bug(
        "a request that begins elsewhere is taken for the next one",
        Text(Sending.offer, "and rest.end == request.previous.end", ""),
        ("test_a_request_that_begins_elsewhere_takes_the_place_of_the_rest",),
    ),
    Bug(
        "the role of a leader is not told",
        Seam(RaftDriver._tell_role, does_nothing),
        ("test_the_owner_hears_of_its_role_after_the_epoch_is_saved",),
    ),
    Bug(
        "a write that is tried again begins at the start",
        Text(write_pieces, "begin = log.end", "begin = piece.begin"),
        ("test_what_was_written_before_an_error_is_not_written_again",),
    ),
]
