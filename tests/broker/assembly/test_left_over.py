"""What keeps a worker from retiring: each kind of message that would be out of reach without it."""

from __future__ import annotations

from pymq.broker.assembly.left_over import left_over
from pymq.broker.replication.roles.role import Role
from pymq.model.tables import TopicConfig
from tests.broker.handlers.test_pop import Popping
from tests.broker.timers.test_timer_service import send, settle, world_with_topic
from tests.broker.transactions.driver import TransactionProducer
from tests.broker.world import World


def left(world: World) -> dict[str, int]:
    steps = left_over(world.parts)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: dict[str, int] = end.value
            return found


def world_of(*topics: str, queue_count: int = 2) -> World:
    world = World()
    world.parts.metadata.topics.put(
        [TopicConfig(topic_name=topic, read_queue_nums=queue_count, write_queue_nums=queue_count) for topic in topics]
    )
    return world


def test_a_message_counts_until_each_group_that_reads_the_topic_has_it() -> None:
    world = world_of("T", queue_count=600)
    for queue_id in (0, 1, 599):
        world.put("T", queue_id=queue_id)
    assert left(world) == {}, "no group has ever read it"
    cursors = world.parts.metadata.cursors
    cursors.commit("g", "T", 0, 1)
    cursors.commit("h", "T", 0, 0)
    assert left(world) == {"group g": 2, "group h": 3}
    for group in "gh":
        for queue_id in (0, 1, 599):
            cursors.commit(group, "T", queue_id, 1)
    assert left(world) == {}


def test_retries_count_for_a_group_that_has_committed_nothing_there() -> None:
    world = world_of("%RETRY%g", "%DLQ%g")
    world.put("%RETRY%g")
    world.put("%DLQ%g")
    assert left(world) == {"group g": 1}
    world.parts.metadata.cursors.commit("g", "%RETRY%g", 0, 1)
    assert left(world) == {}


def test_messages_for_later_count_until_they_are_delivered() -> None:
    world = world_of("T")
    world.put("T", DELAY="1")
    assert left(world) == {"delayed": 1}
    world.clock.advance(1000)
    world.parts.messages.delays.tick()
    world.parts.messages.writer.commit()
    assert left(world) == {}
    timed = world_with_topic()
    send(timed, b"m", TIMER_DELAY_MS="60000")
    settle(timed)
    assert left(timed)["timers"] >= 1


def test_open_transactions_and_hand_outs_count() -> None:
    world = world_of("T", queue_count=4)
    TransactionProducer(world).half()
    assert left(world) == {"transactions": 1}
    popping = Popping()
    popping.world.put("T")
    found = popping.pop()
    assert left(popping.world)["hand_outs"] == 1
    popping.ack(found.receipt(0))
    assert left(popping.world) == {}


def test_a_slave_keeps_nothing_that_its_master_has_not() -> None:
    world = World(role=Role(1))
    assert left(world) == {}
