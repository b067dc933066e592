"""Seeded bugs in the pages about messages, which their tests must catch. Each is one wrong step that one could write.

Their ``suites`` are tests as ``module.function``, or ``module.Class.function``.
"""

from __future__ import annotations

from pymq.console.asking.reader import Reader
from pymq.console.messages import bodies, dead_letters, message, rows, scan, tail, timeline
from pymq.console.messages.bodies import BodyView
from pymq.console.messages.filters import Bodies, Filters
from pymq.console.messages.following import Follower
from pymq.console.messages.progress import Progress
from pymq.console.messages.scan import Span
from pymq.console.pages import rendering
from pymq.console.web.streams import EventAnswer, Stream, Streams
from pymq.operations.message import lookup, readers, search
from pymq.operations.message.search import BackwardSearch
from tests.planting import Bug, Seam, Text, does_nothing, gives

SEARCH_BUGS = [
    Bug(
        "a-page-that-stopped-looks-whole",
        Text(scan._scan, "        found.stop,\n", "        None,\n"),
        ("test_search.TestThroughATopic.test_a_page_says_what_it_scanned_and_the_next_one_goes_on",),
    ),
    Bug(
        "a-broker-that-fails-is-not-named",
        Text(scan._scan, "failed | notes", "notes"),
        ("test_search.TestThroughATopic.test_a_broker_that_fails_is_named_and_asked_again_by_going_on",),
    ),
    Bug(
        "a-broker-that-fails-is-not-asked-again",
        Text(scan._scan, "found.stop is not None or bool(found.failed)", "found.stop is not None"),
        ("test_search.TestThroughATopic.test_a_broker_that_fails_is_named_and_asked_again_by_going_on",),
    ),
    Bug(
        "later-messages-come-too",
        Text(Span.takes, "time_ms < self.end_ms", "True"),
        ("test_search.TestThroughATopic.test_filters_choose",),
    ),
    Bug(
        "no-order-over-queues",
        Text(search._is_behind, "lane.bound_ms is not None and lane.bound_ms <= newest_ms", "True"),
        ("test_blocks.test_pages_together_are_all_matches_newest_first",),
    ),
    Bug(
        "matches-that-were-not-shown-are-lost",
        Text(
            search._Lane.reached,
            "self.hits[-1].offset + 1 if self.hits else self.unread_end",
            "self.unread_end",
        ),
        ("test_blocks.test_a_page_ends_at_each_limit_and_says_which",),
    ),
    Bug(
        "no-end-of-a-scan",
        Text(BackwardSearch._spent, ">= self._limits.scanned_max", "> 10**12"),
        ("test_blocks.test_a_page_ends_at_each_limit_and_says_which",),
    ),
    Bug(
        "an-error-of-a-queue-moves-it",
        Text(BackwardSearch._read_block, "lane.why_failed = str(error)", "lane.unread_end = lane.first"),
        ("test_blocks.test_a_queue_that_fails_is_named_and_stays_where_it_is",),
    ),
    Bug(
        "the-oldest-of-any-queue-is-said",
        Text(search._back_to_ms, "return max(known_ms)", "return min(known_ms)"),
        ("test_blocks.test_the_time_down_to_which_all_was_looked_at_is_that_of_the_queue_that_is_least_far",),
    ),
    Bug(
        "a-visitor-runs-regular-expressions",
        Text(Filters.selection, "if any(each.is_pattern for each in where):", "if False:"),
        ("test_search.TestThroughATopic.test_a_wrong_field_is_named",),
    ),
    Bug(
        "bodies-that-were-not-read-are-not-counted",
        Text(Bodies.read, "self.unread_count += 1\n        return b\"\"\n    if", "return b\"\"\n    if"),
        ("test_search.TestThroughATopic.test_bodies_that_no_filter_could_read_are_counted",),
    ),
    Bug(
        "all-letters-whatever-was-asked",
        Text(dead_letters.dead_letters, "to_row, wanted.takes", "to_row, lambda one: True"),
        ("test_dead_letters.test_letters_are_chosen_by_origin_id_and_time",),
    ),
]  # fmt: skip

MESSAGE_BUGS = [
    Bug(
        "another-message-at-the-place",
        Text(lookup.find_at, "if one.queue_offset == offset", ""),
        ("test_lookup.test_only_the_message_at_the_very_place_is_found",),
    ),
    Bug(
        "past-a-message-that-comes-next",
        Text(readers._known, "at.consumer_offset > offset", "at.consumer_offset >= offset"),
        ("test_readers.test_a_group_is_past_a_message_when_its_offset_is_behind_it",),
    ),
    Bug(
        "groups-that-can-not-be-listed-are-none",
        Text(message._readers, "return [], answers.missing", "return [], {}"),
        ("test_message.test_groups_that_can_not_be_listed_hide_nothing_else",),
    ),
    Bug(
        "a-cut-body-looks-whole",
        Seam(BodyView.is_cut, gives(False)),
        ("test_message.test_a_large_body_is_cut_and_more_is_a_link",),
    ),
    Bug(
        "a-cut-character-is-a-wrong-one",
        Text(bodies._begin, "final=len(raw) <= size_bytes", "final=True"),
        ("test_bodies.test_a_character_at_the_cut_does_not_make_a_text_binary",),
    ),
    Bug(
        "markup-in-a-body",
        Text(rendering.lines_text, "escape(printable(part))", "Markup(printable(part))"),
        ("test_message.test_hostile_contents_stay_text",),
    ),
    Bug(
        "contents-in-rows",
        Text(rows.without_content, "None if name in HIDDEN else value", "value"),
        ("test_rows.test_without_bodies_contents_are_unknown_and_places_stay",),
    ),
    Bug(
        "bodies-to-download",
        Text(message.message_body, "if not visit.shows_bodies:", "if False:"),
        ("test_message.test_without_bodies_neither_body_nor_property_is_anywhere",),
    ),
    Bug(
        "the-begin-of-a-consumption-is-its-end",
        Text(timeline._begin_ms, 'time_ms - max(0, event["cost_ms"] or 0)', "time_ms"),
        ("test_timeline.test_events_are_bars_in_rows_by_what_they_are_and_by_group",),
    ),
]

TAIL_BUGS = [
    Bug(
        "a-tail-of-contents",
        Text(tail._filters, "if not visit.shows_bodies:", "if False:"),
        ("test_tail.test_without_bodies_there_is_no_tail",),
    ),
    Bug(
        "what-is-passed-over-is-not-counted",
        Text(Follower._skip, "result.unread += self._next[queue] - begin", "pass"),
        ("test_following.test_what_is_more_than_a_round_reads_is_counted_and_the_newest_is_shown",),
    ),
    Bug(
        "what-is-not-shown-is-not-counted",
        Text(Follower.round, "result.unshown = max(0, len(result.rows) - SHOWN_COUNT_MAX)", "result.unshown = 0"),
        ("test_following.test_what_is_more_than_a_round_reads_is_counted_and_the_newest_is_shown",),
    ),
    Bug(
        "a-round-without-an-end",
        Text(Follower._read, "and left_bytes > 0", ""),
        ("test_following.test_large_bodies_are_read_up_to_a_number_of_bytes_a_round",),
    ),
    Bug(
        "streams-without-number",
        Text(Streams.open, "stream.owner == owner", "False"),
        ("test_streams.test_streams_are_counted_by_owner_and_in_all",),
    ),
    Bug(
        "no-reason-of-an-end-by-age",
        Text(EventAnswer.__call__, "if not done:", "if False:"),
        ("test_streams.test_a_stream_ends_at_its_age",),
    ),
    Bug(
        "no-reason-of-an-end",
        Text(Stream.end, "self.why = why", "self.why = ''"),
        ("test_streams.test_the_end_has_a_reason_and_completes_the_answer",),
    ),
    Bug(
        "a-stream-is-counted-for-ever",
        Seam(Streams.close, does_nothing),
        ("test_streams.test_events_that_end_complete_the_answer",),
    ),
    Bug(
        "many-answers-in-memory",
        Text(Reader.pull, "async with self._gate:", "if True:"),
        ("test_reader.test_few_answers_are_in_memory_at_once",),
    ),
    Bug(
        "a-broker-that-hangs-is-asked-again-and-again",
        Text(Reader.pull, "if self._clock.monotonic_ms() <", "if -1 >"),
        ("test_reader.test_a_broker_that_hangs_gives_the_gate_back_and_is_left_alone_for_a_while",),
    ),
]

PROGRESS_BUGS = [
    Bug(
        "a-search-that-is-stopped-begins-anew",
        Text(scan._scan, "not is_whole or ", ""),
        ("test_progress.test_rows_come_once_and_a_search_that_is_stopped_goes_on_behind_them",),
    ),
    Bug(
        "rows-come-again",
        Text(Progress._said, "found.rows[self._shown_count :]", "found.rows"),
        ("test_progress.test_a_row_is_said_once",),
    ),
    Bug(
        "a-page-that-searches-again",
        Text(Progress._query, "fixed_times(self._span, self._begun_ms) | changes", "changes"),
        ("test_progress.test_a_quick_search_leads_to_its_page_which_asks_no_more",),
    ),
]

BUGS = [*SEARCH_BUGS, *MESSAGE_BUGS, *TAIL_BUGS, *PROGRESS_BUGS]
