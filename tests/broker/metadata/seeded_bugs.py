"""Seeded bugs in the versions of tables and in what members hear of changes, which unit tests must catch.

Each is one wrong step that a programmer could write. Its ``suites`` are tests by their module below ``tests``.
"""

from __future__ import annotations

from typing import Any

from pymq.broker.handlers.resets import ResetHandlers
from pymq.broker.handlers.topics_admin import TopicAdminHandlers
from pymq.broker.metadata.clients import ClientManager
from pymq.broker.metadata.cursors import CursorManager
from pymq.broker.metadata.groups import GroupManager
from pymq.broker.metadata.notices import Notices
from pymq.broker.metadata.saved_state import SavedState
from pymq.broker.metadata.topics import TopicManager
from pymq.client.admin import guarded
from pymq.client.admin.guarded import change_entry
from tests.planting import Bug, Seam, Text, does_nothing

_State: Any = SavedState
_Clients: Any = ClientManager
_Resets: Any = ResetHandlers
_guarded: Any = guarded

GUARDED = "client.admin.test_guarded."
GROUPS = "broker.handlers.test_groups_admin."
TOPICS = "broker.handlers.test_topics_admin."
STATE = "broker.metadata.test_saved_state."
CURSORS = "broker.metadata.test_cursors."
RESETS = "broker.handlers.test_resets."
NOTICES = "broker.metadata.test_notices."
CLIENTS = "broker.metadata.test_clients."

BUGS = [
    Bug(
        "after a refusal the change is written over the other administrator's",
        Text(change_entry, "_check_unchanged(what, seen, now)\n            seen = now", "seen = now"),
        (GUARDED + "test_another_change_of_the_entry_is_not_undone",),
    ),
    Bug(
        "a write carries no version",
        Text(change_entry, "write(after, seen.version)", "write(after, None)"),
        (GUARDED + "test_a_change_alone_is_made",),
    ),
    Bug(
        "where there are no versions, the entry is not read again before the write",
        Text(change_entry, "if seen.version is None:", "if False:"),
        (GUARDED + "test_without_versions_the_entry_is_read_again_before_and_after_the_write",),
    ),
    Bug(
        "where there are no versions, the entry is not read again after the write",
        Seam(_guarded._check_written, does_nothing),
        (GUARDED + "test_without_versions_the_entry_is_read_again_before_and_after_the_write",),
    ),
    Bug(
        "a table takes a change that was made from an older version",
        Text(_State.check_version, "expected != self.version.counter or ", ""),
        (GROUPS + "test_a_change_made_from_an_older_version_is_refused",),
    ),
    Bug(
        "a table takes a change while another one is saved",
        Text(_State.check_version, " or self._saving or self._waiting", ""),
        (GROUPS + "test_a_change_while_another_is_saved_is_refused",),
    ),
    Bug(
        "groups don't compare versions",
        Text(GroupManager.put, "self._state.check_version(expected)", "pass"),
        (GROUPS + "test_a_change_made_from_an_older_version_is_refused",),
    ),
    Bug(
        "topics don't compare versions",
        Text(TopicManager.put, "self._state.check_version(expected)", "pass"),
        (TOPICS + "test_a_change_made_from_an_older_version_is_refused",),
    ),
    Bug(
        "a topic's configuration comes without the version of its table",
        Text(TopicAdminHandlers.config_of, "request.language == PYMQ_LANGUAGE", "False"),
        (TOPICS + "test_a_change_made_from_an_older_version_is_refused",),
    ),
    Bug(
        "a saved change is not counted",
        Text(_State._start, "before.next(self._clock.now_ms()) if self._saving else before", "before"),
        (STATE + "test_a_change_counts_once_it_is_saved",),
    ),
    Bug(
        "a change at once is not counted",
        Text(_State.change_at_once, "self.version = self.version.next(self._clock.now_ms())", "pass"),
        (STATE + "test_an_immediate_change_counts_at_once_and_is_saved_soon",),
    ),
    Bug(
        "two changes get the same number",
        Text(_State._succeeded, "version if self.version == before else ", "version if True else "),
        (STATE + "test_an_immediate_change_during_a_save_is_in_the_next_one",),
    ),
    Bug(
        "a group never hears that an operator moved it",
        Text(CursorManager.reset, "self._resets[topic, group, queue_id] = offset", "pass"),
        (CURSORS + "test_a_reset_is_answered_once_and_earlier_commits_are_dropped",),
    ),
    Bug(
        "a group hears of one move again and again",
        Text(CursorManager.take_reset, "self._resets.pop(", "self._resets.get("),
        (CURSORS + "test_a_reset_is_answered_once_and_earlier_commits_are_dropped",),
    ),
    Bug(
        "one member alone hears that an operator moved its group",
        Text(_Resets._push, "list(group.members.values())", "list(group.members.values())[:1]"),
        (RESETS + "test_without_server_side_resets_the_consumers_are_notified",),
    ),
    Bug(
        "a change of a large group during a round of notices is forgotten",
        Text(Notices.send, "self._again.add(group)", "pass"),
        (NOTICES + "test_changes_of_a_large_group_share_a_round",),
    ),
    Bug(
        "members that are gone get notices",
        Text(Notices.tick, "if peer in members:", "if True:"),
        (NOTICES + "test_members_that_are_gone_get_nothing",),
    ),
    Bug(
        "members get notices although their group's configuration says no",
        Text(_Clients._notify, "not config.notify_consumer_ids_changed_enable", "False"),
        (CLIENTS + "test_no_member_is_notified_when_notices_are_off",),
    ),
]
