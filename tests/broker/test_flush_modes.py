"""Flush modes on real sockets and a real directory: under load, while they are switched, and at a stop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pymq.broker.assembly.broker import Broker
from pymq.client import Admin, Message, MessageQueue, Producer, PullConsumer, SendResult
from pymq.store.store import MessageStore
from tests.broker.assembly.test_broker import DEADLINE_S, make_broker, name_server, until


class HeldSync:
    """Stands in for a store's sync of the log: waits for :meth:`let_go` in its thread."""

    def __init__(self, store: MessageStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self._sync = store._log.sync
        self._may_end = threading.Event()
        self.started = threading.Event()
        monkeypatch.setattr(store._log, "sync", self._held)

    def _held(self) -> int:
        self.started.set()
        assert self._may_end.wait(DEADLINE_S)
        return self._sync()

    def let_go(self) -> None:
        self._may_end.set()


Scenario = Callable[[Broker, Producer, PullConsumer, Admin], Awaitable[None]]


def run(scenario: Scenario, tmp_path: Path, **settings: Any) -> None:
    async def whole() -> None:
        async with name_server() as namesrv:
            broker = make_broker(tmp_path / "data", namesrv.address, **settings)
            await broker.start()
            try:
                async with (
                    Producer("P", namesrv=namesrv.address) as producer,
                    PullConsumer("G", namesrv=namesrv.address) as consumer,
                    Admin(namesrv.address) as admin,
                ):
                    await scenario(broker, producer, consumer, admin)
            finally:
                await broker.stop()

    asyncio.run(whole())


def test_switched_under_load_answers_are_true_and_queues_in_order(tmp_path: Path) -> None:
    """Senders wait for each answer; in every mode the message is then at the offset in the answer."""
    senders, rounds = 16, 30

    async def scenario(broker: Broker, producer: Producer, consumer: PullConsumer, admin: Admin) -> None:
        first = await producer.send(Message("T", b"makes the topic"))
        parts = broker.parts
        assert parts is not None
        results: dict[bytes, SendResult] = {}

        async def sender(number: int) -> None:
            for turn in range(rounds):
                body = b"%d-%d" % (number, turn)
                results[body] = await producer.send(Message("T", body), queue=first.queue)

        async def switcher() -> None:
            mode = "SYNC_FLUSH"
            while len(results) < senders * rounds:
                await admin.brokers.update_config(broker.address, {"flushDiskType": mode})
                mode = "ASYNC_FLUSH" if mode == "SYNC_FLUSH" else "SYNC_FLUSH"
                await asyncio.sleep(0)

        async with asyncio.timeout(DEADLINE_S * 3):
            await asyncio.gather(switcher(), *(sender(number) for number in range(senders)))
        await until(lambda: parts.store.max_offset("T", first.queue.queue_id) == senders * rounds + 1)
        stored = await bodies(consumer, first.queue)
        assert len(stored) == senders * rounds + 1
        assert all(stored[result.queue_offset] == body for body, result in results.items())
        for number in range(senders):
            offsets = [results[b"%d-%d" % (number, turn)].queue_offset for turn in range(rounds)]
            assert offsets == sorted(offsets)

    run(scenario, tmp_path)


async def bodies(consumer: PullConsumer, queue: MessageQueue) -> list[bytes]:
    found: list[bytes] = []
    while messages := (await consumer.pull(queue, len(found))).messages():
        found += [message.body for message in messages]
    return found


def test_while_a_sync_hangs_only_its_answers_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(broker: Broker, producer: Producer, consumer: PullConsumer, admin: Admin) -> None:
        first = await producer.send(Message("T", b"1"))
        parts = broker.parts
        assert parts is not None
        held = HeldSync(parts.store, monkeypatch)
        try:
            waiting = asyncio.ensure_future(producer.send(Message("T", b"2"), queue=first.queue))
            await until(lambda: parts.messages.waiting_answers.is_awaiting_sync and held.started.is_set())
            hasty = Message("T", b"3", wait_store=False)
            result = await producer.send(hasty, queue=first.queue)
            assert result.queue_offset == 2 and not waiting.done()
            assert await bodies(consumer, first.queue) == [b"1"], "neither is on the disk"
            assert await admin.brokers.config(broker.address)
            pull = asyncio.ensure_future(consumer.pull(first.queue, 1, suspend_ms=15_000))
            assert await admin.cluster.masters()
            assert not pull.done()
        finally:
            held.let_go()
        assert (await waiting).queue_offset == 1
        assert (await pull).messages()[0].body == b"2"

    run(scenario, tmp_path, flushDiskType="SYNC_FLUSH")


def test_a_stop_answers_what_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(broker: Broker, producer: Producer, consumer: PullConsumer, admin: Admin) -> None:
        first = await producer.send(Message("T", b"1"))
        parts = broker.parts
        assert parts is not None
        held = HeldSync(parts.store, monkeypatch)
        waiting = asyncio.ensure_future(producer.send(Message("T", b"2"), queue=first.queue))
        await until(lambda: parts.messages.waiting_answers.is_awaiting_sync)
        stopping = asyncio.ensure_future(broker.stop())
        await until(lambda: not parts.store.is_writable)
        held.let_go()
        assert (await waiting).queue_offset == 1
        await stopping
        assert not (tmp_path / "data/abort").exists()

    run(scenario, tmp_path, flushDiskType="SYNC_FLUSH")


def test_a_send_that_waits_too_long_is_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(broker: Broker, producer: Producer, consumer: PullConsumer, admin: Admin) -> None:
        first = await producer.send(Message("T", b"1"))
        parts = broker.parts
        assert parts is not None
        held = HeldSync(parts.store, monkeypatch)
        try:
            late = await producer.send(Message("T", b"2"), queue=first.queue)
            assert late.status.name == "FLUSH_DISK_TIMEOUT" and late.queue_offset == 1
        finally:
            held.let_go()
        await until(lambda: parts.store.max_offset("T", first.queue.queue_id) == 2)
        assert await bodies(consumer, first.queue) == [b"1", b"2"]

    run(scenario, tmp_path, flushDiskType="SYNC_FLUSH", syncFlushTimeout="50")
