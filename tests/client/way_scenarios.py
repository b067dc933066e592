"""Scenarios of sends, look-ups and traces against a running cluster, as those of :mod:`tests.client.scenarios`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from pymq.client import (
    Admin,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    SimpleConsumer,
    StoredMessage,
    TransactionProducer,
    TransactionState,
)
from pymq.errors import RefusedError, UsageError
from pymq.model.trace import TraceKind
from tests.client.pop_scenarios import receive_all
from tests.client.scenarios import DEADLINE_S, Inbox, Ledger, fresh, make_topic, until
from tests.client.sending_scenarios import all_messages

LARGE = b"a body that shrinks " * 1000


async def asynchronous_sends(namesrv: str, directory: Path) -> None:
    """Tasks of sends end with results, each with a place of its own."""
    topic = await make_topic(namesrv)
    async with Producer(fresh("P"), namesrv=namesrv) as producer:
        tasks = [producer.send_async(Message(topic, b"%d" % n), timeout_s=DEADLINE_S) for n in range(50)]
        places = {(result.queue, result.queue_offset) for result in await asyncio.gather(*tasks)}
    assert len(places) == 50


async def sends_without_an_answer(namesrv: str, directory: Path) -> None:
    """Messages of one-way sends are stored."""
    topic = await make_topic(namesrv, 1)
    async with Producer(fresh("P"), namesrv=namesrv) as producer, Admin(namesrv) as admin:
        for n in range(10):
            await producer.send_oneway(Message(topic, b"%d" % n))
        end = time.monotonic() + DEADLINE_S
        while sum(stats.max_offset for stats in (await admin.topics.stats(topic)).values()) < 10:
            assert time.monotonic() < end
            await asyncio.sleep(0.02)


async def compressed_bodies(namesrv: str, directory: Path) -> None:
    """Each compression makes the record smaller, and the content comes back whole."""
    topic, sent = await make_topic(namesrv), []
    for compress in ("zlib", "lz4", "zstd"):
        async with Producer(fresh("P"), namesrv=namesrv, compress=compress) as producer:
            sent.append(await producer.send(Message(topic, LARGE), timeout_s=DEADLINE_S))
    async with PullConsumer(fresh("G"), namesrv=namesrv) as pull:
        found = await all_messages(pull, sent)
    assert len(found) == 3
    assert all(len(one.body) < len(LARGE) // 2 and one.content() == LARGE for one in found.values())


async def text_beyond_ascii(namesrv: str, directory: Path) -> None:
    """Body, tag, keys and properties keep every character."""
    topic = await make_topic(namesrv)
    async with Producer(fresh("P"), namesrv=namesrv) as producer, PullConsumer(fresh("G"), namesrv=namesrv) as pull:
        message = Message(topic, "消息 🚀", tags="标签", keys=["ключ-ü"], properties={"名前": "値 🎈"})
        (found,) = (await all_messages(pull, [await producer.send(message, timeout_s=DEADLINE_S)])).values()
    assert (found.content().decode(), found.tags, found.keys) == ("消息 🚀", "标签", "ключ-ü")
    assert found.properties["名前"] == "値 🎈"


async def topic_made_by_its_first_send(namesrv: str, directory: Path) -> None:
    """A topic that does not exist comes to be with four queues."""
    topic = fresh("Auto")
    async with Producer(fresh("P"), namesrv=namesrv) as producer:
        await producer.send(Message(topic, b"first"), timeout_s=DEADLINE_S)
        assert len(await producer.queues(topic)) == 4


async def too_large_a_message(namesrv: str, directory: Path) -> None:
    """A body of more than 4 MiB stays with the client; a client that allows more gets the broker's refusal."""
    topic = await make_topic(namesrv)
    message = Message(topic, bytes((4 << 20) + 1))
    async with (
        Producer(fresh("P"), namesrv=namesrv, compress_above_bytes=1 << 30) as careful,
        Producer(fresh("P"), namesrv=namesrv, compress_above_bytes=1 << 30, body_size_max_bytes=5 << 20) as bold,
    ):
        with pytest.raises(UsageError, match="4194305 bytes, the limit is 4194304"):
            await careful.send(message)
        with pytest.raises(RefusedError) as refused:
            await bold.send(message, timeout_s=DEADLINE_S)
    assert refused.value.code == 13


async def delayed_by_level(namesrv: str, directory: Path) -> None:
    """A message with delay level 1 comes after a second, not before."""
    topic, inbox = await make_topic(namesrv), Inbox()
    consumer = PushConsumer(fresh("G"), namesrv=namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(topic)
    async with Producer(fresh("P"), namesrv=namesrv) as producer, consumer:
        await producer.send(Message(topic, b"later", delay_level=1), timeout_s=DEADLINE_S)
        await until(lambda: inbox.messages, "the delayed message")
    (message,) = inbox.messages
    assert message.store_timestamp_ms - message.born_timestamp_ms >= 900


async def look_up_by_id_and_key(namesrv: str, directory: Path) -> None:
    """A message is found by each of its keys, by its own id, and by the broker's."""
    topic = await make_topic(namesrv)
    async with Producer(fresh("P"), namesrv=namesrv) as producer, Admin(namesrv) as admin:
        sent = await producer.send(Message(topic, b"x", keys=["k1", "k2"]), timeout_s=DEADLINE_S)
        found: list[StoredMessage] = []
        end = time.monotonic() + DEADLINE_S
        while not found:  # a broker's index may be late
            assert time.monotonic() < end
            found = await admin.messages.by_key(topic, "k2")
        found += await admin.messages.by_key(topic, "k1")
        found += await admin.messages.by_unique_key(topic, sent.message_id)
        found.append(await admin.messages.by_offset_id(sent.offset_message_id))
    assert [(one.content(), one.queue_offset, one.message_id) for one in found] == 4 * [
        (b"x", sent.queue_offset, sent.message_id)
    ]


async def traces(namesrv: str, directory: Path) -> None:
    """Traces tell of the send, deliveries and results to pushes and to receives, the transaction's end, the recall."""
    topic, inbox = await make_topic(namesrv, 1), Inbox()
    maker, pushed, received = fresh("P"), fresh("G"), fresh("G")
    ledger = Ledger({b"half": TransactionState.COMMIT}, {})
    consumer = PushConsumer(pushed, namesrv=namesrv, on_message=inbox, consume_from="first", trace=True)
    consumer.subscribe(topic)
    async with (
        consumer,
        SimpleConsumer(received, namesrv=namesrv, trace=True) as simple,
        TransactionProducer(maker, namesrv=namesrv, listener=ledger, trace=True) as producer,
    ):
        half = (await producer.send_in_transaction(Message(topic, b"half"), timeout_s=DEADLINE_S)).message_id
        timer = await producer.send(Message(topic, b"never", delay_ms=600_000), timeout_s=DEADLINE_S)
        await producer.recall(topic, timer.recall_handle)
        (first,) = await receive_all(simple, topic, 1, 60_000)
        await simple.give_back(first)
        (again,) = await receive_all(simple, topic, 1, 60_000)
        await simple.ack(again)
        await simple.ack(again)
        await until(lambda: inbox.messages, "the pushed message")
    wanted = {
        (TraceKind.PUBLISHED, maker, True, 0): 1,
        (TraceKind.TRANSACTION_ENDED, maker, True, 0): 1,
        (TraceKind.DELIVERED, pushed, True, 0): 1,
        (TraceKind.CONSUMED, pushed, True, 0): 1,
        (TraceKind.DELIVERED, received, True, 0): 1,
        (TraceKind.CONSUMED, received, False, 0): 1,
        (TraceKind.DELIVERED, received, True, 1): 1,
        (TraceKind.CONSUMED, received, True, 0): 1,
    }
    async with Admin(namesrv) as admin:
        end, found = time.monotonic() + DEADLINE_S, dict[tuple[TraceKind, str, bool, int], int]()
        while found != wanted:
            assert time.monotonic() < end, found
            records = [one.record for one in (await admin.traces.of_message(half)).found]
            keys = [(one.kind, one.group, one.success, one.retry_times) for one in records]
            found = {key: keys.count(key) for key in keys}
        kinds = {one.record.kind for one in (await admin.traces.of_message(timer.message_id)).found}
        assert kinds == {TraceKind.PUBLISHED, TraceKind.RECALLED}


WAY_SCENARIOS = [
    asynchronous_sends,
    sends_without_an_answer,
    compressed_bodies,
    text_beyond_ascii,
    topic_made_by_its_first_send,
    too_large_a_message,
    delayed_by_level,
    look_up_by_id_and_key,
    traces,
]
