"""The store's figures: the extent of the log, the time of flushes, the result of the recovery."""

from __future__ import annotations

import pytest

from pymq.broker.metrics.storage import StorageMetrics
from pymq.store.lifecycle.recovery import RecoveryReport
from tests.broker.disk import Threads, failing
from tests.broker.metrics.readings import Table, table
from tests.broker.world import World

LOCAL = ("local", "disk")


@pytest.fixture
def world() -> World:
    return World()


def figures(world: World, report: RecoveryReport | None = None) -> Table:
    return table(StorageMetrics(world.parts, lambda: report))


def test_the_log_and_its_queues(world: World) -> None:
    for queue_id in (0, 0, 1):
        placed = world.put("orders", queue_id=queue_id)
    found, end = figures(world), world.parts.store.physical_max_offset
    assert found["pymq_store_log_end_bytes"] == {(): end}
    assert end == placed.physical_offset + placed.size_bytes
    assert found["pymq_store_log_start_bytes"] == {(): 0}
    assert (found["pymq_store_queues"], found["pymq_store_messages_total"]) == ({(): 2}, {(): 3})
    assert found["pymq_store_lite_topics"] == {(): 0}
    assert found["pymq_store_segments"] == {(): 1}
    assert found["pymq_store_writable"] == {(): 1}


def test_what_is_not_flushed_yet(world: World) -> None:
    threads = Threads.of(world)
    world.put("orders")
    end = world.parts.store.physical_max_offset
    assert figures(world)["rocketmq_storage_flush_behind_bytes"] == {LOCAL: end}
    world.parts.messages.flusher.tick()
    threads.run_one()
    found = figures(world)
    assert found["rocketmq_storage_flush_behind_bytes"] == {LOCAL: 0}
    assert found["pymq_store_log_synced_bytes"] == {(): end}
    assert found["rocketmq_storage_dispatch_behind_bytes"] == {LOCAL: 0}


def test_flushes_are_counted_by_their_time(world: World) -> None:
    sync = world.parts.store.sync

    def slow(*, log_only: bool = False) -> int:
        world.clock.advance(30)
        return sync(log_only=log_only)

    world.parts.store.sync = slow  # type: ignore[method-assign]
    world.parts.messages.flusher.request()
    found = figures(world)["pymq_store_flush_seconds"]
    assert (found["_bucket", "0.02"], found["_bucket", "0.05"], found[("_count",)]) == (0, 1, 1)
    assert found[("_sum",)] == 0.03


def test_a_flush_that_failed_is_counted_apart(world: World) -> None:
    world.put("orders")
    with failing(world, "sync", "commitlog"):
        world.parts.messages.flusher.tick()
    found = figures(world)
    assert found["pymq_store_flush_failures_total"] == {(): 1}
    assert found["pymq_store_flush_seconds"][("_count",)] == 0
    assert found["pymq_store_writable"] == {(): 0}
    assert found["pymq_store_problems"][()] >= 1


def test_the_age_of_the_oldest_message(world: World) -> None:
    assert "rocketmq_storage_message_reserve_time_milliseconds" not in figures(world)
    world.put("orders")
    world.clock.advance(5000)
    assert figures(world)["rocketmq_storage_message_reserve_time_milliseconds"] == {LOCAL: 5000}


def test_the_disk(world: World) -> None:
    found = figures(world)
    size, free = found["pymq_store_disk_bytes"][()], found["pymq_store_disk_free_bytes"][()]
    assert size >= free > 0
    assert found["rocketmq_storage_size_bytes"] == {LOCAL: size - free}


def test_what_the_start_found(world: World) -> None:
    assert "pymq_store_recovery_clean" not in figures(world)
    found = figures(world, RecoveryReport(clean=False, bytes_scanned=500, truncated_bytes=70, damaged=[(1, 2)]))
    names = ("clean", "read_bytes", "truncated_bytes", "damaged_places")
    assert [found[f"pymq_store_recovery_{name}"][()] for name in names] == [0, 500, 70, 1]
