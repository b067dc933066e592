"""Seeded bugs in sends, dead letters and exports, which their tests must catch. ``suites``: as ``module.function``."""

from __future__ import annotations

from typing import Any

from pymq.console.changes import dead_letters, handling, labels, sending
from pymq.console.changes.dead_letters import _Resending
from pymq.console.messages import dead_letters as letter_pages
from pymq.console.messages import export
from pymq.console.messages.export import Lines
from pymq.console.pages import rendering
from pymq.operations.message import forward, records
from pymq.operations.message import sending as sends
from tests.planting import Bug, Seam, Text

UNCHANGED = ("test_labels.test_an_unchanged_body_is_sent_byte_by_byte",)
AGAIN = ("test_sending.test_what_brokers_wrote_is_not_sent_again",)
NO_BODIES = ("test_export.test_without_bodies_there_is_no_file",)
STEPS = ("test_dead_letters.test_steps_go_on_until_all_are_sent_and_later_letters_stay",)
BAD_LETTER = ("test_dead_letters.test_a_letter_that_can_t_be_sent_hides_no_other",)
CONFLICT = ("test_dead_letters.test_letters_that_were_deleted_since_are_a_conflict",)


async def _finds_nothing_wrong(real: Any, *arguments: Any) -> None: ...


BUGS = [
    Bug("an-unchanged-body-is-changed", Text(labels.read_body, "text == shown_body(before)", "False"), UNCHANGED),
    Bug(
        "a-form-shows-what-it-loses",
        Text(labels.shown_body, "all(part.isprintable() for part in parts)", "True"),
        UNCHANGED,
    ),
    Bug("a-form-that-no-form-takes", Text(labels.shown_body, "_encoded_bytes(text) >", "len(text) >"), UNCHANGED),
    Bug(
        "a-property-of-brokers-by-hand",
        Text(labels.read_properties, "if name in RESERVED:", "if False:"),
        ("test_labels.test_a_wrong_field_is_named",),
    ),
    Bug(
        "what-brokers-wrote-goes-again",
        Text(records.own_properties, " if name not in RESERVED and name != RESEND", ""),
        AGAIN,
    ),
    Bug("the-mark-of-an-attempt-goes-again", Text(records.own_properties, " and name != RESEND", ""), AGAIN),
    Bug(
        "a-key-without-its-queue",
        Text(sends.send_one, "key if queue is None else None", "None"),
        ("test_sends.test_a_sharding_key_chooses_the_queue_unless_one_is_given",),
    ),
    Bug(
        "another-message-is-sent",
        Text(sending._same, "if identity_of(found) != identity:", "if False:"),
        ("test_sending.test_another_message_at_the_place_is_a_conflict",),
    ),
    Bug(
        "a-send-makes-a-topic",
        Seam(sending._refuse_a_gone_topic, _finds_nothing_wrong),
        ("test_sending.test_a_topic_that_is_not_there_gets_no_message",),
    ),
    Bug(
        "a-body-in-the-audit",
        Text(sending._record, '"body_bytes": len(message.body)', '"body": message.body.decode()'),
        ("test_sending.test_a_message_is_sent_as_a_form_says",),
    ),
    Bug(
        "a-handle-in-the-audit",
        Text(sending._outcome, 'if name != "recall_handle"', ""),
        ("test_sending.test_an_ordering_key_chooses_the_queue_and_a_delay_can_be_recalled",),
    ),
    Bug(
        "an-edit-without-bodies",
        Text(sending._refuse_edits, "not visit.shows_bodies and ", "False and "),
        ("test_sending.test_without_bodies_a_message_is_sent_again_and_never_shown",),
    ),
    Bug(
        "a-plan-shows-what-nobody-may-see",
        Text(sending._parts, "if is_shown else NO_BODIES", ""),
        ("test_sending.test_without_bodies_a_message_is_sent_again_and_never_shown",),
    ),
    Bug(
        "a-member-that-failed-is-done",
        Text(handling._outcome, 'if done["succeeded"]', "if done"),
        ("test_handling.test_a_member_handles_a_message_and_says_how",),
    ),
    Bug(
        "a-filter-is-left-out",
        Text(dead_letters._scan, "wanted.takes)", "lambda message: True)"),
        ("test_dead_letters.test_letters_by_filter_go_to_their_topics_and_the_plan_says_how_many",),
    ),
    Bug(
        "later-letters-are-sent",
        Text(dead_letters._within, "min(whole.end, asked.until.get(", "max(whole.end, asked.until.get("),
        STEPS,
    ),
    Bug(
        "a-step-begins-anew",
        Text(dead_letters._within, "max(whole.first, asked.at.get(", "min(whole.first, asked.at.get("),
        STEPS,
    ),
    Bug(
        "what-was-not-tried-is-left-out",
        Text(dead_letters._following, "at[letter.queue] = min(at[letter.queue], letter.offset)", "pass"),
        ("test_dead_letters.test_a_step_ends_in_time_and_what_is_left_goes_on",),
    ),
    Bug("a-failure-hides-others", Text(_Resending._send_one, "return str(error)", "raise"), BAD_LETTER),
    Bug("a-failure-looks-sent", Text(_Resending._send_one, "return str(error)", 'return ""'), BAD_LETTER),
    Bug("letters-that-are-gone", Seam(_Resending.refuse_conflicts, _finds_nothing_wrong), CONFLICT),
    Bug(
        "another-letter-is-sent",
        Text(_Resending._send_one, 'if identity_of(found)._replace(message_id="") != letter.identity:', "if False:"),
        CONFLICT,
    ),
    Bug(
        "a-step-skips-letters",
        Text(forward._read, "hits[room - 1].offset + 1 if len(hits) > room else ", ""),
        ("test_forward.test_steps_find_each_message_once",),
    ),
    Bug(
        "a-pipe-that-anybody-writes",
        Text(rendering.shell_text, "isinstance(word, Pipe)", 'word == "|"'),
        ("test_rendering.test_a_command_is_one_for_a_shell",),
    ),
    Bug("a-file-without-bodies", Text(export.file_of, "if not visit.shows_bodies:", "if False:"), NO_BODIES),
    Bug(
        "a-silent-broker-that-no-name-says",
        Text(export.file_of, "cut = cut or Cut.brokers", "pass"),
        ("test_export.test_a_broker_that_was_not_asked_is_in_the_name",),
    ),
    Bug(
        "deleted-messages-that-no-name-says",
        Text(Lines._taking, "self.cut = self.cut or Cut.gone", "pass"),
        ("test_export.test_messages_that_are_deleted_meanwhile_are_in_the_name",),
    ),
    Bug(
        "a-file-in-another-order",
        Text(Lines.read, "deque(sorted(offsets))", "deque(sorted(offsets, reverse=True))"),
        ("test_export.test_queues_come_one_after_the_other_the_oldest_message_first",),
    ),
    Bug(
        "kilobytes-that-inflate-for-ever",
        Text(Lines.add, "self._inflated_left_bytes -= room", "pass"),
        ("test_export.test_bodies_that_inflate_cost_no_more_than_four_files",),
    ),
    Bug(
        "a-file-of-all-letters",
        Text(letter_pages.dead_letters_file, "wanted.takes, ", ""),
        ("test_export.test_dead_letters_are_a_file",),
    ),
]
