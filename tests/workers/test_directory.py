"""The data directory of a machine: its lock, brokers that still end, and what a new worker begins with."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.errors import StoreError, UsageError
from pymq.store.disk.fs import Lock
from pymq.store.disk.json_table import JsonTable
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.store.disk.workers_file import Layout, planned_layout
from pymq.workers import directory
from pymq.workers.directory import lock_machine, prepare_new_workers, wait_until_free

ROOT = "/data"


def test_two_machines_on_one_directory_are_refused() -> None:
    files = MemoryFiles()
    first = lock_machine(files, ROOT)
    with pytest.raises(UsageError, match="/data is in use by another process that runs its workers: stop that one"):
        lock_machine(files, ROOT)
    first.release()
    lock_machine(files, ROOT)


def hold(files: MemoryFiles, folder: str) -> Lock:
    """Do what a broker does that uses the directory."""
    files.open(f"{folder}/lock", create=True)
    return files.lock(f"{folder}/lock")


def test_a_worker_that_still_ends_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    files, shown = MemoryFiles(), list[str]()
    files.makedirs("/data/worker-0")
    held = hold(files, "/data/worker-0")

    def show(text: str) -> None:
        shown.append(text)
        held.release()

    monkeypatch.setattr(directory, "LOOK_S", 0.001)
    asyncio.run(wait_until_free(files, ["/data", "/data/worker-0"], show))
    assert shown == ["/data/worker-0 is in use: waiting up to 30 s for its broker to end"]
    files.lock("/data/worker-0/lock")


def test_a_broker_that_stays_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    files.makedirs(ROOT)
    hold(files, ROOT)
    monkeypatch.setattr(directory, "FREE_WITHIN_S", 0.01)
    monkeypatch.setattr(directory, "LOOK_S", 0.005)
    with pytest.raises(StoreError, match="/data is in use by another broker: stop it first"):
        asyncio.run(wait_until_free(files, [ROOT], lambda _: None))


def save(files: MemoryFiles, name: str, table: dict[str, Any], folder: str = ROOT) -> None:
    files.makedirs(f"{folder}/config")
    JsonTable(files, f"{folder}/config/{name}").save(table)


def load(files: MemoryFiles, name: str, number: int = 1) -> dict[str, Any]:
    return JsonTable(files, f"{ROOT}/worker-{number}/config/{name}").load()


def grown(count: int = 3) -> Layout:
    return planned_layout(None, "broker-a", count, is_store=True)


def test_new_workers_begin_with_the_topics_groups_and_users_of_worker_0() -> None:
    files = MemoryFiles()
    topics = {"orders": {"perm": 6}, "broker-a": {"perm": 7}, "TBW102": {"perm": 7}, "%RETRY%g": {"perm": 6}}
    save(files, "topics.json", {"topicConfigTable": topics, "dataVersion": {"counter": 3}})
    save(files, "subscriptionGroup.json", {"subscriptionGroupTable": {"g": {}}})
    save(files, "consumerOffset.json", {"offsetTable": {"orders@g": {"0": 7}}})
    assert [worker.number for worker in prepare_new_workers(files, ROOT, grown())] == [1, 2]
    for number in (1, 2):
        assert sorted(load(files, "topics.json", number)["topicConfigTable"]) == ["%RETRY%g", "orders"]
        assert load(files, "subscriptionGroup.json", number)["subscriptionGroupTable"] == {"g": {}}
        assert load(files, "consumerOffset.json", number) == {}, "its queues begin at 0"
    assert prepare_new_workers(files, ROOT, grown()) == []


def test_a_worker_that_comes_back_keeps_what_it_has() -> None:
    files = MemoryFiles()
    save(files, "topics.json", {"topicConfigTable": {"orders": {"perm": 6}}})
    save(files, "topics.json", {"topicConfigTable": {"old": {"perm": 6}}}, f"{ROOT}/worker-1")
    assert [worker.number for worker in prepare_new_workers(files, ROOT, grown())] == [2]
    assert list(load(files, "topics.json")["topicConfigTable"]) == ["old"]


def test_a_half_copied_directory_is_made_again() -> None:
    files = MemoryFiles()
    save(files, "topics.json", {"topicConfigTable": {"orders": {"perm": 6}}})
    files.makedirs(f"{ROOT}/worker-1/config.new")
    files.open(f"{ROOT}/worker-1/config.new/auth.json", create=True).pwrite(0, b"{")
    prepare_new_workers(files, ROOT, grown(2))
    assert list(load(files, "topics.json")["topicConfigTable"]) == ["orders"]
    assert files.listdir(f"{ROOT}/worker-1") == ["config"]


def test_a_new_machine_copies_nothing() -> None:
    files = MemoryFiles()
    files.makedirs(ROOT)
    assert prepare_new_workers(files, ROOT, planned_layout(None, "m", 4)) == []
