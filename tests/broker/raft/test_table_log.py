"""TableLog: changes are made in the order of the log, and answered once they are confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pymq.broker.raft import table_records
from pymq.broker.raft.table_log import TableLog, TableRecord
from pymq.broker.raft.table_records import TableChange, TableRecordError, encode_change
from pymq.broker.raft.tables import Table, Tables
from pymq.errors import StoreUnavailableError
from tests.broker.raft.table_story import play

_TOPICS, _USERS = "topics.json", "auth.json"
SEEDS = 15


class _Log:
    """A leader's log; every record takes 10 bytes."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.refuses = False
        self.answers: list[str | None] = []
        self.tables = TableLog(Tables(), self.write)

    def write(self, bodies: Sequence[bytes]) -> list[int]:
        if self.refuses:
            raise StoreUnavailableError("the disk is full")
        self.bodies += bodies
        return [(len(self.bodies) - len(bodies) + at + 1) * 10 for at in range(len(bodies))]

    def propose(self, name: str = _TOPICS, **topics: Any) -> None:
        wanted = {"users": topics} if name == _USERS else {"topicConfigTable": topics}
        self.tables.propose(name, wanted, lambda error: self.answers.append(None if error is None else str(error)))

    def records(self) -> list[TableRecord]:
        return [TableRecord((at + 1) * 10, body) for at, body in enumerate(self.bodies)]

    def topics(self) -> dict[str, Any] | None:
        table = self.tables.tables.get(_TOPICS)
        return None if table is None else table.as_object()["topicConfigTable"]


def _leader() -> _Log:
    log = _Log()
    log.tables.lead([])
    return log


def test_a_change_is_made_and_answered_once_it_is_confirmed() -> None:
    log = _leader()
    log.propose(A=1)
    log.propose(A=1, B=2)
    assert (log.tables.confirm(9), log.topics(), log.answers) == ([], None, [])
    assert (log.tables.confirm(10), log.topics(), log.answers) == ([_TOPICS], {"A": 1}, [None])
    assert (log.tables.confirm(25), log.topics(), log.answers) == ([_TOPICS], {"A": 1, "B": 2}, [None, None])


def test_what_is_so_already_is_answered_with_what_it_rests_on() -> None:
    log = _leader()
    log.propose()
    assert log.answers == [None]
    log.propose(A=1)
    log.propose(A=1)
    assert (len(log.bodies), log.answers) == (1, [None])
    log.tables.confirm(10)
    assert log.answers == [None, None, None]


def test_a_broker_that_does_not_lead_makes_no_change() -> None:
    log = _Log()
    log.propose(A=1)
    assert "leads its group no more" in str(log.answers[0])
    assert log.bodies == []


def test_a_leader_that_is_deposed_answers_that_it_does_not_know() -> None:
    log = _leader()
    log.propose(A=1)
    log.tables.follow()
    assert "was not confirmed: read the table" in str(log.answers[0])
    assert log.topics() is None
    for record in log.records():  # the next leader had it
        log.tables.take(record)
    assert log.topics() == {"A": 1}


def test_a_new_leader_plans_with_what_is_not_confirmed_yet() -> None:
    old = _leader()
    old.propose(A=1)
    new = _Log()
    new.bodies = list(old.bodies)
    new.tables.lead(new.records())
    planned = new.tables.planned(_TOPICS)
    assert planned is not None and planned.as_object()["topicConfigTable"] == {"A": 1}
    assert new.topics() is None
    new.propose(A=1, B=2)
    new.tables.confirm(20)
    assert (new.topics(), new.answers) == ({"A": 1, "B": 2}, [None])


def test_a_refused_write_changes_nothing() -> None:
    log = _leader()
    log.refuses = True
    log.propose(A=1)
    log.propose(A="x" * table_records.ENTRY_BYTES_MAX)
    assert ["the disk is full" in str(log.answers[0]), "the limit is" in str(log.answers[1])] == [True, True]
    assert log.tables.planned(_TOPICS) is None


def test_what_a_failed_commit_dropped_is_given_up() -> None:
    log = _leader()
    log.propose(A=1)
    log.propose(A=1, B=2)
    log.tables.drop_unwritten(10, "the commit failed")
    assert log.answers == ["the commit failed"]
    log.tables.confirm(30)
    assert (log.topics(), log.answers) == ({"A": 1}, ["the commit failed", None])


def test_a_change_in_parts_is_made_whole_or_not_at_all() -> None:
    whole, other = _in_parts(A=b"1", B=b"2"), _in_parts(C=b"3")
    log = _Log()
    for end, body in enumerate([whole[0], *other, *whole], 1):
        log.tables.take(TableRecord(end, body))
    assert log.topics() == {"C": 3, "A": 1, "B": 2}
    assert log.tables.tables.end == 4
    first = _Log()
    first.tables.take(TableRecord(1, whole[0]))
    assert (first.topics(), first.tables.tables.end) == (None, 0)
    with pytest.raises(TableRecordError, match="without the part before"):
        _Log().tables.take(TableRecord(1, whole[1]))


def test_a_table_that_was_saved_later_than_others_skips_what_it_has() -> None:
    tables, newer = Tables(5), Table(_TOPICS, 20)
    newer.make(TableChange(_TOPICS, removed={"topicConfigTable": ["A"]}))
    tables.put(newer)
    for end in (10, 20, 30):
        tables.make(TableChange(_TOPICS, {"topicConfigTable": {f"A{end}": b"1"}}), end)
    assert (list(newer.entries["topicConfigTable"]), newer.end, tables.end) == (["A30"], 30, 30)


def _in_parts(**topics: bytes) -> list[bytes]:
    """Return a change with one entry in each part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_records, "PART_BYTES_MAX", 1)
        return encode_change(TableChange(_TOPICS, {"topicConfigTable": topics}))


def test_a_change_that_the_log_s_begin_cuts_is_left_out() -> None:
    log = _Log()
    log.bodies = [*_in_parts(A=b"1", B=b"2", C=b"3"), *_in_parts(D=b"4")]
    for begin in (1, len(log.bodies) - 2):
        for leads in (False, True):
            replica = _Log()
            replica.tables.is_log_cut = True
            if leads:
                replica.tables.lead(log.records()[begin:])
                replica.tables.confirm(log.records()[-1].end)
            else:
                for record in log.records()[begin:]:
                    replica.tables.take(record)
            assert replica.topics() == {"D": 4}


def test_a_former_leader_begins_behind_its_tables() -> None:
    log = _Log()
    log.bodies = _in_parts(A=b"1", B=b"2")
    log.tables.take(log.records()[0])
    log.tables.lead(log.records())
    log.tables.follow()
    with pytest.raises(TableRecordError, match="without the part before"):
        log.tables.take(log.records()[1])
    for record in log.records():
        log.tables.take(record)
    assert log.topics() == {"A": 1, "B": 2}


def test_tables_may_begin_within_a_change_that_was_never_finished() -> None:
    torn, whole = _in_parts(A=b"1", B=b"2", C=b"3")[:2], _in_parts(D=b"4", E=b"5")
    log = _Log()
    log.tables.tables.pass_over(1)
    for end, body in enumerate([*torn, *whole], 1):
        log.tables.take(TableRecord(end, body))
    assert log.topics() == {"D": 4, "E": 5}


def test_a_snapshot_takes_the_place_of_everything() -> None:
    log, parts = _Log(), _in_parts(A=b"1", B=b"2")
    log.tables.take(TableRecord(1, parts[0]))
    log.tables.replace(Tables(50))
    assert log.tables.take(TableRecord(50, b"not read")) is None
    with pytest.raises(TableRecordError, match="without the part before"):
        log.tables.take(TableRecord(60, parts[1]))


def test_records_that_the_tables_include_are_left_out() -> None:
    log = _Log()
    leader = _leader()
    leader.propose(A=1)
    leader.propose(B=2)
    for record in [*leader.records(), *leader.records()]:
        log.tables.take(record)
    assert log.topics() == {"B": 2}


def test_replicas_agree_and_no_answered_change_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """``python -m tests.broker.raft.table_story 1 10000`` plays as many as one likes."""
    monkeypatch.setattr(table_records, "PART_BYTES_MAX", 160)
    worlds = [play(seed) for seed in range(1, SEEDS + 1)]
    assert sum(len(world.answered) for world in worlds) > 5 * SEEDS
    assert sum(world.refused_count for world in worlds) > SEEDS
    assert sum(b'"part":1' in entry.body for world in worlds for entry in world.confirmed) > SEEDS
