"""Seeded bugs in the console, which its tests must catch. Each is one wrong step that one could write.

Their ``suites`` are tests as ``module.function``, or ``module.Class.function``.
"""

from __future__ import annotations

from typing import Any

from pymq.console import answers, app, settings
from pymq.console.answers import Answers
from pymq.console.app import Console
from pymq.console.asking.cluster import Cluster
from pymq.console.asking.clusters import Clusters
from pymq.console.asking.room import Room
from pymq.console.history import chart, sight, trend
from pymq.console.history.pace import Pace
from pymq.console.history.pairs import Pairs
from pymq.console.history.rings import Ring, Rings
from pymq.console.history.sight import Permissions, Sight
from pymq.console.pages import brokers, lists, name_servers, overview, rendering, sampled, topics, users
from pymq.console.pages.sections import Table
from pymq.console.people.log_in import LogIns
from pymq.console.people.sessions import Session, Sessions
from pymq.console.people.waits import Waits
from pymq.console.web import bodies
from pymq.console.web.headers import Headers
from pymq.console.web.origins import OriginCheck, Origins
from pymq.console.web.parameters import Parameters
from pymq.console.web.renewed_tls import RenewedTls
from pymq.operations.topic.table import TopicTable
from tests.planting import Bug, Seam, Text, gives


def _to_any_path(real: Any, path: str, context: str) -> str:
    return path


REQUEST_BUGS = [
    Bug(
        "any-host",
        Seam(Origins.has_host, gives(True)),
        ("test_origins.test_another_host_is_answered_with_the_right_one",),
    ),
    Bug("any-origin", Seam(Origins.has_origin, gives(True)), ("test_origins.test_a_change_from_elsewhere_is_refused",)),
    Bug(
        "no-origin-will-do",
        Text(OriginCheck._problem, "if len(origins) != 1 or not", "if origins and not"),
        ("test_origins.test_a_change_from_elsewhere_is_refused",),
    ),
    Bug(
        "first-host-counts",
        Text(OriginCheck._problem, "len(hosts) != 1 or not", "not hosts or not"),
        ("test_origins.test_a_request_without_a_host_or_with_two_is_refused",),
    ),
    Bug(
        "other-sites",
        Text(OriginCheck._problem, 'if sites and sites != [b"same-origin"]:', "if False:"),
        ("test_origins.test_a_change_from_elsewhere_is_refused",),
    ),
    Bug(
        "other-ports-of-the-site",
        Text(OriginCheck._problem, 'sites != [b"same-origin"]', 'sites not in ([b"same-origin"], [b"same-site"])'),
        ("test_origins.test_a_change_from_elsewhere_is_refused",),
    ),
    Bug(
        "only-a-post-is-a-change",
        Text(OriginCheck._problem, 'scope["method"] in READING_METHODS', 'scope["method"] != "POST"'),
        ("test_origins.test_every_method_but_those_that_read_is_a_change",),
    ),
    Bug(
        "headers-left-out",
        Text(Headers.__call__, "[*given, *self._added]", "[*given]"),
        ("test_headers.test_every_answer_has_them_and_is_not_kept",),
    ),
    Bug(
        "a-page-changes-the-policy",
        Text(Headers.__call__, 'message["headers"] if name not in ALWAYS]', 'message["headers"]]'),
        ("test_headers.test_an_answer_changes_how_long_it_is_kept_and_nothing_else",),
    ),
    Bug(
        "browsers-keep-pages",
        Text(Headers.__call__, "given.append((CACHE_CONTROL, NO_STORE))", "pass"),
        ("test_headers.test_every_answer_has_them_and_is_not_kept",),
    ),
    Bug(
        "plain-http-after-tls",
        Text(Headers.__init__, "if is_encrypted else []", "if False else []"),
        ("test_headers.test_browsers_that_came_by_tls_come_by_tls_alone",),
    ),
    Bug(
        "bodies-without-an-end",
        Text(bodies.read_body, "if size > size_max_bytes:", "if False:"),
        ("test_bodies.test_a_larger_body_ends_where_it_is_too_large",),
    ),
    Bug(
        "a-body-of-the-limit-is-refused",
        Text(bodies.read_body, "size > size_max_bytes", "size >= size_max_bytes"),
        ("test_bodies.test_parts_are_joined_up_to_the_limit",),
    ),
    Bug(
        "any-body-is-a-form",
        Text(bodies.read_form, "if len(kinds) != 1 or", "if False and"),
        ("test_bodies.test_only_forms_are_read",),
    ),
    Bug(
        "fields-that-are-no-text",
        Text(bodies.parse_form, 'errors="strict"', 'errors="replace"'),
        ("test_bodies.test_what_is_no_form_is_refused",),
    ),
    Bug(
        "the-first-of-two-fields",
        Text(Parameters.text, "if len(values) > 1:", "if False:"),
        ("test_parameters.test_a_wrong_field_is_named",),
    ),
    Bug(
        "nul-in-a-field", Text(Parameters.text, "in value:", "in '':"), ("test_parameters.test_a_wrong_field_is_named",)
    ),
    Bug(
        "fields-of-any-length",
        Text(Parameters.text, "if len(value) > length_max:", "if False:"),
        ("test_parameters.test_a_wrong_field_is_named",),
    ),
    Bug(
        "a-bound-left-out",
        Text(Parameters.number, "<= maximum", "< maximum"),
        ("test_parameters.test_bounds_are_included",),
    ),
    Bug(
        "numbers-without-bounds",
        Text(Parameters.number, "if not minimum <= number <= maximum:", "if False:"),
        ("test_parameters.test_a_wrong_field_is_named",),
    ),
]

PEOPLE_BUGS = [
    Bug(
        "a-session-is-of-every-context",
        Text(Sessions.find, "session is None or session.context != context", "session is None"),
        ("test_sessions.test_a_session_is_of_one_context",),
    ),
    Bug(
        "idle-sessions-stay",
        Text(Sessions.find, "if self._is_over(session, now_ms):", "if False:"),
        ("test_sessions.test_an_idle_session_ends_and_one_in_use_stays_until_it_is_old",),
    ),
    Bug(
        "used-sessions-end",
        Text(Sessions.find, "session.seen_ms = now_ms", "pass"),
        ("test_sessions.test_an_idle_session_ends_and_one_in_use_stays_until_it_is_old",),
    ),
    Bug(
        "any-token",
        Seam(Session.has_token, gives(True)),
        ("test_sessions.test_only_the_token_of_a_session_is_its_token",),
    ),
    Bug(
        "scripts-read-the-cookie",
        Text(Sessions.set_cookie, " HttpOnly;", ""),
        ("test_sessions.test_the_cookie_stays_in_this_browser_and_out_of_scripts",),
    ),
    Bug(
        "a-person-fills-the-table",
        Text(Sessions.open, "if len(of_person) >= SESSION_COUNT_OF_PERSON_MAX:", "if False:"),
        ("test_sessions.test_a_person_has_so_many_sessions_and_the_longest_unused_one_ends",),
    ),
    Bug(
        "sessions-without-an-end",
        Text(Sessions.open, "if len(self._sessions) >= SESSION_COUNT_MAX:", "if False:"),
        ("test_sessions.test_there_are_so_many_sessions_and_old_ones_make_room",),
    ),
    Bug("an-end-is-not-said", Text(Sessions.end, "listener()", "pass"), ("test_sessions.test_an_end_is_told_once",)),
    Bug(
        "nobody-waits",
        Seam(Waits.must_wait, gives(False)),
        ("test_waits.test_some_failures_are_free_and_then_a_key_waits",),
    ),
    Bug(
        "waits-do-not-grow",
        Text(Waits.fail, "FIRST_WAIT_MS << min(found.waits, 16)", "FIRST_WAIT_MS"),
        ("test_waits.test_each_wait_is_twice_as_long_up_to_an_hour",),
    ),
    Bug(
        "keys-without-an-end",
        Text(Waits.fail, "while len(self._failures) > KEY_COUNT_MAX:", "while False:"),
        ("test_waits.test_so_many_keys_are_known",),
    ),
    Bug(
        "slow-failures-count",
        Text(Waits.fail, "found.begun_ms, found.count = now_ms, 0", "pass"),
        ("test_waits.test_slow_failures_are_free",),
    ),
    Bug(
        "failures-are-quick",
        Text(LogIns.log_in, "await self._sleep(max(0, FAILURE_MS - spent_ms) / 1000)", "pass"),
        ("test_log_in.test_failures_look_alike_and_take_the_same_time",),
    ),
    Bug(
        "an-address-never-waits",
        Text(LogIns.log_in, "self._of_addresses.fail(address)", "pass"),
        ("test_log_in.test_an_address_that_tries_many_names_waits_too",),
    ),
    Bug(
        "a-cluster-without-users-logs-in",
        Text(LogIns.log_in, "if proof is Proof.unchecked:", "if False:"),
        ("test_log_in.test_a_cluster_without_users_has_no_log_in",),
    ),
    Bug(
        "who-waits-is-asked-about",
        Text(
            LogIns._credentials,
            "if self._of_persons.must_wait((address, name)) or self._of_addresses.must_wait(address):",
            "if False:",
        ),
        ("test_log_in.test_who_fails_too_often_waits_without_a_question_to_the_cluster",),
    ),
]

APP_BUGS = [
    Bug(
        "no-log-in-for-others",
        Text(Answers.made, "around.session is None and self.shell.needs_log_in", "False"),
        ("test_app.TestLogIn.test_a_console_for_others_wants_a_person_everywhere",),
    ),
    Bug(
        "a-log-in-leads-anywhere",
        Seam(app._own_path, _to_any_path),
        ("test_app.TestLogIn.test_after_the_log_in_comes_a_page_of_this_context",),
    ),
    Bug(
        "a-log-out-without-a-token",
        Text(
            Console._log_out, "around.session is None or not around.session.has_token(token)", "around.session is None"
        ),
        ("test_app.TestLogIn.test_log_out_needs_the_token_of_the_session",),
    ),
    Bug(
        "the-session-before-stays",
        Text(Console._log_in, "self._shell.sessions.end(around.session)", "pass"),
        ("test_app.TestLogIn.test_a_new_log_in_ends_the_session_before",),
    ),
    Bug(
        "a-user-who-is-gone-stays",
        Text(Answers.made, "self.shell.sessions.end(around.session)", "pass"),
        ("test_app.TestLogIn.test_a_user_who_is_gone_has_no_session",),
    ),
    Bug(
        "any-bytes-are-a-path",
        Seam(app._has_bad_text, gives(False)),
        ("test_app.test_an_address_that_is_no_text_is_refused",),
    ),
    Bug(
        "an-error-is-a-page-like-others",
        Text(Answers.problem, "self.answer(status, around, page)", "self.answer(200, around, page)"),
        ("test_app.test_an_error_is_a_page_that_says_it",),
    ),
    Bug(
        "json-without-what-is-missing",
        Text(Answers.answer, ', "missing": page.missing', ""),
        ("test_app.test_a_page_is_html_and_json_with_its_time",),
    ),
    Bug(
        "a-refused-right-is-a-broken-cluster",
        Text(answers.problem_of, "403 if is_right else 502", "502"),
        ("test_app.test_an_error_is_a_page_that_says_it",),
    ),
    Bug(
        "strangers-read-along",
        Text(settings.ConsoleSettings.check, "if not self.is_insecure:", "if False:"),
        ("test_serve.test_elsewhere_without_tls_it_does_not_start_unless_it_is_insisted_on",),
    ),
    Bug(
        "an-old-certificate-stays",
        Text(RenewedTls._take_newest, "connection.context = self._newest", "pass"),
        ("test_renewed_tls.test_new_connections_take_a_renewed_certificate",),
    ),
]

ASKING_BUGS = [
    Bug(
        "answers-are-kept-for-good",
        Text(Cluster.ask, "now_ms - kept.at_ms < (kept.kept_ms if kept_ms is None else kept_ms)", "True"),
        ("test_cluster.test_the_same_question_goes_out_once_and_its_answer_is_kept_for_a_moment",),
    ),
    Bug(
        "each-page-asks",
        Text(Cluster._asked, "self._flights.ask(flight,", "self._flights.ask(object(),"),
        ("test_cluster.test_the_same_question_goes_out_once_and_its_answer_is_kept_for_a_moment",),
    ),
    Bug(
        "a-page-after-a-change-joins-a-question-of-before",
        Text(Cluster._asked, "flight = (self._change_count, key)", "flight = (0, key)"),
        ("test_cluster.test_a_question_that_left_before_a_change_is_not_joined_after_it",),
    ),
    Bug(
        "samples-of-before-a-change-are-shown-after-it",
        Text(Cluster._old, "if self._changed_ms is None or", "if True or"),
        ("test_cluster.test_nothing_of_before_a_change_is_given_after_it",),
    ),
    Bug(
        "an-old-answer-without-its-age",
        Text(Cluster.ask, "oldest.note(now_ms - taken.at_ms)", "pass"),
        ("test_cluster.test_an_old_answer_is_given_with_its_age_while_a_new_one_is_asked_for",),
    ),
    Bug(
        "an-old-answer-hides-that-the-cluster-is-away",
        Text(Cluster._give_up, "self._not_renewed.add(key)", "pass"),
        ("test_cluster.test_an_error_in_the_background_is_the_next_ones_and_not_hidden",),
    ),
    Bug(
        "sampled-rows-for-a-person-with-other-rights",
        Text(Sight._asks_as_the_console, "not self._person and ", ""),
        ("test_sight.test_samples_do_not_stand_for_the_questions_of_others",),
    ),
    Bug(
        "a-sum-of-some-brokers-looks-whole",
        Text(TopicTable._ends, 'return {"stored": None, "last_ms": None}', "continue"),
        ("test_topics.test_unknown_figures_come_last_in_either_order",),
    ),
    Bug(
        "kept-answers-take-all-memory",
        Text(Room.put, "while self.held_bytes > self.bytes_max:", "while False:"),
        ("test_cluster.test_kept_answers_of_all_persons_share_a_room",),
    ),
    Bug(
        "answers-have-no-size",
        Text(Cluster._ask, "0 if is_small else parsed.size_bytes", "0"),
        ("test_cluster.test_kept_answers_of_all_persons_share_a_room",),
    ),
    Bug(
        "all-questions-at-once",
        Text(Cluster._ask, "async with self._gate, also or nullcontext():", "if True:"),
        ("test_cluster.test_some_questions_are_asked_at_a_time",),
    ),
    Bug(
        "answers-without-an-end",
        Text(Cluster._keep, "while len(self._kept) > KEPT_COUNT_MAX:", "while False:"),
        ("test_cluster.test_the_kept_answers_are_bounded",),
    ),
    Bug(
        "one-client-for-all",
        Text(Clusters.get, 'session.key if session is not None else ""', '""'),
        ("test_clusters.test_each_person_has_a_client_of_their_own_for_each_context",),
    ),
    Bug(
        "a-browser-names-a-server",
        Text(Clusters.get, "if context not in self.contexts:", "if False:"),
        ("test_clusters.test_an_unknown_context_is_refused",),
    ),
    Bug(
        "clients-outlive-sessions",
        Text(Clusters.get, "session.on_end[key] = lambda: self._drop(key)", "pass"),
        ("test_clusters.test_the_end_of_a_session_closes_its_clients",),
    ),
    Bug(
        "idle-clients-stay",
        Text(Clusters.close_idle, ">= IDLE_MAX_MS", ">= 10**12"),
        ("test_clusters.test_idle_clients_are_closed_and_asking_ones_are_not",),
    ),
]

PAGE_BUGS = [
    Bug(
        "an-escape-left-out",
        Text(rendering.make_environment, "autoescape=True", "autoescape=False"),
        ("test_rendering.test_texts_are_escaped_and_control_characters_shown",),
    ),
    Bug(
        "control-characters-are-obeyed",
        Text(rendering._visible, "return printable(value) if", "return value if"),
        ("test_rendering.test_texts_are_escaped_and_control_characters_shown",),
    ),
    Bug(
        "a-stack-is-markup",
        Text(rendering.lines_text, "escape(printable(part))", "Markup(part)"),
        ("test_member.test_a_stack_is_text",),
    ),
    Bug(
        "unknown-is-zero",
        Text(rendering.number_text, "UNKNOWN if value is None", '"0" if value is None'),
        ("test_rendering.test_figures_have_units_and_unknown_ones_are_a_dash",),
    ),
    Bug(
        "unknown-figures-first",
        Text(
            lists._sorted,
            "known + [row for row in ordered if row[figure] is None]",
            "[row for row in ordered if row[figure] is None] + known",
        ),
        ("test_lists.test_rows_are_in_the_order_of_a_column_and_unknown_figures_come_last",),
    ),
    Bug(
        "a-page-is-the-whole",
        Text(lists.cut, "len(found), number", "len(found[:size]), number"),
        ("test_lists.test_a_page_is_cut_and_the_last_one_is_the_last",),
    ),
    Bug(
        "a-search-of-one-case",
        Text(lists.cut, "word in _text(row, column).lower()", "search in _text(row, column)"),
        ("test_lists.test_a_search_finds_a_part_of_a_name_in_any_case",),
    ),
    Bug(
        "the-end-of-a-table-is-not-said",
        Seam(Table.left_out, gives(0)),
        ("test_sections.test_the_page_says_how_many_are_left_out",),
    ),
    Bug(
        "silent-brokers-are-not-named",
        Text(brokers.brokers, "silent | visit.cluster.unreached", "{}"),
        ("test_brokers.test_a_silent_broker_is_named_and_its_figures_are_unknown",),
    ),
    Bug(
        "half-a-list-looks-whole",
        Text(topics.topics, "visit.cluster.unreached | missing", "missing"),
        ("test_topics.test_topics_of_applications_come_by_name",),
    ),
    Bug(
        "name-servers-that-are-down-are-not-named",
        Text(name_servers.name_servers, 'if not record["answers"]}', "if False}"),
        ("test_name_servers.test_a_name_server_that_is_down_is_missing_once",),
    ),
    Bug(
        "a-refusal-looks-like-no-users",
        Text(users.users_page, "if not keeps_no_users(error):", "if False:"),
        ("test_users.test_a_missing_right_is_a_refusal_of_the_page",),
    ),
]

HISTORY_BUGS = [
    Bug(
        "a-gap-is-a-line",
        Text(Ring.put, "value if step <= joined_max else nan", "value"),
        ("test_rings.test_a_longer_time_is_a_gap_and_a_rate_over_it_is_unknown",),
    ),
    Bug(
        "an-hour-ago-is-now",
        Text(Ring.points, "found[POINTS - unknown :] = [nan] * unknown", "pass"),
        ("test_rings.test_points_of_an_hour_ago_are_gone",),
    ),
    Bug(
        "series-without-an-end",
        Text(Rings._makes_room, "self.count >= self.series_max", "False"),
        ("test_rings.test_at_the_cap_a_subject_that_nobody_looks_at_gets_no_series",),
    ),
    Bug(
        "any-topic-takes-a-place",
        Text(Rings._least_seen, "_GIVE_WAY[:-1] if newcomer.kind is Kind.group else ()", "_GIVE_WAY[:-1]"),
        ("test_rings.test_at_the_cap_a_subject_that_nobody_looks_at_gets_no_series",),
    ),
    Bug(
        "a-pair-is-seen-by-who-may-not-see-the-group",
        Text(sight._asked_as, "return Subject(Kind.group, subject.name)", "return CLUSTER"),
        ("test_sight.test_a_pair_is_seen_by_who_may_see_the_group",),
    ),
    Bug(
        "lags-by-topic-without-an-end",
        Text(Pairs.watch, "while len(self._watched) > WATCHED_MAX:", "while False:"),
        ("test_pairs.test_of_many_that_were_looked_at_the_last_ones_stay",),
    ),
    Bug(
        "lags-by-topic-are-asked-for-for-ever",
        Text(Pairs.groups, "if now_ms - one.at_ms < WATCHED_MS", "if True"),
        ("test_pairs.test_groups_that_were_looked_at_are_asked_for_ten_minutes",),
    ),
    Bug(
        "a-growing-lag-falls",
        Text(trend.lag_trend, "if per_second > 0:", "if per_second < 0:"),
        ("test_trend.test_a_lag_in_words",),
    ),
    Bug(
        "noise-is-a-trend",
        Text(trend.lag_trend, ", noise * NOISE_FACTOR", ""),
        ("test_trend.test_a_lag_that_jumps_about_is_no_trend",),
    ),
    Bug(
        "a-busy-broker-is-asked-as-often",
        Text(Pace.note, "max(self.base_ms // rounds, longest_ms)", "self.base_ms // rounds"),
        ("test_pace.test_answers_that_take_long_are_asked_for_less_often",),
    ),
    Bug(
        "an-unknown-minute-is-zero",
        Text(chart.steps, "nan if not known", "0.0 if not known"),
        ("test_section.test_unknown_minutes_are_dashes_and_no_zeros",),
    ),
    Bug(
        "a-gap-of-a-chart-is-a-line",
        Text(chart.line_of, "is_drawing = False\n            continue", "continue"),
        ("test_chart.test_a_gap_breaks_the_line_and_a_lone_point_is_a_dot",),
    ),
    Bug(
        "figures-for-everyone",
        Text(Sight.why_not, "refusal = str(error)", 'refusal = ""'),
        ("test_sight.test_a_refusal_holds_as_long_and_says_why",),
    ),
    Bug(
        "the-right-of-one-is-the-right-of-all",
        Text(Sight.__init__, "self._person = person", 'self._person = ""'),
        ("test_sight.test_an_answer_holds_for_a_while_for_one_person_and_subject",),
    ),
    Bug(
        "a-right-for-good",
        Text(Permissions.find, ">= ALLOWED_MS", ">= 10**12"),
        ("test_sight.test_an_answer_holds_for_a_while_for_one_person_and_subject",),
    ),
    Bug(
        "rates-of-rows-that-may-not-be-seen",
        Text(sampled.with_rates, "row[_OWN_FIGURE[kind]] is not None", "True"),
        ("test_sampled.test_topics_have_rates_and_small_lines",),
    ),
    Bug(
        "old-rates-are-new",
        Text(Sight.rate, "> OLD_MS", "> 10**12"),
        ("test_sampled.test_rates_that_are_old_are_unknown",),
    ),
    Bug(
        "samples-for-who-may-not-see-the-cluster",
        Text(overview._may_see_cluster, "raise\n        return False", "raise\n        return True"),
        ("test_overview.test_a_person_without_the_right_sees_no_sample_and_no_finding",),
    ),
    Bug(
        "findings-of-the-groups-of-others",
        Text(overview._visible, "if check not in _OF_GROUPS or", "if True or"),
        ("test_overview.test_it_shows_the_whole_cluster",),
    ),
    Bug(
        "dead-letters-that-are-not-counted-are-not-said",
        Text(overview._dead_letters, "len(full) > DEAD_LETTER_GROUPS_MAX", "False"),
        ("test_overview.test_dead_letters_that_are_not_counted_are_said",),
    ),
]

BUGS = [*REQUEST_BUGS, *PEOPLE_BUGS, *APP_BUGS, *ASKING_BUGS, *PAGE_BUGS, *HISTORY_BUGS]
