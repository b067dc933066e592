"""Seeded bugs in the rules: classic mistakes of Raft, each one wrong step that a programmer could write.

Their ``suites`` are ``seeds`` (stories of :mod:`tests.raft.story`), or a test as ``module.function``.
"""

from __future__ import annotations

from typing import Any

from pymq.raft import election, membership, progress
from pymq.raft.core import Core
from pymq.raft.follower import Following
from pymq.raft.founding import Founding
from pymq.raft.leader import Leader
from pymq.raft.log_view import LogView
from pymq.raft.node import RaftNode
from pymq.raft.progress import Progress
from pymq.raft.reads import Reads
from pymq.raft.state import Membership
from tests.planting import Bug, Seam, Text, does_nothing, gives


def _asks_for_votes_at_once(real: Any, node: RaftNode) -> None:
    node._ask_votes()


def _answers_at_once(real: Any, reads: Reads, request_id: int, asker: Any, *_: Any, is_current: bool) -> bool:
    reads._answer(request_id, asker, reads._core.confirm_offset if is_current else None)
    return False


def _draws_the_least(real: Any, node: RaftNode) -> None:
    node._elapsed_ticks, node._timeout_ticks = 0, 10


BUGS = [
    Bug(
        "any later term is taken",
        Text(RaftNode.step, "core.is_founded and message.term > core.term + TERM_STEP_MAX", "False"),
        ("test_limits.test_a_term_rises_by_so_much_and_no_more",),
    ),
    Bug(
        "elections go on beyond the last term",
        Text(RaftNode.tick, "core.term >= TERM_MAX", "False"),
        ("test_limits.test_the_last_term_is_a_problem_and_begins_no_election",),
    ),
    Bug(
        "an answer decides rounds that have not begun",
        Text(
            Leader.on_message,
            "case HeartbeatAnswer() if message.round_number <= self._round_number:",
            "case HeartbeatAnswer():",
        ),
        ("test_limits.test_an_answer_to_a_round_that_never_began_decides_no_read",),
    ),
    Bug(
        "an answer moves what is sent beyond the log",
        Text(Progress.on_answer, "min(answer.previous_end, self._core.log.end)", "answer.previous_end"),
        ("test_limits.test_an_answer_moves_no_place_beyond_the_log",),
    ),
    Bug(
        "the log of any group replaces the own one",
        Text(Following.on_offer, "core.is_founded and snapshot.memberships[:1] != core.log.memberships[:1]", "False"),
        ("test_limits.test_a_log_is_given_up_for_one_of_the_same_group_alone",),
    ),
    Bug(
        "the vote is not saved",
        Text(Core.unsaved_state, "self.vote, self.promised, self.conf", "None, self.promised, self.conf"),
        ("test_rules.test_a_vote_outlives_a_restart",),
    ),
    Bug(
        "the term is not saved",
        Text(Core.unsaved_state, "self.me, self.term,", "self.me, self._saved.term,"),
        ("seeds",),
    ),
    Bug(
        "a new epoch is not saved",
        Text(Core.unsaved_state, "log.epochs, log.memberships\n", "self._saved.epochs, log.memberships\n"),
        ("seeds",),
    ),
    Bug("two votes in a term", Text(election.answer_vote, "core.vote in (None, request.sender) and ", ""), ("seeds",)),
    Bug(
        "a vote without the log check",
        Text(election.answer_vote, "and is_up_to_date(core, request.last)", ""),
        ("test_rules.test_a_vote_needs_a_log_that_is_up_to_date",),
    ),
    Bug(
        "the longer log wins, whatever its epoch",
        Text(election.is_up_to_date, "last >= core.log.last", "last.end >= core.log.last.end"),
        ("test_rules.test_a_vote_needs_a_log_that_is_up_to_date",),
    ),
    Bug(
        "no pre-vote",
        Seam(RaftNode._ask_pre_votes, _asks_for_votes_at_once),
        ("test_rules.test_a_pre_vote_changes_no_term",),
    ),
    Bug(
        "pre-votes enter a term",
        Text(RaftNode._enters_term_of, "isinstance(message, PreVoteRequest) or", "False or"),
        ("test_rules.test_a_pre_vote_changes_no_term",),
    ),
    Bug(
        "an old pre-vote counts",
        Text(RaftNode._dispatch, "and message.asked_term == self.term", ""),
        ("test_rules.test_an_answer_to_an_earlier_pre_vote_does_not_count",),
    ),
    Bug(
        "a vote of an older term counts",
        Text(RaftNode._enters_term_of, "self._depose(message)\n        return False", "return True"),
        ("test_rules.test_a_vote_of_an_earlier_term_does_not_count",),
    ),
    Bug(
        "a living leader is voted out",
        Seam(RaftNode._hears_leader, gives(False)),
        ("test_rules.test_who_hears_a_leader_votes_for_nobody_else",),
    ),
    Bug(
        "a hint that the leader is gone skips the pre-vote",
        Text(RaftNode.lost, "self._timeout_ticks = min(self._timeout_ticks, wait_ticks)", "self._ask_votes()"),
        ("test_rules.test_a_follower_whose_leader_is_gone_asks_for_pre_votes_soon",),
    ),
    Bug(
        "two pre-candidates split the votes",
        Text(RaftNode._let_go_first, "(request.last, request.sender) > (core.log.last, core.me)", "False"),
        ("test_rules.test_of_two_pre_candidates_one_steps_back",),
    ),
    Bug(
        "a hint about any node counts as one about the leader",
        Text(RaftNode.lost, " and leader.node_id == node_id", ""),
        ("test_rules.test_a_hint_about_another_node_says_nothing_about_the_leader",),
    ),
    Bug(
        "all followers act on a hint at the same tick",
        Text(RaftNode.lost, "self._rng.randrange(1, LOST_TICKS + 1)", "1"),
        ("test_rules.test_followers_of_a_leader_that_is_gone_wait_for_different_times",),
    ),
    Bug(
        "all nodes wait equally long",
        Seam(RaftNode._draw_timeout, _draws_the_least),
        ("test_rules.test_nodes_wait_for_different_times",),
    ),
    Bug(
        "an outdated leader is not answered",
        Seam(RaftNode._depose, does_nothing),
        ("test_rules.test_an_outdated_leader_is_deposed_by_an_answer",),
    ),
    Bug(
        "half of the voters are a majority",
        Text(Leader._majority_of, "len(values) // 2", "(len(values) - 1) // 2"),
        ("seeds",),
    ),
    Bug(
        "half of the votes win",
        Text(election.Ballot.is_won, "membership.majority_count", "membership.majority_count - 1"),
        ("seeds",),
    ),
    Bug(
        "bytes of an older epoch are counted",
        Text(Leader.confirm, "end > self.own_start", "end > 0"),
        ("test_rules.test_older_bytes_are_confirmed_with_bytes_of_the_own_epoch_alone",),
    ),
    Bug("a leader confirms what its disk lacks", Text(Leader.confirm, "log.synced_end", "log.end"), ("seeds",)),
    Bug(
        "a follower acknowledges what its disk lacks",
        Text(Following._acknowledge, "min(self.matched_end, core.log.synced_end)", "self.matched_end"),
        ("seeds",),
    ),
    Bug(
        "a follower acknowledges its divergent tail",
        Text(Following._acknowledge, "min(self.matched_end, core.log.synced_end)", "core.log.synced_end"),
        ("seeds",),
    ),
    Bug(
        "a follower confirms its divergent tail",
        Text(Following.on_append, "min(request.confirm_offset, self.matched_end)", "request.confirm_offset"),
        ("seeds",),
    ),
    Bug(
        "a heartbeat confirms what is not matched",
        Text(Progress.beat, "min(core.confirm_offset, self.match_end)", "core.confirm_offset"),
        ("seeds",),
    ),
    Bug(
        "the place before is not checked",
        Text(Following.on_append, "not log.has(request.previous)", "request.previous.end > log.end"),
        ("test_rules.test_a_follower_takes_bytes_where_the_log_before_is_equal",),
    ),
    Bug(
        "a late request truncates",
        Text(Following.on_append, "log.conflict(request.pieces)", "request.end if request.end < log.end else None"),
        ("seeds",),
    ),
    Bug("a conflict is not truncated", Seam(LogView.conflict, gives(None)), ("seeds",)),
    Bug(
        "a truncation keeps its memberships",
        Text(LogView.truncate, "if entry.end <= end", "if True"),
        ("test_rules.test_a_truncation_brings_back_the_membership_before",),
    ),
    Bug(
        "what was synced before a truncation counts",
        Text(RaftNode.persisted, "truncation_count != core.log.truncation_count", "False"),
        ("test_rules.test_what_was_synced_before_a_truncation_says_nothing_after_it",),
    ),
    Bug(
        "a held node goes on",
        Text(RaftNode.step, "core.truncate_to is not None or ", ""),
        ("test_rules.test_a_held_node_takes_nothing",),
    ),
    Bug(
        "no check-quorum",
        Text(Leader.tick, "return False", "pass"),
        ("test_rules.test_a_leader_that_hears_no_majority_is_one_no_more",),
    ),
    Bug(
        "a read without a round",
        Seam(Reads.ask, _answers_at_once),
        ("test_rules.test_a_read_waits_for_a_round_that_begins_after_it",),
    ),
    Bug(
        "a read before the own epoch is confirmed",
        Seam(Leader.is_current, gives(True)),
        ("test_rules.test_a_new_leader_promises_no_current_read",),
    ),
    Bug(
        "a read takes a round that began before it",
        Text(Leader.read, "self._round_number + 1", "self._round_number"),
        ("test_rules.test_a_read_waits_for_a_round_that_begins_after_it",),
    ),
    Bug(
        "two voters change at once",
        Text(membership.why_not, "len(changed) > 1", "False"),
        ("test_membership.test_one_voter_changes_at_a_time_and_was_a_learner",),
    ),
    Bug(
        "a change before the last one is confirmed",
        Text(membership.why_not_now, "pending > core.confirm_offset", "False"),
        ("test_membership.test_a_change_waits_for_the_one_before",),
    ),
    Bug(
        "a change before the own epoch is confirmed",
        Text(membership.why_not_now, "core.confirm_offset <= own_start", "False"),
        ("test_membership.test_a_change_waits_for_a_byte_of_the_own_epoch",),
    ),
    Bug(
        "a voter that never was a learner",
        Text(membership.why_not, "old.kind_of(replica) is not Kind.LEARNER", "False"),
        ("test_membership.test_one_voter_changes_at_a_time_and_was_a_learner",),
    ),
    Bug("learners vote", Text(Membership.voters, "kind is Kind.VOTER", "kind is not Kind.OBSERVER"), ("seeds",)),
    Bug(
        "a learner that lags becomes a voter",
        Text(membership.promoted, "its.match_end >= core.confirm_offset", "True"),
        ("test_membership.test_a_learner_becomes_a_voter_when_it_has_what_is_confirmed",),
    ),
    Bug(
        "a removed leader counts itself",
        Text(
            Leader._majority_of,
            "sorted(values, reverse=True)",
            "sorted([*values, own] if core.me not in voters else values, reverse=True)",
        ),
        ("test_membership.test_a_removed_leader_leads_until_that_is_confirmed_and_counts_not",),
    ),
    Bug(
        "a removed leader leads on",
        Seam(Leader.is_removed, gives(False)),
        ("test_membership.test_a_removed_leader_leads_until_that_is_confirmed_and_counts_not",),
    ),
    Bug(
        "a second process with an id replaces the first",
        Text(membership.replaced, " or progress[old].silent_ticks < ELECTION_TICKS", ""),
        ("test_membership.test_a_replaced_disk_takes_the_place_of_one_that_is_silent",),
    ),
    Bug(
        "a message for another disk is taken",
        Text(RaftNode.step, "message.to.disk_id not in (core.me.disk_id, ANY_DISK)", "False"),
        ("test_membership.test_a_message_for_another_disk_is_not_taken",),
    ),
    Bug(
        "an empty disk takes part",
        Text(RaftNode.step, "not core.is_founded and not", "False and not"),
        ("test_membership.test_an_empty_disk_takes_no_part",),
    ),
    Bug(
        "a majority founds a group",
        Text(
            Founding._found_if_all_promised,
            "len(promises) < len(self._others)",
            "len(promises) < len(self._others) / 2",
        ),
        ("test_membership.test_all_nodes_found_a_group_and_not_a_majority",),
    ),
    Bug(
        "a promise is given twice",
        Text(Founding.on_found, "is_promised and ", ""),
        ("test_membership.test_a_promise_holds_for_one_founder",),
    ),
    Bug(
        "logs differ at the founding",
        Text(Founding._found_if_all_promised, "len(set(ends.values())) > 1", "False"),
        ("test_membership.test_a_group_is_founded_when_all_logs_end_at_one_place",),
    ),
    Bug(
        "a snapshot without its epoch",
        Text(progress.snapshot_of, "log.position(end)", "log.position(0)._replace(end=end)"),
        ("test_rules.test_a_snapshot_holds_what_is_confirmed_and_its_last_epoch",),
    ),
    Bug(
        "a snapshot of what is not confirmed",
        Text(progress.snapshot_of, "core.confirm_offset", "core.log.end"),
        ("test_rules.test_a_snapshot_holds_what_is_confirmed_and_its_last_epoch",),
    ),
    Bug(
        "an old snapshot replaces a newer log",
        Text(RaftNode.install, "snapshot.last.end <= core.confirm_offset or core.log.has(snapshot.last)", "False"),
        ("test_rules.test_a_snapshot_replaces_an_older_log_alone",),
    ),
    Bug(
        "a transfer takes records",
        Text(Leader.why_no_proposal, "self.transfer_target is not None", "False"),
        ("test_rules.test_a_hand_over_waits_for_the_target_and_takes_no_records",),
    ),
    Bug(
        "a transfer does not wait",
        Text(Leader._hand_over, " and self.progress[member].match_end == core.log.end", ""),
        ("test_rules.test_a_hand_over_waits_for_the_target_and_takes_no_records",),
    ),
    Bug(
        "a transfer never ends",
        Seam(Leader._watch_transfer, does_nothing),
        ("test_rules.test_a_hand_over_to_a_dead_node_is_given_up",),
    ),
    Bug(
        "anyone may call an election",
        Text(RaftNode._dispatch, "message.sender == self._following.leader and ", ""),
        ("test_rules.test_only_the_leader_calls_an_election",),
    ),
    Bug(
        "the way back skips nothing",
        Text(Progress.on_answer, "min(place.end, answer.previous_end)", "answer.previous_end - 1"),
        ("test_rules.test_the_way_back_skips_an_epoch_at_once",),
    ),
    Bug(
        "a founder gives up nothing",
        Seam(Founding._give_up, does_nothing),
        ("test_membership.test_a_founder_with_a_new_disk_gives_up_for_the_group_of_its_former_disk",),
    ),
    Bug(
        "a removal that is not confirmed keeps from elections",
        Seam(Core.may_campaign, lambda real, core: core.is_voter),
        ("test_rules.test_a_voter_whose_removal_is_not_confirmed_still_begins_elections",),
    ),
    Bug(
        "what is confirmed is truncated",
        Text(Following._truncate, "conflict < core.confirm_offset", "False"),
        ("test_rules.test_nothing_that_is_confirmed_is_truncated",),
    ),
    Bug(
        "a lost disk goes unnoticed",
        Text(Following.on_heartbeat, "heartbeat.confirm_offset > core.log.synced_end", "False"),
        ("test_rules.test_a_heartbeat_that_confirms_what_a_disk_lost_is_a_problem",),
    ),
    Bug(
        "reads wait for ever after a leadership",
        Seam(Leader.close, does_nothing),
        ("test_rules.test_a_deposed_leader_refuses_the_reads_that_wait",),
    ),
]
