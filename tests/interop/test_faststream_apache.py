"""FastStream on a real Apache RocketMQ 5.3.3, through plugins/pymq-faststream: results, a request, retries, a batch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.interop.support.apache import ApacheServer

pytest.importorskip("pymq_faststream", reason="needs scripts/install plugins")
WAIT_S = 60.0


def test_an_application(apache: ApacheServer) -> None:
    asyncio.run(application(apache.namesrv))


async def application(namesrv: str) -> None:
    from pymq_faststream import PymqBroker, PymqMessage

    broker = PymqBroker(namesrv, group="faststream", logger=None)
    inbox: asyncio.Queue[Any] = asyncio.Queue()
    tries: list[int] = []
    tried_twice = asyncio.Event()

    @broker.subscriber("fast-in", sql="price > 5")
    @broker.publisher("fast-out", tags="done")
    async def double(number: int) -> int:
        return number * 2

    @broker.subscriber("fast-out", tags="done", batch=True, ordered=True)
    async def look(numbers: list[int]) -> None:
        await inbox.put(numbers)

    @broker.subscriber("fast-fails", retry_delay_level=1, max_retries=1, group="fast-fails")
    async def fail(number: int, message: PymqMessage) -> None:
        tries.append(message.retry_count)
        if len(tries) > 1:
            tried_twice.set()
        raise ValueError(number)

    async with broker:
        await broker.start()
        assert await broker.ping(WAIT_S)
        async with asyncio.timeout(WAIT_S):
            await broker.publish(1, "fast-in", headers={"price": "1"})
            await broker.publish_batch(2, 3, topic="fast-in", headers={"price": "6"})
            found: list[int] = []
            while len(found) < 2:
                found += await inbox.get()
            assert sorted(found) == [4, 6]
            reply = await broker.request(4, "fast-in", headers={"price": "7"}, timeout=WAIT_S)
            assert await reply.decode() == 8
            await broker.publish(5, "fast-fails")
            dead = broker.subscriber("%DLQ%fast-fails", group="fast-dead", consume_from="first", persistent=False)
            await tried_twice.wait()
            await dead.start()
            letter = None
            while letter is None:
                letter = await dead.get_one(timeout=1)
            assert await letter.decode() == 5
            await dead.stop()
    assert tries == [0, 1]
