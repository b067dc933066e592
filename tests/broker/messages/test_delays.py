"""DelayService: never early, never twice, in order, across restarts, clock jumps and failing disks."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pymq.broker.metadata.table_saver import run_inline
from pymq.model.draft import Draft
from pymq.model.tables import TopicConfig
from tests.broker.disk import Threads, failing
from tests.broker.world import World


def world_with_topic(**keys: Any) -> World:
    world = World(**keys)
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4)])
    return world


def bodies(world: World, queue_id: int = 0) -> list[bytes]:
    return [message.body for message in world.messages("T", queue_id)]


def test_delivered_when_due_and_not_before() -> None:
    world = world_with_topic()
    world.put("T", b"m", queue_id=3, DELAY="1", TAGS="A", KEYS="k")
    due_ms = world.parts.messages.delays.next_due_ms()
    assert due_ms == world.clock.now_ms() + 1000
    world.clock.advance(999)
    assert not world.parts.messages.delays.tick()
    assert bodies(world, 3) == []
    world.clock.advance(1)
    assert world.parts.messages.delays.tick()
    (message,) = world.messages("T", 3)
    assert message.body == b"m" and message.tags == "A" and message.properties["REAL_TOPIC"] == "T"
    assert message.store_timestamp_ms == world.clock.now_ms()
    world.clock.advance(60_000)
    assert not world.parts.messages.delays.tick()
    assert world.parts.messages.delays.next_due_ms() is None
    assert len(world.messages("T", 3)) == 1


def test_levels_do_not_wait_for_each_other() -> None:
    world = world_with_topic()
    world.put("T", b"slow", DELAY="2")
    world.put("T", b"fast", DELAY="1")
    world.put("T", b"clamped", DELAY="99")
    world.clock.advance(1000)
    world.parts.messages.delays.tick()
    assert bodies(world) == [b"fast"]
    world.clock.advance(4000)
    world.parts.messages.delays.tick()
    assert bodies(world) == [b"fast", b"slow"]
    world.clock.advance(7_200_000)
    world.parts.messages.delays.tick()
    assert bodies(world)[-1] == b"clamped"


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3000)), max_size=25))
def test_each_message_comes_once_in_its_level_s_order_and_never_early(plan: list[tuple[int, int]]) -> None:
    world = world_with_topic()
    due: dict[bytes, int] = {}
    for number, (level, pause_ms) in enumerate(plan):
        body = b"%d-%d" % (level, number)
        due[body] = world.clock.now_ms() + world.config.delay_level_ms[level]
        world.put("T", body, DELAY=str(level))
        world.clock.advance(pause_ms)
        world.parts.messages.delays.tick()
    for _ in range(100):
        world.clock.advance(200)
        world.parts.messages.delays.tick()
    found = world.messages("T")
    assert sorted(message.body for message in found) == sorted(due)
    assert all(message.store_timestamp_ms >= due[message.body] for message in found)
    for level in (1, 2, 3):
        numbers = [int(m.body.split(b"-")[1]) for m in found if m.body.startswith(b"%d-" % level)]
        assert numbers == sorted(numbers)


def test_a_burst_is_delivered_in_more_than_one_tick() -> None:
    world = world_with_topic()
    for i in range(700):
        world.put("T", b"%d" % i, DELAY="1")
    world.clock.advance(1000)
    assert world.parts.messages.delays.tick()
    assert world.parts.store.max_offset("T", 0) == 512
    assert world.parts.messages.delays.tick() and not world.parts.messages.delays.tick()
    assert world.parts.store.max_offset("T", 0) == 700


def test_progress_survives_a_clean_restart() -> None:
    world = world_with_topic()
    world.put("T", b"1", DELAY="1")
    world.put("T", b"2", DELAY="2")
    world.clock.advance(1000)
    world.parts.messages.delays.tick()
    again = world.reopened()
    assert again.parts.messages.delays.as_table()["offsetTable"] == {"1": 1, "2": 0}
    again.clock.advance(4000)
    again.parts.messages.delays.tick()
    again.clock.advance(100_000)
    again.parts.messages.delays.tick()
    assert bodies(again) == [b"1", b"2"]


def test_progress_is_saved_by_interval() -> None:
    world = world_with_topic()
    world.put("T", b"1", DELAY="1")
    world.clock.advance(10_000)
    world.run_in_thread = run_inline
    world.parts.messages.delays.tick()
    assert world.files.exists("/data/config/delayOffset.json")
    assert world.parts.store.synced_offset == world.parts.store.physical_max_offset, "what was delivered comes first"
    # Not closed: the next start is after a crash.
    version = world.parts.messages.delays.data_version
    world.parts.messages.delays.save()
    assert world.parts.messages.delays.data_version == version


def test_delivered_messages_survive_a_power_loss() -> None:
    """Progress is saved only after the log's sync: otherwise a power loss takes the copy after the original is done."""
    world = world_with_topic()
    world.put("T", b"1", DELAY="1")
    world.parts.store.sync()
    world.clock.advance(10_000)
    threads = Threads.of(world)
    world.run_in_thread = threads
    world.parts.messages.delays.tick()
    assert bodies(world) == [b"1"]
    while threads.waiting:
        threads.run_one()
    lost = world.files.after_power_loss(lambda path, page: False, lambda path: False)
    again = World(lost, world.clock)
    again.parts.messages.delays.tick()
    assert bodies(again) == [b"1"]


def test_progress_is_not_saved_when_the_disk_refuses_the_log() -> None:
    world = world_with_topic()
    world.run_in_thread = run_inline
    world.put("T", b"1", DELAY="1")
    world.parts.store.sync()
    world.clock.advance(10_000)
    with failing(world, "sync", "/commitlog/", errno.EIO):
        world.parts.messages.delays.tick()
    assert not world.files.exists("/data/config/delayOffset.json")


def test_a_clock_set_back_delays_no_message_longer_than_its_level() -> None:
    world = world_with_topic()
    world.put("T", b"m", DELAY="1")
    world.clock.set_wall(world.clock.now_ms() - 3_600_000)
    assert world.parts.messages.delays.tick()
    assert bodies(world) == [b"m"]


def test_a_full_disk_neither_loses_nor_doubles() -> None:
    world = world_with_topic()
    world.put("T", b"m", DELAY="1")
    world.clock.advance(1000)

    def full(call: str, path: str) -> None:
        if call.startswith("pwrite") and "commitlog" in path:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    world.files.fault = full
    assert not world.parts.messages.delays.tick()
    assert not world.parts.messages.delays.tick()
    world.files.fault = None
    assert bodies(world) == []
    assert world.parts.messages.delays.tick()
    assert bodies(world) == [b"m"]


def test_a_message_whose_topic_is_gone_is_dropped_and_counted() -> None:
    world = world_with_topic()
    world.put("T", b"m", DELAY="1")
    world.parts.metadata.topics.delete("T")
    world.clock.advance(1000)
    world.parts.messages.delays.tick()
    assert world.parts.messages.delays.dropped_count == 1 and world.parts.messages.delays.next_due_ms() is None


def test_a_queue_lost_to_shrinking_is_replaced() -> None:
    world = world_with_topic()
    world.put("T", b"m", queue_id=3, DELAY="1")
    world.parts.metadata.topics.put([TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)])
    world.clock.advance(1000)
    world.parts.messages.delays.tick()
    assert bodies(world, 1) == [b"m"]


def test_messages_of_the_same_commit_as_a_delivery_are_not_forgotten() -> None:
    world = world_with_topic()
    world.put("T", b"1", DELAY="1")
    world.clock.advance(1000)
    writer = world.parts.messages.writer
    writer.put("T", 0, Draft(b"2", b"DELAY\x011\x02", 1, bytes(8)))
    world.parts.messages.delays.tick()
    world.clock.advance(1000)
    world.parts.messages.delays.tick()
    assert bodies(world) == [b"1", b"2"]


def test_an_unreadable_disk_neither_loses_nor_doubles(caplog: pytest.LogCaptureFixture) -> None:
    world = world_with_topic(mappedFileSizeCommitLog="65536")
    for i in range(40):
        world.put("T", b"%d" % i + bytes(3000), DELAY="1")
    world.clock.advance(5000)
    with failing(world, "pread", f"{0:020d}", errno.EIO):
        for _ in range(3):
            world.parts.messages.delays.tick()
        assert world.messages("T") == []
    assert caplog.text.count("can't be delivered now") == 1
    world.parts.messages.delays.tick()
    world.parts.messages.delays.tick()
    assert [int(message.body.rstrip(b"\0")) for message in world.messages("T")] == list(range(32))
    assert world.parts.store.max_offset("T", 0) == 40
