"""Flusher: one sync at a time, another one behind it when asked, none when all is on the disk, failures survived."""

from __future__ import annotations

import errno

import pytest

from pymq.model.tables import TopicConfig
from tests.broker.disk import Threads, failing
from tests.broker.world import World


@pytest.fixture
def world() -> World:
    world = World()
    world.parts.topics.put([TopicConfig(topic_name="T")])
    return world


def test_a_tick_syncs_what_is_new_and_nothing_twice(world: World) -> None:
    threads = Threads.of(world)
    flusher = world.parts.flusher
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
    flusher = world.parts.flusher
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
    world.parts.flusher.tick()
    threads.run_one(between=lambda: world.put("T") and None)
    assert world.parts.store.synced_offset < world.parts.store.physical_max_offset
    world.parts.flusher.tick()
    threads.run_one()
    assert world.parts.store.synced_offset == world.parts.store.physical_max_offset


def test_a_synced_message_survives_a_power_loss(world: World) -> None:
    threads = Threads.of(world)
    world.put("T", b"safe")
    world.parts.flusher.tick()
    threads.run_one()
    world.put("T", b"not yet")
    lost = world.files.after_power_loss(lambda path, page: False, lambda path: False)
    again = World(lost, world.clock)
    assert [message.body for message in again.messages("T")] == [b"safe"]


def test_a_failed_sync_is_logged_and_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    threads = Threads.of(world)
    world.put("T", b"served")
    world.parts.flusher.tick()
    with failing(world, "sync", "/commitlog/", errno.EIO):
        threads.run_one()
    assert "flush failed" in caplog.text and "errno 5" in caplog.text
    assert threads.after_count == 1 and world.parts.store.problems
    assert [message.body for message in world.messages("T")] == [b"served"]
