"""Scenarios of the simple consumer against a running cluster, as those of :mod:`tests.client.scenarios`."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from pymq.client import Admin, ConsumeResult, PushConsumer, Received, SimpleConsumer, StoredMessage, sync
from pymq.errors import NotFoundError, RefusedError, UnreachableError, UsageError
from pymq.model.names import dlq_topic
from tests.client.scenarios import DEADLINE_S, Inbox, fresh, make_topic, send_numbers, until


async def receive_all(consumer: SimpleConsumer, topic: str, count: int, invisible_ms: int) -> list[Received]:
    """Receive until ``count`` messages are there."""
    found: list[Received] = []
    end = time.monotonic() + DEADLINE_S
    while len(found) < count:
        assert time.monotonic() < end, f"received {len(found)} of {count}"
        found += await consumer.receive(topic, 32, invisible_ms=invisible_ms, wait_ms=2000)
    return found


async def receive_ack_extend(namesrv: str, directory: Path) -> None:
    """What is acknowledged stays away, what is extended comes later, and what is given back comes at once."""
    topic = await make_topic(namesrv)
    await send_numbers(namesrv, topic, 20)
    async with SimpleConsumer(fresh("G"), namesrv=namesrv) as consumer:
        found = await receive_all(consumer, topic, 20, 60_000)
        assert len({each.content() for each in found}) == 20
        kept, back, *others = found
        for each in others:
            await consumer.ack(each)
        await consumer.ack(others[0])
        receipt = kept.receipt
        await consumer.extend(kept, 120_000)
        assert kept.receipt != receipt
        await consumer.give_back(back)
        (again,) = await receive_all(consumer, topic, 1, 60_000)
        assert again.content() == back.content() and again.message.reconsume_times == 1
        assert again.message.topic == topic and again.topic != topic
        await consumer.ack(again)
        await consumer.ack(kept)
        assert await consumer.receive(topic, wait_ms=0) == []


async def given_up(namesrv: str, directory: Path) -> None:
    """What is given up is a dead letter at once, also after it came again, and does not come any more."""
    topic, group = await make_topic(namesrv), fresh("G")
    await send_numbers(namesrv, topic, 2)
    async with SimpleConsumer(group, namesrv=namesrv) as consumer:
        first, second = await receive_all(consumer, topic, 2, 5000)
        await consumer.give_up(first)
        await consumer.give_back(second)
        (again,) = await receive_all(consumer, topic, 1, 5000)
        await asyncio.to_thread(give_up_blocking, group, namesrv, again)
        assert await consumer.receive(topic, wait_ms=0) == []
        async with SimpleConsumer(fresh("G"), namesrv=namesrv) as looker:
            dead = await receive_all(looker, dlq_topic(group), 2, 60_000)
    assert sorted(each.content() for each in dead) == [b"0", b"1"]


def give_up_blocking(group: str, namesrv: str, received: Received) -> None:
    with sync.SimpleConsumer(group, namesrv=namesrv) as consumer:
        consumer.receive(received.message.topic, wait_ms=0)  # learns the route
        consumer.give_up(received)


async def received_at_a_broker(namesrv: str, directory: Path) -> None:
    """A receive at a named broker takes nothing from others, and an unknown broker can't be reached."""
    topic = await make_topic(namesrv)
    await send_numbers(namesrv, topic, 2)

    def block() -> list[Received]:
        with sync.SimpleConsumer(fresh("G"), namesrv=namesrv) as consumer:
            (broker,) = consumer.brokers(topic)
            return consumer.receive(topic, 1, wait_ms=2000, broker_name=broker)

    assert len(await asyncio.to_thread(block)) == 1
    async with SimpleConsumer(fresh("G"), namesrv=namesrv) as consumer:
        with pytest.raises(UnreachableError, match="nowhere has no master"):
            await consumer.receive(topic, wait_ms=0, broker_name="nowhere")
        with pytest.raises(NotFoundError):
            await consumer.brokers(fresh("T"))


async def simple_blocking(namesrv: str, directory: Path) -> None:
    """The blocking face does the same, tags select, and refusals come as errors."""
    topic = await make_topic(namesrv)
    await send_numbers(namesrv, topic, 4, tags="A")
    await send_numbers(namesrv, topic, 4, tags="B")

    def block() -> None:
        with sync.SimpleConsumer(fresh("G"), namesrv=namesrv) as consumer:
            found: list[Received] = []
            while len(found) < 4:
                found += consumer.receive(topic, expression="B", wait_ms=2000)
            assert {each.message.tags for each in found} == {"B"}
            for each in found:
                consumer.extend(each, 100_000)
                consumer.ack(each)
            with pytest.raises(UsageError):
                consumer.receive(topic, 33)
            with pytest.raises(NotFoundError):
                consumer.receive(fresh("T"))
            with pytest.raises(RefusedError):
                consumer.ack(dataclasses.replace(found[0], receipt="none"))

    await asyncio.to_thread(block)


async def pushed_by_pops(namesrv: str, directory: Path) -> None:
    """Brokers let two members pop one queue: each message is done once, also one whose handler fails first."""
    topic, group = await make_topic(namesrv, 1), fresh("G")
    async with Admin(namesrv) as admin:
        for master in await admin.cluster.masters():
            await admin.groups.set_request_mode(master.address, group, topic, "POP")
    await send_numbers(namesrv, topic, 40)
    inboxes, failed = [Inbox(), Inbox()], set[bytes]()

    async def handle(inbox: Inbox, messages: list[StoredMessage]) -> ConsumeResult | None:
        (message,) = messages
        if message.content() == b"7" and not failed:
            failed.add(message.content())
            return ConsumeResult.RECONSUME_LATER
        return await inbox(messages)

    consumers = [
        PushConsumer(
            group, namesrv=namesrv, on_message=partial(handle, inbox), consume_from="first", client_rebalance=False,
            pull_count_max=8, delay_level=1, rebalance_interval_s=1, invisible_ms=30_000,
        )
        for inbox in inboxes
    ]  # fmt: skip
    for consumer in consumers:
        consumer.subscribe(topic)
    async with consumers[0], consumers[1]:
        await until(lambda: sum(len(inbox.messages) for inbox in inboxes) >= 40, "40 messages")
        await until(lambda: all(queue_ids(consumer, topic) == [-1] for consumer in consumers), "queues to pop")
        await send_numbers(namesrv, topic, 40)
        await until(lambda: sum(len(inbox.messages) for inbox in inboxes) >= 80, "40 more messages")
    found = Counter(message.content() for inbox in inboxes for message in inbox.messages)
    assert found == {b"%d" % number: 2 for number in range(40)} and failed
    (again,) = (one for inbox in inboxes for one in inbox.messages if one.reconsume_times)
    assert (again.content(), again.topic) == (b"7", topic)


def queue_ids(consumer: PushConsumer, topic: str) -> list[int]:
    """Return the ids of the topic's queues that a consumer reads."""
    return [queue.queue_id for queue in consumer.assigned if queue.topic == topic]


async def pulled_by_assignment(namesrv: str, directory: Path) -> None:
    """Without a mode for the group, brokers share the queues out for pulls, also when a member leaves."""
    topic, group = await make_topic(namesrv, 4), fresh("G")
    inboxes = [Inbox(), Inbox()]
    consumers = [
        PushConsumer(
            group, namesrv=namesrv, on_message=inbox, consume_from="first", client_rebalance=False,
            rebalance_interval_s=1,
        )
        for inbox in inboxes
    ]  # fmt: skip
    for consumer in consumers:
        consumer.subscribe(topic)
    async with consumers[0]:
        async with consumers[1]:
            await until(lambda: [len(queue_ids(consumer, topic)) for consumer in consumers] == [2, 2], "shares")
            await send_numbers(namesrv, topic, 20)
            await until(lambda: sum(len(inbox.messages) for inbox in inboxes) >= 20, "20 messages")
        await until(lambda: queue_ids(consumers[0], topic) == [0, 1, 2, 3], "the rest")
    assert all(inbox.messages for inbox in inboxes)


POP_SCENARIOS = [
    receive_ack_extend,
    given_up,
    received_at_a_broker,
    simple_blocking,
    pushed_by_pops,
    pulled_by_assignment,
]
