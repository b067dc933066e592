"""Which topics a group reads, and where the oldest message lies that waits for it."""

from __future__ import annotations

import pytest

from pymq.broker.report import consumed
from pymq.broker.report.consumed import NOWHERE, Consumed, Oldest
from tests.broker.report.rows import join, world_of
from tests.broker.world import World


def made(world: World) -> Consumed:
    return Consumed(metadata=world.parts.metadata, store=world.parts.store, invisible={})


def oldest(world: World, group: str, topic: str) -> tuple[Oldest, int]:
    """Return the oldest messages, and how often the look-up rested."""
    steps = made(world).oldest(group, world.parts.metadata.topics.require(topic))
    rests = 0
    while True:
        try:
            next(steps)
            rests += 1
        except StopIteration as stop:
            return stop.value, rests


def test_a_connected_group_reads_what_it_subscribes_to() -> None:
    world = world_of(groups=2, topics=3)
    found = made(world)
    assert found.topics_of("g1") == ["t0", "t1", "t2"] and found.reads("g1", "t0")
    join(world, "member", "g1", "t2")
    assert not found.reads("g1", "t0") and found.topic("g1", "t0") is None, "its offsets there are old"
    assert found.reads("g1", "t2") and found.reads("g1", "%RETRY%g1+t2") and not found.reads("g1", "%RETRY%g1+t0")
    join(world, "other", "fresh", "t1")
    assert "t1" in found.topics_of("fresh")


def test_the_oldest_message_of_all_queues_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(groups=1, topics=1, queues=3, messages=4)
    cursors, store = world.parts.metadata.cursors, world.parts.store
    for queue_id, offset in enumerate((2, 1, 4)):
        cursors.commit("g0", "t0", queue_id, offset)

    def place(queue_id: int, offset: int) -> int:
        view = store.queue_view("t0", queue_id)
        assert view is not None
        return view.physical_offset_from(offset)

    expected = Oldest(place(1, 1), place(1, 0))
    assert oldest(world, "g0", "t0") == (expected, 0)
    assert made(world).store_ms(expected.waiting) == world.clock.now_ms() - 3000
    monkeypatch.setattr(consumed, "TIMED_AT_ONCE", 1)
    assert oldest(world, "g0", "t0") == (expected, 2), "a rest after each queue that is behind"
    cursors.commit("g0", "t0", 0, 4)
    cursors.commit("g0", "t0", 1, 4)
    assert oldest(world, "g0", "t0")[0] == Oldest()
    assert made(world).store_ms(NOWHERE) == 0


def test_the_older_place_counts() -> None:
    assert Oldest(5, NOWHERE).older(Oldest(3, 7)) == Oldest(3, 7)
    assert Oldest(NOWHERE, 2).older(Oldest(NOWHERE, 4)) == Oldest(NOWHERE, 2)
