"""Seeded bugs in changes, which their tests must catch. ``suites`` are tests as ``module.function``."""

from __future__ import annotations

from pymq.console.audit import Audit
from pymq.console.change_routes import ChangeRoutes
from pymq.console.changes import offsets, replanned, rules, shrink, users
from pymq.console.changes.flow import Change, Changes
from pymq.console.changes.kept import Kept
from pymq.console.changes.plan import Plan
from pymq.console.pages.audit import AuditPage
from pymq.operations.topic.resizing import Settling
from tests.planting import Bug, Seam, Text, gives

ONCE = ("test_kept.test_it_is_used_once_by_the_session_that_made_it",)
SKIP = ("test_offsets.test_messages_are_skipped_only_with_the_group_s_name",)
MOVED = ("test_offsets.test_a_move_of_someone_else_is_a_conflict",)

SHRUNK = ("test_shrink.test_queues_go_when_they_are_read_and_no_producer_writes_them",)


BUGS = [
    Bug("a-plan-is-used-twice", Text(Kept.take, "del self._waiting[number]", "pass"), ONCE),
    Bug(
        "a-plan-is-anybody-s",
        Text(Kept.find, "(found.session, found.context) != (session, context)", "False"),
        ONCE,
    ),
    Bug(
        "plans-stay",
        Text(Kept._forget_old, ">= self._age_max_ms", ">= 10**12"),
        ("test_kept.test_it_is_not_kept_for_long",),
    ),
    Bug(
        "a-session-fills-the-table",
        Text(Kept.keep, "if len(own) >= COUNT_OF_SESSION_MAX:", "if False:"),
        ("test_kept.test_a_session_has_so_many_and_the_oldest_goes",),
    ),
    Bug("a-loss-without-its-name", Seam(Plan.is_confirmed_by, gives(True)), SKIP),
    Bug("a-skip-is-no-loss", Text(offsets.plan_of, "> 0 for row in rows", "> 10**9 for row in rows"), SKIP),
    Bug(
        "a-form-without-a-token",
        Text(ChangeRoutes._post, "session is None or not session.has_token(token)", "session is None"),
        ("test_offsets.test_a_form_of_another_session_changes_nothing",),
    ),
    Bug(
        "a-move-over-another-s",
        Text(
            offsets._refuse_conflicts,
            "if now.end < planned.end or _is_back(planned.committed, now.committed):",
            "if False:",
        ),
        MOVED,
    ),
    Bug(
        "a-change-over-another-s",
        Text(replanned.replanned, "if fixed(await run(admin, True)) != fixed(planned):", "if False:"),
        ("test_topics.test_a_topic_that_someone_else_changes_is_a_conflict",),
    ),
    Bug(
        "a-plan-changes",
        Text(replanned.replanned, "planned = await run(admin, True)", "planned = await run(admin, False)"),
        ("test_topics.test_a_topic_is_made_changed_and_deleted",),
    ),
    Bug(
        "nothing-in-the-audit",
        Text(Changes.apply, "self._note(person, plan, _result(outcome), outcome)", "pass"),
        ("test_offsets.test_a_group_is_moved_by_its_plan_and_back",),
    ),
    Bug("refusals-not-in-the-audit", Text(Changes.apply, "self._note(person, plan, str(error))", "pass"), MOVED),
    Bug(
        "control-characters-in-the-audit",
        Text(Audit.note, "printable(text[:TEXT_LENGTH_MAX])", "text[:TEXT_LENGTH_MAX]"),
        ("test_audit.test_an_attempt_is_a_line_that_hides_no_control_character",),
    ),
    Bug(
        "the-audit-of-every-cluster",
        Text(AuditPage.page, 'if each.context == visit.path["context"]', "if each"),
        ("test_audit_page.test_the_newest_attempts_of_the_context_come_first",),
    ),
    Bug(
        "a-user-over-another-s",
        Text(users._before, '"before": [', '"was": ['),
        ("test_users.test_a_user_that_someone_else_changes_is_a_conflict",),
    ),
    Bug(
        "a-rule-of-another-level",
        Text(rules._before, "== (level, resource)", "!= (level, resource)"),
        ("test_users.test_a_rule_is_given_replaced_and_taken_away",),
    ),
    Bug("queues-go-unread", Text(shrink._check_is_read, "if awaited := state.awaited():", "if awaited := []:"), SHRUNK),
    Bug("queues-go-while-written", Text(shrink._check_is_read, "if state.written:", "if False:"), SHRUNK),
    Bug("queues-go-at-once", Text(shrink._check_is_read, "if quiet_s < SETTLE_S:", "if False:"), SHRUNK),
    Bug(
        "a-late-message-is-not-seen",
        Text(Settling.quiet_s, "and before[0].ends == state.ends", ""),
        ("test_resizing.test_the_count_begins_with_the_first_look_and_again_with_each_message",),
    ),
    Bug(
        "a-change-by-who-may-not-see-the-cluster",
        Text(Change.prepared, "if self.needs_sight", "if False"),
        ("test_rights_elsewhere.test_a_stranger_and_a_user_with_rights_elsewhere_change_nothing",),
    ),
    Bug(
        "anybody-sees-the-audit",
        Text(AuditPage.page, 'await visit.cluster.ask(("may see", CLUSTER), runtime_of_each_cluster)', "pass"),
        ("test_audit_page.test_who_may_not_see_the_cluster_sees_no_audit",),
    ),
]
