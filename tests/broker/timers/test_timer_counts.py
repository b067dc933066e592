"""How many timer messages wait by topic: right after a kill, a power loss, a stop, a promotion, and in between."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pymq.broker.timers import timer_counts
from pymq.model.tables import TopicConfig
from pymq.store.disk.memory_fs import MemoryFiles
from pymq.wire.codes import RequestCode
from tests.broker.timers.test_timer_service import run, send, settle, world_with_topic
from tests.broker.world import Caller, World

COUNT = 40


def after_power_loss(files: MemoryFiles) -> MemoryFiles:
    return files.after_power_loss(lambda *_: False, lambda *_: True)


def waiting(world: World) -> dict[str, int]:
    """Return what a client is told."""
    reply = Caller(world).ask(RequestCode.GET_TIMER_METRICS)
    assert reply is not None
    return {topic: one["count"] for topic, one in json.loads(reply.body)["timingCount"].items()}


def wait_saved(world: World, until: Callable[[World], bool]) -> None:
    while not until(world):
        run(world, world.clock.now_ms() + 100, 100)


def nothing_saved(world: World) -> bool:
    return True


def wheel_saved(world: World) -> bool:
    """The wheel and its progress are on the disk, the counts are not."""
    return world.files.exists("/data/config/timercheck")


def delivered_count(world: World) -> int:
    return sum(world.parts.store.max_offset("T", queue_id) for queue_id in range(4))


@pytest.mark.parametrize("crash", [MemoryFiles.after_kill, after_power_loss])
@pytest.mark.parametrize("when", [nothing_saved, wheel_saved])
def test_a_crash_changes_no_count(when: Callable[[World], bool], crash: Callable[[MemoryFiles], MemoryFiles]) -> None:
    world = world_with_topic()
    for number in range(COUNT):
        send(world, b"%d" % number, TIMER_DELAY_MS="60000")
    settle(world)
    wait_saved(world, when)
    world.parts.store.checkpoint()
    for _ in range(2):
        assert waiting(world) == {"T": COUNT}
        world = World(crash(world.files), world.clock)
        settle(world)
    assert waiting(world) == {"T": COUNT}
    run(world, world.clock.now_ms() + 62_000, 500)
    assert delivered_count(world) == COUNT
    assert waiting(world) == {}


def test_saved_counts_of_what_is_in_the_wheel_again_count_once() -> None:
    """The counts were saved, and the wheel's progress was not: its records are read again."""
    world = world_with_topic()
    for number in range(COUNT):
        send(world, b"%d" % number, TIMER_DELAY_MS="60000")
    settle(world)
    world.parts.messages.timers.counts.save()
    world = World(world.files.after_kill(), world.clock)
    settle(world)
    assert waiting(world) == {"T": COUNT}


def test_messages_that_were_delivered_in_part_count_no_more() -> None:
    world = world_with_topic()
    for number in range(COUNT):
        send(world, b"%d" % number, TIMER_DELAY_MS="2000" if number % 4 else "60000")
    run(world, world.clock.now_ms() + 6000, 100)
    world = World(world.files.after_kill(), world.clock)
    settle(world, 20)
    assert waiting(world) == {"T": COUNT // 4}


def test_topics_with_one_hash_are_told_apart_and_a_deleted_one_is_gone() -> None:
    world = World()
    names = ("AaAa", "BBBB", "AaBB", "Gone")  # the first three have one Java hash
    for name in names:
        world.parts.metadata.topics.put([TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4)])
    for number, name in enumerate(names, 1):
        for _ in range(number):
            send(world, topic=name, TIMER_DELAY_MS="60000")
    settle(world)
    Caller(world).ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="Gone")
    world.parts.metadata.topics.put([TopicConfig(topic_name="Gone", read_queue_nums=4, write_queue_nums=4)])
    send(world, topic="Gone", TIMER_DELAY_MS="60000")
    settle(world)
    world = World(world.files.after_kill(), world.clock)
    settle(world)
    assert waiting(world) == {"AaAa": 1, "BBBB": 2, "AaBB": 3, "Gone": 1}


def test_what_changes_while_it_is_counted_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_counts, "COUNTED_A_STEP", 3)
    world = world_with_topic()
    for number in range(COUNT):
        send(world, b"%d" % number, TIMER_DELAY_MS="2000" if number % 2 else "60000")
    settle(world)
    world.clock.advance(2500)
    world = World(world.files.after_kill(), world.clock)
    for _ in range(COUNT // 3 - 2):  # not counted to the end, and the first half is delivered
        world.parts.messages.timers.tick()
        send(world, b"later", TIMER_DELAY_MS="90000")
    sent = COUNT // 3 - 2
    settle(world, 40)
    assert delivered_count(world) == COUNT // 2
    assert waiting(world) == {"T": COUNT // 2 + sent}


@pytest.mark.parametrize("count", [2, 3, 4, 6])
def test_the_size_of_a_step_leaves_nothing_out(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer_counts, "COUNTED_A_STEP", 3)
    world = world_with_topic()
    for number in range(count):
        send(world, b"%d" % number, TIMER_DELAY_MS="60000")
    settle(world)
    world = World(world.files.after_kill(), world.clock)
    settle(world)
    assert waiting(world) == {"T": count}
