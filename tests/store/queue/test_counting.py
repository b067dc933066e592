"""How many messages lie behind a place of the log."""

from __future__ import annotations

import pytest

from pymq.store.queue.counting import messages_behind
from tests.broker.world import World


@pytest.fixture
def world() -> World:
    return World()


def test_counts_over_all_queues_from_any_place(world: World) -> None:
    placed = [world.put(f"topic{number % 3}", b"x" * (number % 7), queue_id=number % 2) for number in range(60)]
    queues = world.parts.store.queue_table
    for number, one in enumerate(placed):
        assert messages_behind(queues, one.physical_offset) == 60 - number
        assert messages_behind(queues, one.physical_offset + 1) == 59 - number
    assert messages_behind(queues, world.parts.store.physical_max_offset) == 0


def test_an_empty_store_has_none(world: World) -> None:
    assert messages_behind(world.parts.store.queue_table, 0) == 0
