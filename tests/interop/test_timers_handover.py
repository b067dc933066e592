"""Waiting timers in a directory that PyMQ and Apache RocketMQ 5.3.3 serve in turn: each delivers the other's."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from pymq.client import Admin, Message, Producer, PushConsumer
from pymq.model.record import StoredMessage
from pymq.model.tables import TopicConfig
from tests.client.scenarios import Inbox, until
from tests.interop.support.apache import SEGMENT_SIZE_BYTES, ApacheServer
from tests.interop.support.pymq_server import PymqServer

TOPIC = "timed"
SEND_TIMEOUT_S = 30.0
SETTINGS = {"recallMessageEnable": "true", "timerFlushIntervalMs": "1000"}
PYMQ_SETTINGS = {"mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES), **SETTINGS}
SOON_MS, LATER_MS = 30_000, 75_000  # the next server delivers the first, the one after it the second
EARLY_MS = 3000
Server = ApacheServer | PymqServer


async def _send(server: Server, writer: str) -> dict[bytes, int]:
    """Send timers and recall some; return when each of the others is due (Unix ms)."""
    async with Admin(server.namesrv) as admin:
        await admin.topics.put(server.broker, TopicConfig(topic_name=TOPIC, read_queue_nums=2, write_queue_nums=2))
    due: dict[bytes, int] = {}
    async with Producer("timers", namesrv=server.namesrv) as producer:
        for delay_ms in (EARLY_MS, SOON_MS, LATER_MS):
            for number in range(5):
                body = f"{writer} {delay_ms} {number}".encode()
                at_ms = time.time_ns() // 1_000_000 + delay_ms + 137 * number
                message = Message(TOPIC, body, "A", deliver_at_ms=at_ms)
                result = await producer.send(message, timeout_s=SEND_TIMEOUT_S)
                assert result.recall_handle
                if number == 3:
                    assert await producer.recall(TOPIC, result.recall_handle) == result.message_id
                else:
                    due[body] = at_ms
    return due


async def _delivered(server: Server, bodies: set[bytes]) -> dict[bytes, StoredMessage]:
    """Return all messages of the topic once these are there and some time has passed for others."""
    inbox = Inbox()
    consumer = PushConsumer(
        f"reader-{server.directory.name}", namesrv=server.namesrv, on_message=inbox, consume_from="first"
    )
    consumer.subscribe(TOPIC)
    async with consumer:
        await until(lambda: bodies <= set(inbox.bodies), f"{len(bodies)} timers", 150)
        await asyncio.sleep(2)
    assert max(inbox.bodies.values()) == 1, "a message came twice"
    return {message.content(): message for message in inbox.messages}


def _never_early(found: dict[bytes, StoredMessage], due: dict[bytes, int]) -> None:
    assert set(found) <= set(due), "a recalled one was delivered"
    assert all(message.store_timestamp_ms >= due[body] for body, message in found.items())


def _of(due: dict[bytes, int], writer: str, *delays_ms: int) -> set[bytes]:
    return {body for body in due for delay_ms in delays_ms if body.startswith(f"{writer} {delay_ms} ".encode())}


def test_waiting_timers_move_to_apache_and_back(tmp_path: Path) -> None:
    first = PymqServer(tmp_path / "first", PYMQ_SETTINGS)
    try:
        due = asyncio.run(_send(first, "pymq"))
        found = asyncio.run(_delivered(first, _of(due, "pymq", EARLY_MS)))
        _never_early(found, due)
    finally:
        assert first.stop() == 0, first.log_tail()
    second = ApacheServer(tmp_path / "second", SETTINGS, store=first.store)
    try:
        due |= asyncio.run(_send(second, "apache"))
        wanted = _of(due, "pymq", EARLY_MS, SOON_MS) | _of(due, "apache", EARLY_MS)
        _never_early(asyncio.run(_delivered(second, wanted)), due)
        second.close_store()
    finally:
        second.stop()
    third = PymqServer(tmp_path / "third", PYMQ_SETTINGS, store=first.store)
    try:
        found = asyncio.run(_delivered(third, set(due)))
        _never_early(found, due)
    finally:
        assert third.stop() == 0, third.log_tail()
