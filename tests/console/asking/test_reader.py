"""Reads of all persons together: a few at once, made small before the next one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client import MessageQueue, PullStatus
from pymq.client.subscription_options import SubscriptionOptions
from pymq.clock import ManualClock
from pymq.console.asking.reader import READ_BYTES_MAX, READS_AT_ONCE, SILENT_MS, Reader
from pymq.errors import UnreachableError
from pymq.model.message import PullResult

QUEUE = MessageQueue("orders", "broker-a", 0)


class FakeConsumer:
    """Answers when it is let go, and counts."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.asked: list[dict[str, Any]] = []
        self.started = self.stopped = 0

    async def start(self) -> None:
        self.started += 1

    async def stop(self) -> None:
        self.stopped += 1

    async def pull_as(self, queue: MessageQueue, offset: int, options: SubscriptionOptions, **more: Any) -> PullResult:
        self.asked.append({"queue": queue, "offset": offset} | more)
        await self.free.wait()
        return PullResult(PullStatus.FOUND, offset + 1, 0, 9)


def test_few_answers_are_in_memory_at_once() -> None:
    async def work() -> None:
        gate = asyncio.Semaphore(READS_AT_ONCE)
        consumers = [FakeConsumer() for _ in range(5)]
        held = most = 0

        def take(result: PullResult) -> int:
            return result.next_offset

        readers = [Reader(each, gate, ManualClock()) for each in consumers]  # type: ignore[arg-type]
        pulls = [asyncio.ensure_future(each.pull(QUEUE, 7, 32, SubscriptionOptions(), take)) for each in readers]
        for _ in range(20):
            await asyncio.sleep(0)
            held = sum(bool(each.asked) and not each.free.is_set() for each in consumers)
            most = max(most, held)
        assert most == READS_AT_ONCE
        for each in consumers:
            each.free.set()
        assert await asyncio.gather(*pulls) == [8] * 5
        assert consumers[0].asked == [{"queue": QUEUE, "offset": 7, "count_max": 32, "bytes_max": READ_BYTES_MAX}]
        for reader in readers:
            await reader.close()
        assert [each.stopped for each in consumers] == [1] * 5

    asyncio.run(work())


def test_a_reader_that_never_read_has_nothing_to_close() -> None:
    async def work() -> None:
        consumer = FakeConsumer()
        await Reader(consumer, asyncio.Semaphore(1), ManualClock()).close()  # type: ignore[arg-type]
        assert not consumer.started and not consumer.stopped

    asyncio.run(work())


def test_a_broker_that_hangs_gives_the_gate_back_and_is_left_alone_for_a_while() -> None:
    async def work() -> None:
        consumer, clock = FakeConsumer(), ManualClock()
        reader = Reader(consumer, asyncio.Semaphore(1), clock, timeout_s=0.01)  # type: ignore[arg-type]

        async def pull(queue: MessageQueue) -> int:
            return await reader.pull(queue, 7, 32, SubscriptionOptions(), lambda result: result.next_offset)

        for _ in range(2):
            with pytest.raises(UnreachableError, match=r"broker-a did not answer within 0.01 s"):
                await pull(QUEUE)
        assert len(consumer.asked) == 1
        consumer.free.set()
        assert await pull(MessageQueue("orders", "broker-b", 0)) == 8
        clock.advance(SILENT_MS)
        assert await pull(QUEUE) == 8

    asyncio.run(work())
