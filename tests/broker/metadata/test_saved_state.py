"""SavedState: requested changes count once saved, immediate ones at once; one save at a time, never an older state."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pymq.broker.metadata.saved_state import SavedState, raise_failure
from pymq.broker.metadata.table_saver import TableSaver
from pymq.clock import ManualClock
from pymq.errors import StoreUnavailableError
from pymq.model.tables import DataVersion
from tests.broker.disk import Threads


class Disk:
    """Keeps every saved table; refuses while ``is_full``."""

    def __init__(self) -> None:
        self.tables: list[dict[str, Any]] = []
        self.is_full = False

    def load(self) -> dict[str, Any]:
        return self.tables[-1] if self.tables else {}

    def save(self, value: dict[str, Any]) -> None:
        if self.is_full:
            raise StoreUnavailableError("disk full")
        self.tables.append(value)


class Setup:
    """A state that is a dict of numbers, and the answers that its callers got."""

    def __init__(self) -> None:
        self.disk = Disk()
        self.threads = Threads()
        self.heard: list[str] = []
        self.state: SavedState[dict[str, int]] = self.opened()

    def opened(self) -> SavedState[dict[str, int]]:
        state: SavedState[dict[str, int]] = SavedState(
            {},
            TableSaver(self.disk, self.threads),
            clock=ManualClock(),
            copy=dict,
            to_table=lambda numbers, version: {"numbers": numbers, "dataVersion": msgspec.to_builtins(version)},
        )
        return state

    def put(self, name: str, number: int) -> None:
        self.state.change(
            lambda numbers: numbers.update({name: number}), lambda error: self.heard.append(f"{name}: {error}")
        )

    def put_at_once(self, name: str, number: int) -> None:
        self.state.change_at_once(lambda numbers: numbers.update({name: number}))

    def saved(self) -> list[dict[str, int]]:
        return [table["numbers"] for table in self.disk.tables]


def test_a_change_counts_once_it_is_saved() -> None:
    setup = Setup()
    setup.put("a", 1)
    assert setup.state.current == {} and setup.state.planned() == {"a": 1} and setup.heard == []
    assert setup.state.version.counter == 0
    setup.threads.run_one(between=lambda: setup.heard.append(f"on the disk: {setup.saved()}"))
    assert setup.heard == ["on the disk: [{'a': 1}]", "a: None"]
    assert setup.state.current == {"a": 1} and setup.state.version.counter == 1
    assert not setup.threads.waiting


def test_changes_that_come_during_a_save_share_the_next_one() -> None:
    setup = Setup()
    for name, number in (("a", 1), ("b", 2), ("a", 3)):
        setup.put(name, number)
    assert len(setup.threads.waiting) == 1
    setup.threads.run_one()
    assert setup.state.current == {"a": 1} and setup.heard == ["a: None"] and len(setup.threads.waiting) == 1
    setup.threads.run_one()
    assert setup.saved() == [{"a": 1}, {"a": 3, "b": 2}]
    assert setup.state.current == {"a": 3, "b": 2} and setup.heard == ["a: None", "b: None", "a: None"]
    assert not setup.threads.waiting


def test_a_failed_save_undoes_its_change_and_those_built_on_it() -> None:
    setup = Setup()
    setup.put("a", 1)
    setup.threads.run_one()
    setup.disk.is_full = True
    setup.put("a", 2)
    setup.put("b", 2)
    setup.threads.run_one()
    assert setup.heard == ["a: None", "a: disk full", "b: disk full"]
    assert setup.state.current == setup.state.planned() == {"a": 1} and setup.state.version.counter == 1
    setup.state.tick()
    assert not setup.threads.waiting
    setup.disk.is_full = False
    setup.put("b", 3)
    setup.threads.run_one()
    assert setup.saved() == [{"a": 1}, {"a": 1, "b": 3}] and setup.heard[-1] == "b: None"


def test_an_immediate_change_counts_at_once_and_is_saved_soon() -> None:
    setup = Setup()
    setup.put_at_once("a", 1)
    assert setup.state.current == {"a": 1} and setup.state.version.counter == 1
    setup.put_at_once("b", 2)
    assert len(setup.threads.waiting) == 1
    setup.threads.run_one()
    setup.threads.run_one()
    assert setup.saved() == [{"a": 1}, {"a": 1, "b": 2}] and not setup.threads.waiting
    assert setup.disk.tables[-1]["dataVersion"]["counter"] == setup.state.version.counter == 2


def test_an_immediate_change_during_a_save_is_in_the_next_one() -> None:
    setup = Setup()
    setup.put("a", 1)
    setup.put_at_once("b", 2)
    setup.threads.run_one()
    assert setup.state.current == {"a": 1, "b": 2} and setup.state.version.counter == 2
    setup.threads.run_one()
    assert setup.saved() == [{"a": 1}, {"a": 1, "b": 2}] and not setup.threads.waiting
    assert setup.disk.tables[-1]["dataVersion"]["counter"] == 2


def test_an_immediate_change_on_a_full_disk_is_saved_when_there_is_room(caplog: pytest.LogCaptureFixture) -> None:
    setup = Setup()
    setup.disk.is_full = True
    setup.put_at_once("a", 1)
    for _ in range(3):
        setup.threads.run_one()
        assert setup.state.current == {"a": 1} and not setup.threads.waiting
        setup.state.tick()
    assert [record.message for record in caplog.records] == ["disk full"]
    setup.disk.is_full = False
    setup.threads.run_one()
    setup.state.tick()
    assert setup.saved() == [{"a": 1}] and not setup.threads.waiting


def test_a_failed_save_keeps_immediate_changes() -> None:
    setup = Setup()
    setup.disk.is_full = True
    setup.put_at_once("a", 1)
    setup.put("b", 2)
    setup.threads.run_one()
    assert setup.state.current == {"a": 1} and setup.heard == ["b: disk full"]
    setup.disk.is_full = False
    setup.state.tick()
    setup.threads.run_one()
    assert setup.saved() == [{"a": 1}]


def test_a_change_without_effect_waits_for_unsaved_changes() -> None:
    setup = Setup()
    setup.state.when_saved(lambda error: setup.heard.append("nothing to wait for"))
    setup.put_at_once("a", 1)
    setup.state.when_saved(lambda error: setup.heard.append("saved"))
    assert setup.heard == ["nothing to wait for"]
    setup.threads.run_one()
    assert setup.heard == ["nothing to wait for", "saved"] and setup.saved() == [{"a": 1}]
    assert not setup.threads.waiting, "the save that was under way is enough"


def test_a_stop_saves_the_newest_state_and_nothing_older_follows() -> None:
    setup = Setup()
    setup.put_at_once("a", 1)
    setup.put("b", 2)
    setup.state.stop()
    setup.state.save()
    assert setup.saved() == [{"a": 1, "b": 2}]
    setup.threads.run_one()
    assert setup.saved() == [{"a": 1, "b": 2}] and setup.heard == [] and not setup.threads.waiting
    again = setup.opened()
    assert again.load()["numbers"] == {"a": 1, "b": 2} and again.version == setup.state.version


def test_a_stop_with_nothing_to_save_writes_nothing() -> None:
    setup = Setup()
    setup.put("a", 1)
    setup.threads.run_one()
    setup.state.stop()
    setup.state.save()
    assert len(setup.disk.tables) == 1


def test_an_invalid_version_counts_as_none() -> None:
    setup = Setup()
    setup.disk.tables.append({"dataVersion": {"counter": "x"}})
    setup.state.load()
    assert setup.state.version == DataVersion()


def test_a_failure_without_a_waiter_is_raised() -> None:
    raise_failure(None)
    with pytest.raises(StoreUnavailableError, match="full"):
        raise_failure(StoreUnavailableError("full"))


def test_another_broker_s_state_is_taken_over_with_its_version() -> None:
    setup = Setup()
    setup.put("a", 1)
    setup.threads.run_one()
    theirs = DataVersion(counter=40, timestamp=5)
    setup.state.take_over(lambda numbers: (numbers.clear(), numbers.update(b=2)), theirs)
    assert setup.state.current == {"b": 2} and setup.state.version == theirs
    setup.threads.run_one()
    assert setup.disk.tables[-1] == {"numbers": {"b": 2}, "dataVersion": msgspec.to_builtins(theirs)}
    setup.state.save()
    assert setup.state.version == theirs and len(setup.disk.tables) == 2


def test_a_state_taken_over_that_can_t_be_saved_keeps_its_version() -> None:
    setup = Setup()
    theirs = DataVersion(counter=40, timestamp=5)
    setup.disk.is_full = True
    setup.state.take_over(lambda numbers: numbers.update(b=2), theirs)
    setup.threads.run_one()
    setup.disk.is_full = False
    setup.state.save()
    assert setup.disk.tables[-1]["dataVersion"]["counter"] == 40 and setup.state.version == theirs


def test_a_state_is_copied_a_few_times_a_save_however_many_changes_come() -> None:
    copies: list[int] = []

    def copy(numbers: dict[str, int]) -> dict[str, int]:
        copies.append(len(numbers))
        return dict(numbers)

    threads = Threads()
    state: SavedState[dict[str, int]] = SavedState(
        {}, TableSaver(Disk(), threads), clock=ManualClock(), copy=copy, to_table=lambda numbers, version: {}
    )
    for i in range(1000):
        assert len(state.planned()) == i
        state.change(lambda numbers, i=i: numbers.update({f"n{i}": i}), raise_failure)
    assert len(copies) <= 2  # one to save, one to plan with
    threads.run_one()
    for i in range(1000):
        state.change_at_once(lambda numbers, i=i: numbers.update({f"m{i}": i}))
        assert len(state.planned()) == 1001 + i
    while threads.waiting:
        threads.run_one()
    assert len(copies) <= 6 and len(state.current) == 2000 and state.planned() is state.current


def test_what_is_planned_holds_changes_of_both_kinds_and_none_of_a_failed_save() -> None:
    setup = Setup()
    setup.put("saving", 1)
    setup.put("waiting", 2)
    assert setup.state.planned() == {"saving": 1, "waiting": 2} and setup.state.current == {}
    setup.put_at_once("at once", 3)
    assert setup.state.planned() == {"saving": 1, "waiting": 2, "at once": 3}
    assert setup.state.current == {"at once": 3}
    setup.disk.is_full = True
    setup.threads.run_one()
    assert setup.state.planned() == {"at once": 3}
