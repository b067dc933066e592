"""Flusher: one sync at a time, another one after it on request, none when all is on the disk; failures."""

from __future__ import annotations

import errno

import pytest

from pymq.broker.upkeep.flusher import PAGE_SIZE_BYTES
from pymq.model.tables import TopicConfig
from tests.broker.disk import Threads, failing
from tests.broker.world import World


@pytest.fixture
def world() -> World:
    world = World()
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    return world


def test_a_tick_syncs_what_is_new_and_nothing_twice(world: World) -> None:
    threads = Threads.of(world)
    flusher = world.parts.messages.flusher
    flusher.tick()
    assert threads.waiting == []
    world.put("T")
    flusher.tick()
    flusher.tick()
    assert len(threads.waiting) == 1
    threads.run_one()
    assert world.parts.store.synced_offset == world.parts.store.physical_max_offset > 0
    flusher.tick()
    assert threads.waiting == [] and flusher.sync_count == threads.after_count == 1


def test_a_request_during_a_sync_brings_one_more(world: World) -> None:
    threads = Threads.of(world)
    flusher = world.parts.messages.flusher
    for _ in range(3):
        flusher.request()
    assert len(threads.waiting) == 1
    threads.run_one()
    assert len(threads.waiting) == 1
    threads.run_one()
    assert threads.waiting == [] and flusher.sync_count == 2


def test_what_a_sync_left_out_is_synced_by_the_next(world: World) -> None:
    threads = Threads.of(world)
    world.put("T")
    world.parts.messages.flusher.tick()
    threads.run_one(between=lambda: world.put("T") and None)
    assert world.parts.store.synced_offset < world.parts.store.physical_max_offset
    world.parts.messages.flusher.tick()
    threads.run_one()
    assert world.parts.store.synced_offset == world.parts.store.physical_max_offset


def test_a_synced_message_survives_a_power_loss(world: World) -> None:
    threads = Threads.of(world)
    world.put("T", b"safe")
    world.parts.messages.flusher.tick()
    threads.run_one()
    world.put("T", b"not yet")
    lost = world.files.after_power_loss(lambda path, page: False, lambda path: False)
    again = World(lost, world.clock)
    assert [message.body for message in again.messages("T")] == [b"safe"]


def test_a_failed_sync_is_logged_and_reported(world: World, caplog: pytest.LogCaptureFixture) -> None:
    threads = Threads.of(world)
    world.put("T", b"served")
    world.parts.messages.flusher.tick()
    with failing(world, "sync", "/commitlog/", errno.EIO):
        threads.run_one()
    assert "flush failed" in caplog.text and "errno 5" in caplog.text
    assert threads.after_count == 1 and world.parts.store.problems
    assert [message.body for message in world.messages("T")] == [b"served"]


# -- RocketMQ's intervals ----------------------------------------------------------------------------------------


def test_few_pages_wait_for_the_thorough_interval() -> None:
    world = World(flushCommitLogLeastPages=4, flushCommitLogThoroughInterval=10_000)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    threads, flusher = Threads.of(world), world.parts.messages.flusher
    world.clock.advance(10_000)

    def ticks_after(body_size_bytes: int) -> bool:
        world.put("T", b"x" * body_size_bytes)
        flusher.tick()
        is_flushed = bool(threads.waiting)
        while threads.waiting:
            threads.run_one()
        return is_flushed

    assert ticks_after(1), "the first one begins an interval"
    begin = world.parts.store.physical_max_offset
    assert not ticks_after(1)
    assert not ticks_after(4 * PAGE_SIZE_BYTES - 1 - begin % PAGE_SIZE_BYTES - 400)
    assert world.parts.store.physical_max_offset // PAGE_SIZE_BYTES == begin // PAGE_SIZE_BYTES + 3
    assert ticks_after(PAGE_SIZE_BYTES), "the fourth page"
    world.clock.advance(9_999)
    assert not ticks_after(1)
    world.clock.advance(1)
    assert ticks_after(1)


def test_without_a_least_number_of_pages_each_interval_flushes(world: World) -> None:
    threads = Threads.of(world)
    for _ in range(3):
        world.put("T")
        world.parts.messages.flusher.tick()
        threads.run_one()
        assert world.parts.store.synced_offset == world.parts.store.physical_max_offset


# -- the checkpoint ----------------------------------------------------------------------------------------------


def test_answers_do_not_wait_for_a_checkpoint() -> None:
    world = World(flushDiskType="SYNC_FLUSH")
    world.parts.metadata.topics.put([TopicConfig(topic_name="T")])
    threads, flusher = Threads.of(world), world.parts.messages.flusher
    world.clock.advance(world.parts.store.settings.checkpoint_interval_ms)
    world.put("T", b"1")
    flusher.tick()
    sync_of_log, checkpoint = threads.waiting
    threads.waiting = [sync_of_log]
    threads.run_one()
    assert [message.body for message in world.messages("T")] == [b"1"]
    world.put("T", b"2")
    flusher.tick()
    while threads.waiting:
        threads.run_one()
    assert [message.body for message in world.messages("T")] == [b"1", b"2"]
    before = world.files.nodes["/data/checkpoint"].synced
    threads.waiting = [checkpoint]
    threads.run_one()
    assert world.files.nodes["/data/checkpoint"].synced != before
    world.put("T", b"3")
    flusher.tick()
    assert len(threads.waiting) == 1, "the next checkpoint is not due"


def test_a_checkpoint_that_fails_makes_the_store_read_only(world: World, caplog: pytest.LogCaptureFixture) -> None:
    threads = Threads.of(world)
    world.clock.advance(world.parts.store.settings.checkpoint_interval_ms)
    world.put("T")
    world.parts.store.tick()
    world.parts.messages.flusher.tick()
    with failing(world, "sync", "/consumequeue/", errno.EIO):
        while threads.waiting:
            threads.run_one()
    assert "flush failed" in caplog.text and not world.parts.store.is_writable


def test_a_sync_that_ends_after_the_stop_is_not_reported(world: World) -> None:
    world.config.change_at_runtime({"flushDiskType": "SYNC_FLUSH"})
    threads = Threads.of(world)
    world.put("T", b"1")
    world.parts.messages.flusher.stop()
    threads.run_one()
    assert world.messages("T") == [], "the thread that closes the store shows it"
    world.parts.close()
    assert [message.body for message in World(world.files, world.clock).messages("T")] == [b"1"]


def test_no_sync_begins_after_the_stop(world: World) -> None:
    threads = Threads.of(world)
    flusher = world.parts.messages.flusher
    flusher.request()
    flusher.request()
    flusher.stop()
    threads.run_one()
    flusher.request()
    assert threads.waiting == []
