"""What a group has left in the queues of a topic, by pieces of the topic."""

from __future__ import annotations

import pytest

from pymq.broker.report import queue_ends
from pymq.broker.report.queue_ends import Behind, QueueEnds, pieces
from pymq.model.tables import TopicConfig
from tests.broker.world import World

TOPIC = TopicConfig(topic_name="t", read_queue_nums=2, write_queue_nums=4)


@pytest.fixture
def world() -> World:
    """Queues 0 to 3 with 3, 2, 1 and no messages."""
    world = World()
    world.parts.metadata.topics.put([TOPIC])
    for queue_id, count in enumerate((3, 2, 1)):
        for _ in range(count):
            world.put("t", queue_id=queue_id)
    return world


@pytest.mark.parametrize(
    ("committed", "expected"),
    [
        ({0: 3, 1: 2, 2: 1, 3: 0}, Behind(0, 6, 4, 0)),
        ({0: 1, 1: 0, 2: 0, 3: 0}, Behind(5, 1, 4, 0)),
        ({}, Behind(0, 0, 0, 3)),
        ({1: 1}, Behind(1, 1, 1, 2)),
        ({3: 0}, Behind(0, 0, 1, 3)),
        ({0: 1, 1: 0, 2: 0, 7: 9}, Behind(5, 1, 3, 0)),
        ({-1: 4, 9: 9}, Behind(0, 0, 0, 3)),
    ],
)
@pytest.mark.parametrize("at_once", [1024, 2, 1, 3])
def test_offsets_of_queues_that_are_there_count(
    world: World, monkeypatch: pytest.MonkeyPatch, committed: dict[int, int], expected: Behind, at_once: int
) -> None:
    monkeypatch.setattr(queue_ends, "QUEUES_AT_ONCE", at_once)
    found = Behind()
    for ids in pieces(TOPIC):
        found = found.plus(QueueEnds(world.parts.store, TOPIC, ids).behind(committed))
    assert found == expected


def test_pieces_have_every_queue_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_ends, "QUEUES_AT_ONCE", 3)
    assert list(pieces(TOPIC)) == [range(3), range(3, 4)]
    assert QueueEnds(World().parts.store, TOPIC, range(3, 4)).ends == [0]
