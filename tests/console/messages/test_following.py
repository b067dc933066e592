"""A tail reads a bounded part of what comes, shows the newest, and counts the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pymq.client import MessageQueue
from pymq.clock import ManualClock
from pymq.console.asking.reader import Reader
from pymq.console.messages.following import READ_BYTES_MAX, READ_COUNT_MAX, SHOWN_COUNT_MAX, Follower, Round
from pymq.console.messages.rows import message_row
from pymq.errors import PymqError, UnreachableError
from pymq.operations.message.search import Range
from pymq.operations.message.selection import MessageSelection
from tests.console.messages.world import FakeTopic, stored

A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 0)


class World:
    """A follower of a topic to which a test adds messages."""

    def __init__(self, selection: MessageSelection | None = None) -> None:
        self.topic = FakeTopic(stored(0), stored(0, queue=B))
        self.down: PymqError | None = None
        reader = Reader(self.topic, asyncio.Semaphore(2), ManualClock())  # type: ignore[arg-type]
        self.follower = Follower(
            reader.pull, self.ends, selection or MessageSelection(), lambda one: message_row(one, shows_bodies=True)
        )

    async def ends(self) -> Mapping[MessageQueue, Range]:
        if self.down is not None:
            raise self.down
        return {
            queue: Range(there[0].queue_offset, there[-1].queue_offset + 1)
            for queue, there in self.topic.queues.items()
        }

    def add(self, count: int, queue: MessageQueue = A) -> None:
        there = self.topic.queues.setdefault(queue, [])
        begin = there[-1].queue_offset + 1 if there else 0
        there += [stored(at, b"x", queue=queue) for at in range(begin, begin + count)]


def rounds(world: World, *steps: Any) -> list[Round]:
    async def work() -> list[Round]:
        await world.follower.begin()
        found = []
        for step in steps:
            step()
            found.append(await world.follower.round())
        return found

    return asyncio.run(work())


def offsets(found: Round) -> list[int]:
    return [row["offset"] for row in found.rows]


def test_new_messages_come_in_order_of_their_time_and_only_once() -> None:
    world = World()
    first, second, third = rounds(world, lambda: None, lambda: (world.add(2), world.add(1, B)), lambda: None)
    assert not first.rows and not first.arrived
    assert [(row["broker"], row["offset"]) for row in second.rows] == [
        ("broker-a", 1),
        ("broker-b", 1),
        ("broker-a", 2),
    ]
    assert second.arrived == 3 and not second.unread and not third.rows


def test_what_is_more_than_a_round_reads_is_counted_and_the_newest_is_shown() -> None:
    world = World()
    (found,) = rounds(world, lambda: world.add(12_000))
    assert found.arrived == 12_000 and found.unread == 12_000 - READ_COUNT_MAX
    assert len(found.rows) == SHOWN_COUNT_MAX and found.unshown == READ_COUNT_MAX - SHOWN_COUNT_MAX
    assert offsets(found)[-1] == 12_000
    assert sum(count for _, _, count in world.topic.pulls) < 2 * READ_COUNT_MAX, "what is not shown is not read"


def test_large_bodies_are_read_up_to_a_number_of_bytes_a_round() -> None:
    world = World()

    def add() -> None:
        world.topic.queues[A] += [stored(at, b"x" * (READ_BYTES_MAX // 2)) for at in range(1, 101)]

    first, second = rounds(world, add, lambda: None)
    assert 1 <= len(first.rows) <= 32 and not first.unread and second.rows


def test_a_filter_chooses_and_what_it_left_out_is_not_counted_as_hidden() -> None:
    world = World(MessageSelection(grep="needle"))

    def add() -> None:
        world.add(10)
        world.topic.queues[A].append(stored(11, b"a needle"))

    (found,) = rounds(world, add)
    assert offsets(found) == [11] and found.arrived == 11 and not found.unread and not found.unshown


def test_a_queue_that_is_new_is_read_from_its_begin() -> None:
    world = World()
    new = MessageQueue("orders", "broker-c", 7)
    _, found = rounds(world, lambda: None, lambda: world.add(3, new))
    assert offsets(found) == [0, 1, 2] and found.arrived == 3


def test_a_broker_that_fails_is_named_and_its_messages_come_later() -> None:
    world = World()

    def fail() -> None:
        world.add(1)
        world.add(1, B)
        world.topic.failing = {"broker-b": UnreachableError("broker-b can't be reached")}

    first, second = rounds(world, fail, lambda: world.topic.failing.clear())
    assert [row["broker"] for row in first.rows] == ["broker-a"]
    assert first.failed == {"broker-b": "broker-b can't be reached"}
    assert [row["broker"] for row in second.rows] == ["broker-b"] and not second.failed


def test_messages_that_were_deleted_meanwhile_are_counted_as_not_read() -> None:
    world = World()

    def add() -> None:
        world.add(20)
        del world.topic.queues[A][:11]

    (found,) = rounds(world, add)
    assert found.unread == 10 and offsets(found) == list(range(11, 21))


def test_a_slave_that_is_behind_is_asked_again_in_the_next_round() -> None:
    world = World()
    whole = list(world.topic.queues[A])

    def come() -> None:
        world.add(2)
        ends = {queue: Range(0, there[-1].queue_offset + 1) for queue, there in world.topic.queues.items()}
        whole[:] = world.topic.queues[A]
        del world.topic.queues[A][1:]  # the broker that is read from has them later

        async def of_the_master() -> Mapping[MessageQueue, Range]:
            return ends

        world.follower._ends = of_the_master

    def copy() -> None:
        world.topic.queues[A] = whole

    first, second = rounds(world, come, copy)
    assert not first.rows and not first.unread and offsets(second) == [1, 2]
