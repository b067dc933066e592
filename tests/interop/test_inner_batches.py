"""Inner batches in a directory that PyMQ and Apache RocketMQ 5.3.3 serve in turn: each goes on with the other's."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pymq.client import Admin, Message, Producer, PushConsumer
from pymq.model.tables import TopicConfig
from tests.client.scenarios import Inbox, until
from tests.interop.support.apache import SEGMENT_SIZE_BYTES, ApacheServer
from tests.interop.support.pymq_server import PymqServer

TOPIC = "measurements"
SEND_TIMEOUT_S = 30.0
SETTINGS = {"mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES)}
Server = ApacheServer | PymqServer


async def _make_topic(server: Server) -> None:
    async with Admin(server.namesrv) as admin:
        config = TopicConfig(
            topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1, attributes={"queue.type": "BatchCQ"}
        )
        await admin.topics.put(server.broker, config)


async def _send(server: Server, writer: str) -> list[int]:
    """Send two batches and a single message; return the offsets that the broker answered."""
    async with Producer("p", namesrv=server.namesrv) as producer:

        async def batch(first: int, count: int) -> int:
            messages = [Message(TOPIC, f"{writer} {number}".encode(), "A") for number in range(first, first + count)]
            return (await producer.send_batch(messages, timeout_s=SEND_TIMEOUT_S)).queue_offset

        single = Message(TOPIC, f"{writer} 3".encode(), "A")
        return [
            await batch(0, 3),
            (await producer.send(single, timeout_s=SEND_TIMEOUT_S)).queue_offset,
            await batch(4, 5),
        ]


async def _consumed(server: Server, group: str, count: int) -> list[tuple[int, bytes]]:
    inbox = Inbox()
    consumer = PushConsumer(group, namesrv=server.namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(TOPIC)
    async with consumer:
        await until(lambda: len(inbox.messages) >= count, f"{count} messages", 90)
    return sorted((message.queue_offset, message.body) for message in inbox.messages)


def _wanted(*writers: str) -> list[tuple[int, bytes]]:
    return [
        (9 * place + number, f"{writer} {number}".encode())
        for place, writer in enumerate(writers)
        for number in range(9)
    ]


def test_apache_goes_on_with_the_batches_of_pymq(tmp_path: Path) -> None:
    first = PymqServer(tmp_path / "first", SETTINGS)
    try:
        asyncio.run(_make_topic(first))
        assert asyncio.run(_send(first, "pymq")) == [0, 3, 4]
        assert asyncio.run(_consumed(first, "reader", 9)) == _wanted("pymq")
    finally:
        assert first.stop() == 0, first.log_tail()
    second = ApacheServer(tmp_path / "second", store=first.store)
    try:
        assert asyncio.run(_send(second, "apache")) == [9, 12, 13]
        assert asyncio.run(_consumed(second, "reader-2", 18)) == _wanted("pymq", "apache")
    finally:
        second.stop()


def test_pymq_goes_on_with_the_batches_of_apache(tmp_path: Path) -> None:
    first = ApacheServer(tmp_path / "first")
    try:
        asyncio.run(_make_topic(first))
        assert asyncio.run(_send(first, "apache")) == [0, 3, 4]
        assert asyncio.run(_consumed(first, "reader", 9)) == _wanted("apache")
        first.close_store()
    finally:
        first.stop()
    second = PymqServer(tmp_path / "second", SETTINGS, store=first.store)
    try:
        assert asyncio.run(_send(second, "pymq")) == [9, 12, 13]
        assert asyncio.run(_consumed(second, "reader-2", 18)) == _wanted("apache", "pymq")
    finally:
        assert second.stop() == 0, second.log_tail()
