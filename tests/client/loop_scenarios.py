"""Scenarios of loops over consumers against a running cluster, as those of :mod:`tests.client.scenarios`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from pymq.client import Message, Producer, PullConsumer, PushConsumer, SimpleConsumer, sync
from pymq.errors import UsageError
from tests.client.scenarios import DEADLINE_S, fresh, make_topic, numbers, send_numbers


async def send_in_order(namesrv: str, topic: str, count: int) -> None:
    """Send the bodies b"0", b"1", … one after the other: an Apache broker stores concurrent sends in any order."""
    async with Producer(fresh("P"), namesrv=namesrv) as producer:
        for n in range(count):
            await producer.send(Message(topic, b"%d" % n), timeout_s=DEADLINE_S)


async def loop_over_a_push_consumer(namesrv: str, directory: Path) -> None:
    """Messages whose bodies end are acknowledged; the one of a loop that breaks comes again, at a restart too."""
    topic, group = await make_topic(namesrv, queue_count=1), fresh("G")
    await send_in_order(namesrv, topic, 10)
    seen: list[bytes] = []
    consumer = PushConsumer(group, namesrv=namesrv, consume_from="first", orderly=True)
    consumer.subscribe(topic)
    async with consumer:
        async for message in consumer:
            seen.append(message.content())
            if len(seen) == 5:
                await consumer.stop()
    assert seen == [b"%d" % n for n in range(5)]
    # The fifth message was not acknowledged.
    again = PushConsumer(group, namesrv=namesrv, consume_from="first", orderly=True)
    again.subscribe(topic)
    async with again:
        async for message in again:
            seen.append(message.content())
            await again.ack(message)
            if len(seen) == 11:
                break
    assert seen[5:] == [b"%d" % n for n in range(4, 10)]


async def loop_left_early(namesrv: str, directory: Path) -> None:
    """An orderly consumer hands the message that a loop's body failed on to the next loop, before all others."""
    topic = await make_topic(namesrv, queue_count=1)
    await send_in_order(namesrv, topic, 2)
    consumer = PushConsumer(fresh("G"), namesrv=namesrv, consume_from="first", orderly=True, suspend_ms=1)
    consumer.subscribe(topic)
    with pytest.raises(UsageError, match="not started"):
        aiter(consumer)
    async with consumer:
        with pytest.raises(ZeroDivisionError):
            async for message in consumer:
                assert message.content() == b"0"
                raise ZeroDivisionError
        rest: list[bytes] = []
        async for message in consumer:
            rest.append(message.content())
            if len(rest) == 2:
                await consumer.ack(message)
                break
        assert rest == [b"0", b"1"]


async def loop_over_a_simple_consumer(namesrv: str, directory: Path) -> None:
    """What the loop has done stays away; the rest comes again at once, also what was received ahead."""
    topic, group = await make_topic(namesrv), fresh("G")
    await send_numbers(namesrv, topic, 12)
    async with SimpleConsumer(group, namesrv=namesrv) as consumer:
        with pytest.raises(UsageError, match="nothing is subscribed"):
            aiter(consumer)
        consumer.subscribe(topic)
        first: list[bytes] = []
        async with aclosing(consumer.messages(4)) as messages:
            async for received in messages:
                if len(first) == 5:
                    break
                first.append(received.content())
        rest: list[bytes] = []
        async for received in consumer:
            rest.append(received.content())
            if len(rest) == 7:
                await consumer.ack(received)
                break
        assert len(first) == 5 and {*first, *rest} == numbers(12)
        assert await consumer.receive(topic, wait_ms=0) == []


async def loop_over_a_pull_consumer(namesrv: str, directory: Path) -> None:
    """Each loop goes on where the one before it was done, in this consumer and in the next one; tags select."""
    topic, group = await make_topic(namesrv), fresh("G")
    await send_numbers(namesrv, topic, 12, tags="A")
    await send_numbers(namesrv, topic, 3, tags="B")
    seen: list[bytes] = []
    async with PullConsumer(group, namesrv=namesrv) as consumer:
        with pytest.raises(UsageError, match="nothing is subscribed"):
            aiter(consumer)
        consumer.subscribe(topic, "A")
        for taken in (3, 5):
            async with aclosing(consumer.messages()) as messages:
                async for message in messages:
                    if len(seen) == taken:
                        break
                    seen.append(message.content())
    async with PullConsumer(group, namesrv=namesrv) as another:
        another.subscribe(topic, "A")
        async for message in another:
            seen.append(message.content())
            if len(seen) == 12:
                await another.ack(message)
                await another.stop()
    assert set(seen) == numbers(12) and len(seen) == 12


async def a_loop_over_a_pull_consumer_waits(namesrv: str, directory: Path) -> None:
    """A loop gets what is sent while it waits."""
    topic = await make_topic(namesrv, queue_count=2)
    async with PullConsumer(fresh("G"), namesrv=namesrv) as consumer:
        consumer.subscribe(topic)
        async with aclosing(consumer.messages()) as messages:
            waiting = asyncio.ensure_future(anext(messages))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            async with Producer(fresh("P"), namesrv=namesrv) as producer:
                await producer.send(Message(topic, b"later"))
            assert (await waiting).content() == b"later"


async def blocking_loops(namesrv: str, directory: Path) -> None:
    """The blocking faces loop too, and a stop in the loop's body ends it."""
    topic = await make_topic(namesrv)
    await send_numbers(namesrv, topic, 6)

    def block() -> None:
        seen: set[bytes] = set()
        push = sync.PushConsumer(fresh("G"), namesrv=namesrv, consume_from="first")
        push.subscribe(topic)
        with push:
            for message in push:
                seen.add(message.content())
                push.ack(message)
                if len(seen) == 6:
                    push.stop()
        with sync.SimpleConsumer(fresh("G"), namesrv=namesrv) as simple:
            simple.subscribe(topic)
            for received in simple:
                seen.discard(received.content())
                if not seen:
                    simple.ack(received)
                    break
            assert simple.receive(topic, wait_ms=0) == []
        with sync.PullConsumer(fresh("G"), namesrv=namesrv) as pull:
            pull.subscribe(topic)
            for message in pull:
                seen.add(message.content())
                if len(seen) == 6:
                    break

    await asyncio.to_thread(block)


LOOP_SCENARIOS = [
    loop_over_a_push_consumer,
    loop_left_early,
    loop_over_a_simple_consumer,
    loop_over_a_pull_consumer,
    a_loop_over_a_pull_consumer_waits,
    blocking_loops,
]
