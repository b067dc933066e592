from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pymq.broker.work import bulk_work
from pymq.broker.work.bulk_work import LOADED_AFTER_BYTES, BulkWork
from pymq.broker.work.worker_threads import WorkOutcome


class FakeStore:
    """The store as BulkWork reads and notifies it."""

    def __init__(self) -> None:
        self.physical_max_offset = 100
        self.told: list[bool] = []
        self.is_bulk_wanted = False

    def set_bulk_ready(self, ready: bool) -> None:
        self.told.append(ready)


class Thread:
    """Runs what it was given when the test says so."""

    def __init__(self) -> None:
        self.given: list[tuple[Callable[[], int], Callable[[WorkOutcome], None]]] = []

    def __call__(self, work: Callable[[], int], done: Callable[[WorkOutcome], None]) -> None:
        self.given.append((work, done))

    def run(self) -> None:
        ((work, done),) = self.given
        done(WorkOutcome(work))


@pytest.fixture
def thread() -> Thread:
    return Thread()


@pytest.fixture
def work(thread: Thread) -> Any:
    return BulkWork(thread)


def test_an_idle_broker_loads_nothing(work: Any, thread: Thread) -> None:
    store = FakeStore()
    work.prepare(store, is_awaited=False)
    work.tick()
    assert store.told == [False] and not thread.given


def test_a_look_up_that_takes_long_makes_bulk_ways_ready(work: Any, thread: Thread) -> None:
    store = FakeStore()
    work.prepare(store, is_awaited=False)
    store.is_bulk_wanted = True
    work.tick()
    thread.run()
    assert store.told == [False, True]


def test_more_than_a_few_messages_make_bulk_ways_ready(work: Any, thread: Thread) -> None:
    store = FakeStore()
    work.prepare(store, is_awaited=False)
    store.physical_max_offset += LOADED_AFTER_BYTES - 1
    work.tick()
    assert not thread.given
    store.physical_max_offset += 1
    work.tick()
    work.tick()
    assert store.told == [False]
    thread.run()
    assert store.told == [False, True]


def test_bulk_ways_are_loaded_at_once_where_they_are_awaited(work: Any, thread: Thread) -> None:
    store = FakeStore()
    work.prepare(store, is_awaited=True)
    thread.run()
    assert store.told == [False, True]


def test_a_store_opened_during_or_after_the_load_gets_bulk_ways(work: Any, thread: Thread) -> None:
    stores = [FakeStore(), FakeStore(), FakeStore()]
    work.prepare(stores[0], is_awaited=True)
    work.prepare(stores[1], is_awaited=True)
    thread.run()
    work.prepare(stores[2], is_awaited=True)
    assert [store.told for store in stores] == [[False], [False, True], [True]]


def test_without_numpy_the_plain_path_is_used(
    work: Any, thread: Thread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bulk_work, "BULK_MODULES", ("there_is_no_such_module",))
    store = FakeStore()
    work.prepare(store, is_awaited=True)
    thread.run()
    work.prepare(store, is_awaited=True)
    assert store.told == [False, False]
    assert "there_is_no_such_module" in caplog.text


def test_only_the_load_itself_takes_objects_out_of_the_search_for_cycles(
    thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process may have many brokers: what the former ones have ended with must not stay."""
    freezes = list[int]()
    monkeypatch.setattr(gc, "freeze", lambda: freezes.append(1))
    module = "tests.broker.upkeep.loaded_by_a_test"
    monkeypatch.setattr(bulk_work, "BULK_MODULES", (module,))
    monkeypatch.setattr(importlib, "import_module", lambda name: monkeypatch.setitem(sys.modules, name, sys))
    for _ in range(3):
        BulkWork(thread).prepare(FakeStore(), is_awaited=True)  # type: ignore[arg-type]
        thread.run()
        thread.given.clear()
    assert freezes == [1]
