"""TableSaver: an older state never replaces a newer one, and nothing is written when the step before it fails."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.broker.metadata.table_saver import TableSaver, ending_turns, run_inline
from pymq.broker.work.worker_threads import WorkOutcome
from pymq.errors import StoreUnavailableError


class Kept:
    """A table in memory."""

    def __init__(self) -> None:
        self.states: list[dict[str, Any]] = [{"n": 0}]

    def load(self) -> dict[str, Any]:
        return self.states[-1]

    def save(self, value: dict[str, Any]) -> None:
        self.states.append(value)


class Later:
    """Keeps work until it is run."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, Any]] = []

    def __call__(self, work: Any, done: Any) -> None:
        self.waiting.append((work, done))

    def run(self) -> None:
        work, done = self.waiting.pop(0)
        done(WorkOutcome(work))


def test_a_state_is_saved_when_a_thread_has_time() -> None:
    kept, later = Kept(), Later()
    errors: list[Exception | None] = []
    saver = TableSaver(kept, later)
    assert saver.load() == {"n": 0}
    saver.save_soon(lambda: {"n": 1}, errors.append)
    assert saver.is_busy and saver.load() == {"n": 0}
    later.run()
    assert not saver.is_busy and saver.load() == {"n": 1} and errors == [None]


def test_a_state_that_was_overtaken_is_dropped() -> None:
    kept, later = Kept(), Later()
    errors: list[Exception | None] = []
    saver = TableSaver(kept, later)
    saver.save_soon(lambda: {"n": 1}, errors.append)
    saver.save({"n": 2})
    later.run()
    assert kept.states == [{"n": 0}, {"n": 2}] and errors == [None]


def test_nothing_is_written_when_the_step_before_it_fails() -> None:
    def fail() -> None:
        raise StoreUnavailableError("the log is read-only")

    kept, later = Kept(), Later()
    errors: list[Exception | None] = []
    saver = TableSaver(kept, later, before=fail)
    saver.save_soon(lambda: {"n": 1}, errors.append)
    later.run()
    assert [str(error) for error in errors] == ["the log is read-only"] and not saver.is_busy
    with pytest.raises(StoreUnavailableError, match="read-only"):
        saver.save({"n": 2})
    assert kept.states == [{"n": 0}]


def test_an_error_other_than_of_the_disk_is_raised() -> None:
    kept, later = Kept(), Later()
    saver = TableSaver(kept, later)
    saver.save_soon(lambda: {"n": 1 // 0}, lambda error: None)
    with pytest.raises(ZeroDivisionError):
        later.run()


def test_a_turn_ends_after_the_callback_even_one_that_fails() -> None:
    told: list[str] = []
    run = ending_turns(run_inline, lambda: told.append("turn"))
    run(lambda: 1, lambda result: told.append(f"done {result.result()}"))
    assert told == ["done 1", "turn"]

    def fail(result: object) -> None:
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError):
        run(lambda: 1, fail)
    assert told == ["done 1", "turn", "turn"]
