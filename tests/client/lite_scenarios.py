"""Scenarios of the lite consumer against a running cluster, as those of :mod:`tests.client.scenarios`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from pymq.client import Admin, LiteConsumer, Message, Producer, Received, sync
from pymq.clock import SystemClock
from pymq.errors import NotFoundError, RefusedError, UnreachableError, UsageError
from pymq.model.lite_topics import MULTI_QUEUE_OFFSET
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig
from tests.client.scenarios import DEADLINE_S, fresh, make_topic, until


async def make_parent(namesrv: str) -> str:
    """Create a topic that has lite topics."""
    return await make_topic(namesrv, 4, {"message.type": "LITE", "lite.topic.expiration": "1440"})


async def make_group(namesrv: str, parent: str, **attributes: str) -> str:
    """Create a group that is bound to a parent topic. ``attributes``: more, with underscores for dots."""
    group = fresh("G")
    given = {"+lite.bind.topic": parent} | {f"+{name.replace('_', '.')}": value for name, value in attributes.items()}
    async with Admin(namesrv) as admin:
        for master in await admin.cluster.masters():
            await admin.groups.put(master.address, SubscriptionGroupConfig(group_name=group, attributes=given))
    return group


async def send(namesrv: str, parent: str, lite: str, *bodies: bytes) -> None:
    """Send to a lite topic, in order."""
    async with Producer(fresh("P"), namesrv=namesrv) as producer:
        for body in bodies:
            await producer.send(Message(parent, body, lite_topic=lite))


async def receive(consumer: LiteConsumer, count: int, invisible_ms: int = 60_000) -> list[Received]:
    """Receive until ``count`` messages are there; acknowledge them."""
    found: list[Received] = []
    end = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < end, f"received {len(found)} of {count}"
        for each in await consumer.receive(32, invisible_ms=invisible_ms, wait_ms=2000):
            found.append(each)
            await consumer.ack(each)
    return found


def shown(found: list[Received]) -> list[tuple[str | None, bytes]]:
    return sorted((each.lite_topic, each.content()) for each in found)


async def subscribed_one_by_one(namesrv: str, directory: Path) -> None:
    """A consumer gets what it subscribes to, each lite topic in order, and nothing else."""
    parent = await make_parent(namesrv)
    group = await make_group(namesrv, parent)
    for lite in ("a", "b", "c-1"):
        await send(namesrv, parent, lite, b"0", b"1", b"2")
    async with LiteConsumer(group, parent, namesrv=namesrv) as consumer:
        await consumer.subscribe("a", "c-1")
        assert consumer.lite_topics == {"a", "c-1"}
        found = await receive(consumer, 6)
        for lite in ("a", "c-1"):
            mine = [each for each in found if each.lite_topic == lite]
            assert [each.content() for each in mine] == [b"0", b"1", b"2"]
            assert [each.place for each in mine] == [(0, 0), (0, 1), (0, 2)]
            assert [each.message.properties[MULTI_QUEUE_OFFSET] for each in mine] == ["0", "1", "2"]
        assert await consumer.receive(wait_ms=0) == []
        await consumer.unsubscribe("a")
        await send(namesrv, parent, "a", b"3")
        await send(namesrv, parent, "c-1", b"3")
        assert shown(await receive(consumer, 1)) == [("c-1", b"3")]
    async with LiteConsumer(group, parent, namesrv=namesrv) as consumer:
        await consumer.subscribe("a")
        assert shown(await receive(consumer, 1)) == [("a", b"3")]


async def woken_while_it_waits(namesrv: str, directory: Path) -> None:
    """A waiting receive gets a message that is sent meanwhile, also to a lite topic that did not exist."""
    parent = await make_parent(namesrv)
    async with LiteConsumer(await make_group(namesrv, parent), parent, namesrv=namesrv) as consumer:
        await consumer.subscribe(*[f"lite-{number}" for number in range(500)])
        waiting = asyncio.create_task(consumer.receive(wait_ms=30_000))
        await asyncio.sleep(0.2)
        begun = time.monotonic()
        await send(namesrv, parent, "lite-321", b"x")
        (found,) = await waiting
        assert (found.lite_topic, found.content()) == ("lite-321", b"x")
        assert time.monotonic() - begun < 15, "woken by the message, not by the end of the wait"
        await consumer.ack(found)


class LateClock(SystemClock):
    """The clock of a machine that is an hour behind."""

    def now_ms(self) -> int:
        return super().now_ms() - 3_600_000


async def with_a_late_clock(namesrv: str, directory: Path) -> None:
    """A consumer whose clock is wrong receives as others do."""
    parent = await make_parent(namesrv)
    await send(namesrv, parent, "a", b"0")
    group = await make_group(namesrv, parent)
    async with LiteConsumer(group, parent, namesrv=namesrv, clock=LateClock()) as consumer:
        await consumer.subscribe("a")
        assert shown(await receive(consumer, 1)) == [("a", b"0")]


async def ordered_and_given_back(namesrv: str, directory: Path) -> None:
    """A lite topic hands out nothing behind a message that is out; given back it comes again, first."""
    parent = await make_parent(namesrv)
    async with LiteConsumer(await make_group(namesrv, parent), parent, namesrv=namesrv) as consumer:
        await consumer.subscribe("a")
        await send(namesrv, parent, "a", b"0", b"1")
        (first,) = await consumer.receive(1, wait_ms=10_000)
        assert await consumer.receive(1, wait_ms=0) == []
        await consumer.extend(first, 120_000)
        await consumer.give_back(first)
        (again,) = await consumer.receive(1, wait_ms=10_000)
        assert again.content() == b"0" and again.message.reconsume_times >= 1
        await consumer.ack(again)
        assert shown(await receive(consumer, 1)) == [("a", b"1")]


async def begin_elsewhere(namesrv: str, directory: Path) -> None:
    """A subscription may move the group: to the end, to an offset, to so many messages before where it is."""
    parent = await make_parent(namesrv)
    for lite in ("a", "b", "c", "d"):
        await send(namesrv, parent, lite, *(b"%d" % number for number in range(5)))
    async with LiteConsumer(await make_group(namesrv, parent), parent, namesrv=namesrv) as consumer:
        await consumer.subscribe("a", offset=3)
        assert [each.content() for each in await receive(consumer, 2)] == [b"3", b"4"]
        await consumer.subscribe("a", tail=1)
        assert [each.content() for each in await receive(consumer, 1)] == [b"4"]
        await consumer.subscribe("b", consume_from="last")
        await send(namesrv, parent, "b", b"5")
        assert [each.content() for each in await receive(consumer, 1)] == [b"5"]
        await consumer.subscribe("b", consume_from="first")
        assert len(await receive(consumer, 6)) == 6
        with pytest.raises(UsageError, match="exclude each other"):
            await consumer.subscribe("c", offset=1, tail=1)


async def exclusive(namesrv: str, directory: Path) -> None:
    """In an exclusive group the last subscriber has a lite topic, and the one before is notified."""
    parent = await make_parent(namesrv)
    group = await make_group(namesrv, parent, lite_sub_model="Exclusive")
    lost: list[str] = []
    async with (
        LiteConsumer(group, parent, namesrv=namesrv, on_lost=lost.append) as first,
        LiteConsumer(group, parent, namesrv=namesrv) as second,
    ):
        await first.subscribe("a", "b")
        await second.subscribe("a")
        await until(lambda: lost == ["a"], "the end of the first one's subscription")
        assert first.lite_topics == {"b"}
        await send(namesrv, parent, "a", b"0")
        await send(namesrv, parent, "b", b"1")
        assert shown(await receive(second, 1)) == [("a", b"0")]
        assert shown(await receive(first, 1)) == [("b", b"1")]


async def wildcard(namesrv: str, directory: Path) -> None:
    """A group of all lite topics gets each of them, and can't subscribe to a single one."""
    parent = await make_parent(namesrv)
    group = await make_group(namesrv, parent, lite_sub_wildcard="true")
    async with LiteConsumer(group, parent, namesrv=namesrv) as consumer:
        with pytest.raises(RefusedError):
            await consumer.subscribe("a")
        assert consumer.lite_topics == frozenset()
        await consumer.subscribe_all()
        for lite in ("a", "b", "c"):
            await send(namesrv, parent, lite, b"0")
        assert shown(await receive(consumer, 3)) == [("a", b"0"), ("b", b"0"), ("c", b"0")]


async def lite_blocking(namesrv: str, directory: Path) -> None:
    """The blocking face does the same, and a loop acknowledges."""
    parent = await make_parent(namesrv)
    group = await make_group(namesrv, parent)
    await send(namesrv, parent, "a", b"0", b"1", b"2")

    def block() -> list[bytes]:
        found = []
        with sync.LiteConsumer(group, parent, namesrv=namesrv) as consumer:
            consumer.subscribe("a")
            for each in consumer:
                found.append(each.content())
                if len(found) == 3:
                    consumer.ack(each)
                    break
            assert consumer.receive(wait_ms=0) == [] and consumer.lite_topics == {"a"}
            assert len(consumer.brokers()) == 1
            consumer.unsubscribe("a")
        return found

    assert await asyncio.to_thread(block) == [b"0", b"1", b"2"]


async def parent_made_again(namesrv: str, directory: Path) -> None:
    """Subscriptions outlive their parent: while it is gone a receive says so, then the new topic's messages come."""
    parent = await make_parent(namesrv)
    await send(namesrv, parent, "a", b"0", b"1")
    async with (
        LiteConsumer(await make_group(namesrv, parent), parent, namesrv=namesrv) as consumer,
        Admin(namesrv) as admin,
    ):
        await consumer.subscribe("a")
        (old, *_) = await receive(consumer, 2)
        targets = await admin.topics.targets(parent)
        await admin.topics.delete(parent, targets, everywhere=True)
        with pytest.raises((RefusedError, NotFoundError), match=parent):
            await consumer.receive(wait_ms=2000)
        attributes = {"message.type": "LITE"}
        config = TopicConfig(topic_name=parent, read_queue_nums=4, write_queue_nums=4, attributes=attributes)
        for target in targets:
            await admin.topics.put(target.address, config)
        await send(namesrv, parent, "a", b"2")
        assert shown(await receive_again(consumer)) == [("a", b"2")]
        await consumer.ack(old)
        await send(namesrv, parent, "a", b"3")
        assert shown(await receive(consumer, 1)) == [("a", b"3")]


async def receive_again(consumer: LiteConsumer) -> list[Received]:
    """Receive one message of a topic that routes may not have yet; acknowledge it."""
    end = time.monotonic() + DEADLINE_S
    while True:
        try:
            return await receive(consumer, 1)
        except (NotFoundError, UnreachableError):
            assert time.monotonic() < end
            await asyncio.sleep(0.05)


# What an Apache broker does not do.
PYMQ_LITE_SCENARIOS = [parent_made_again]

LITE_SCENARIOS = [
    subscribed_one_by_one,
    woken_while_it_waits,
    with_a_late_clock,
    ordered_and_given_back,
    begin_elsewhere,
    exclusive,
    wildcard,
    lite_blocking,
]
