"""Seeded bugs in the tables of groups: wrong steps between a right log and right tables.

Their ``suites`` are ``stories`` (:mod:`tests.broker.raft.table_story`), or a test of test_table_log or
test_table_records as ``module.function``.
"""

from __future__ import annotations

from typing import Any

from pymq.broker.raft import table_records
from pymq.broker.raft.table_log import TableLog, _Assembly
from pymq.broker.raft.tables import Table, Tables
from tests.planting import Bug, Seam, Text, does_nothing


def _answers_at_once(real: Any, log: TableLog, name: str, wanted: Any, done: Any) -> None:
    real(log, name, wanted, done)
    done(None)


BUGS = [
    Bug("a change is answered before it is confirmed", Seam(TableLog.propose, _answers_at_once), ("stories",)),
    Bug(
        "a change at the confirm offset's record counts as confirmed",
        Text(TableLog.confirm, ".end <= offset", ".end <= offset + 10"),
        ("stories",),
    ),
    Bug(
        "a change is confirmed with its first part",
        Text(TableLog.propose, "ends[-1]", "ends[0]"),
        ("stories",),
    ),
    Bug(
        "a new leader forgets what is not confirmed",
        Text(TableLog.lead, "self._pending.append", "len"),
        ("stories",),
    ),
    Bug(
        "a former leader goes on with parts that it took before",
        Text(TableLog.follow, "self._assembly = _Assembly()", "pass"),
        ("stories", "test_table_log.test_a_former_leader_begins_behind_its_tables"),
    ),
    Bug(
        "a leader plans with what is confirmed alone",
        Text(TableLog.planned, "for change in pending:", "for change in ():"),
        ("test_table_log.test_a_new_leader_plans_with_what_is_not_confirmed_yet",),
    ),
    Bug(
        "planning changes what is confirmed",
        Text(TableLog.planned, "table.copy()", "table"),
        ("stories",),
    ),
    Bug(
        "a former leader makes changes",
        Text(TableLog.follow, "self._is_leading = False", "pass"),
        ("stories", "test_table_log.test_a_leader_that_is_deposed_answers_that_it_does_not_know"),
    ),
    Bug(
        "a former leader makes what it had planned",
        Text(TableLog.follow, "self._give_up(", "self.confirm(1 << 60) or self._give_up("),
        ("stories",),
    ),
    Bug(
        "nobody is told of a change that its leader gave up",
        Text(TableLog._give_up, "each.done is not None", "False"),
        ("test_table_log.test_a_leader_that_is_deposed_answers_that_it_does_not_know",),
    ),
    Bug(
        "a change that was not written counts",
        Seam(TableLog.drop_unwritten, does_nothing),
        ("test_table_log.test_what_a_failed_commit_dropped_is_given_up",),
    ),
    Bug(
        "what is so already is answered before what it rests on",
        Text(TableLog._when_confirmed, "if self._pending:", "if False:"),
        ("test_table_log.test_what_is_so_already_is_answered_with_what_it_rests_on",),
    ),
    Bug(
        "tables are written whole as they were confirmed",
        Text(TableLog.write_whole, "self.planned(table.name)", "table.copy()"),
        ("stories",),
    ),
    Bug(
        "an old record is made again",
        Text(Tables.make, "if end > table.end:", "if True:"),
        ("test_table_log.test_a_table_that_was_saved_later_than_others_skips_what_it_has",),
    ),
    Bug(
        "the place in the log is forgotten",
        Text(Tables.make, "self.end = max(self.end, end)", "pass"),
        ("stories",),
    ),
    Bug(
        "a copy shares its entries",
        Text(Table.copy, "dict(entries)", "entries"),
        ("stories",),
    ),
    Bug(
        "a copy forgets up to where it goes",
        Text(Table.copy, "Table(self.name, self.end)", "Table(self.name)"),
        ("stories",),
    ),
    Bug(
        "what was removed stays",
        Text(Table.make, "self.entries[member].pop(key, None)", "pass"),
        ("stories",),
    ),
    Bug(
        "what is gone is not in the change",
        Text(Table.change_to, "change.removed[member] = gone", "pass"),
        ("stories",),
    ),
    Bug(
        "members without entries are left out of a change",
        Text(Table.change_to, "change.values[member] = value", "pass"),
        ("stories",),
    ),
    Bug(
        "a part is made without the others",
        Text(_Assembly.take, "if not part.is_last:", "if False:"),
        ("stories", "test_table_log.test_a_change_in_parts_is_made_whole_or_not_at_all"),
    ),
    Bug(
        "parts of a change that was not finished stay",
        Text(_Assembly.take, "self._parts, self._has_begun = [], True", "self._has_begun = True"),
        ("stories", "test_table_log.test_a_change_in_parts_is_made_whole_or_not_at_all"),
    ),
    Bug(
        "a part without the one before is taken",
        Text(_Assembly.take, "part.number != len(self._parts)", "not self._parts and False"),
        ("test_table_log.test_a_change_in_parts_is_made_whole_or_not_at_all",),
    ),
    Bug(
        "a snapshot's tables come on top of parts",
        Text(TableLog.replace, "self._assembly = _Assembly()", "pass"),
        ("test_table_log.test_a_snapshot_takes_the_place_of_everything",),
    ),
    Bug(
        "a record of another version is read",
        Text(table_records.decode_part, "found.version != VERSION", "False"),
        ("test_table_records.test_what_is_no_change_is_refused",),
    ),
    Bug(
        "an entry that is changed and removed is taken",
        Text(table_records._check, "not change.entries.get(member, {}).keys().isdisjoint(keys)", "False"),
        ("test_table_records.test_what_is_no_change_is_refused",),
    ),
]
