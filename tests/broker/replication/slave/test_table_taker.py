"""TableTaker: tables that refer to messages wait for the log, other tables don't; unusable ones are errors."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.replication.slave.table_taker import TableTaker, UnusableTableError
from pymq.broker.replication.tables.replicated_tables import ReplicatedTable, TableRead


class Setup:
    """Two tables, one of which waits for a log that ends at ``log_end``."""

    def __init__(self) -> None:
        self.log_end = 0
        self.taken: list[tuple[str, Any, bool]] = []
        self.taker = TableTaker(
            [self.row("plain", waits_for_log=False), self.row("late", waits_for_log=True)], lambda: self.log_end
        )

    def row(self, name: str, *, waits_for_log: bool) -> ReplicatedTable:
        def take(table: dict[str, Any], is_part: bool) -> None:
            self.taken.append((name, table["x"]["n"], is_part))

        return ReplicatedTable(name, "x", "s", tuple, lambda known: TableRead({}), take, waits_for_log)

    def late(self, number: int, log_end: int) -> None:
        self.taker.take("late", {"x": {"n": number}}, master_log_end=log_end)


def test_a_plain_table_is_taken_at_once() -> None:
    setup = Setup()
    setup.taker.take("plain", {"x": {"n": 1}}, is_part=True, master_log_end=10**9)
    assert setup.taken == [("plain", 1, True)]


def test_a_table_waits_for_its_log_to_the_byte() -> None:
    setup = Setup()
    setup.late(1, 100)
    setup.log_end = 99
    setup.taker.take_reached()
    assert setup.taken == []
    setup.log_end = 100
    setup.taker.take_reached()
    setup.taker.take_reached()
    assert setup.taken == [("late", 1, False)]


def test_one_that_is_reached_already_is_taken_at_once() -> None:
    setup = Setup()
    setup.log_end = 100
    setup.late(1, 100)
    assert setup.taken == [("late", 1, False)]


def test_the_oldest_table_is_taken_first_and_the_newest_follows() -> None:
    setup = Setup()
    for number in range(1, 50):
        setup.late(number, number * 100)
    setup.log_end = 100
    setup.taker.take_reached()
    assert setup.taken == [("late", 1, False)]
    setup.log_end = 4899
    setup.taker.take_reached()
    assert len(setup.taken) == 1, "those between are forgotten"
    setup.log_end = 4900
    setup.taker.take_reached()
    assert setup.taken[1:] == [("late", 49, False)]


def test_an_older_table_never_replaces_a_newer_one() -> None:
    setup = Setup()
    setup.late(1, 200)
    setup.late(2, 100)  # the master's log is shorter since
    setup.log_end = 100
    setup.taker.take_reached()
    setup.log_end = 200
    setup.taker.take_reached()
    assert setup.taken == [("late", 2, False)]


def test_a_table_that_waits_for_another_masters_log_is_dropped() -> None:
    setup = Setup()
    setup.late(1, 100)
    setup.taker.drop_held()
    setup.log_end = 100
    setup.taker.take_reached()
    assert setup.taken == []


@pytest.mark.parametrize("table", [None, [], {}, {"x": 1}, {"x": {}, "n": 1} | {"x": None}])
def test_an_invalid_table_is_refused(table: Any) -> None:
    setup = Setup()
    with pytest.raises(UnusableTableError, match="master's table plain has no object x"):
        setup.taker.take("plain", table)


def test_an_unreadable_table_is_refused() -> None:
    setup = Setup()

    def take(table: dict[str, Any], is_part: bool) -> None:
        int(table["x"]["n"])

    taker = TableTaker([ReplicatedTable("plain", "x", "s", tuple, lambda known: TableRead({}), take)], lambda: 0)
    with pytest.raises(UnusableTableError, match="master's table plain can't be read"):
        taker.take("plain", {"x": {"n": "many"}})
    setup.taker.take("unknown", None)
    assert setup.taken == []
