"""Scenarios of the simple consumer against a running cluster, as those of :mod:`tests.client.scenarios`."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from pathlib import Path

import pytest

from pymq.client import Received, SimpleConsumer
from pymq.client.sync import SyncSimpleConsumer
from pymq.errors import NotFoundError, RefusedError, UsageError
from tests.client.scenarios import DEADLINE_S, fresh, make_topic, send_numbers


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


async def simple_blocking(namesrv: str, directory: Path) -> None:
    """The blocking face does the same, tags select, and refusals come as errors."""
    topic = await make_topic(namesrv)
    await send_numbers(namesrv, topic, 4, tags="A")
    await send_numbers(namesrv, topic, 4, tags="B")

    def block() -> None:
        with SyncSimpleConsumer(fresh("G"), namesrv=namesrv) as consumer:
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


POP_SCENARIOS = [receive_ack_extend, simple_blocking]
