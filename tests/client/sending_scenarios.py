"""Scenarios of the producers against a running cluster, as those of :mod:`tests.client.scenarios`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from pymq.client import (
    Admin,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    SendResult,
    StoredMessage,
    sync,
)
from pymq.errors import RefusedError
from tests.client.scenarios import DEADLINE_S, Inbox, _stored, fresh, make_topic, until

KEYS = ("a", "bb", "ccc", "dddd", "eeeee")


async def all_messages(pull: PullConsumer, sent: list[SendResult]) -> dict[tuple[MessageQueue, int], StoredMessage]:
    """Return every message of the queues that ``sent`` is in, by place."""
    found = {}
    for queue in {one.queue for one in sent}:
        end = max(one.queue_offset for one in sent if one.queue == queue) + 1
        await _stored(pull, queue, end)
        at = 0
        while at < end:
            result = await pull.pull(queue, at)
            found.update({(queue, message.queue_offset): message for message in result.messages()})
            at = result.next_offset
    return found


async def batches(namesrv: str, directory: Path) -> None:
    """Every message of an automatic batch is where its result says, with its own id, tag and keys."""
    topic = await make_topic(namesrv)
    bodies = [b"%d" % n if n % 50 else b"large %d " % n * 1000 for n in range(300)]
    async with (
        Producer(fresh("P"), namesrv=namesrv, linger_ms=20, batch_count_max=64) as producer,
        PullConsumer(fresh("G"), namesrv=namesrv) as pull,
    ):
        messages = [Message(topic, body, tags="T", keys=[f"k{n}"], flag=n) for n, body in enumerate(bodies)]
        futures = [await producer.enqueue(message, timeout_s=DEADLINE_S) for message in messages]
        await producer.flush()
        sent = [future.result() for future in futures]
        found = await all_messages(pull, sent)
    for n, result in enumerate(sent):
        message = found[result.queue, result.queue_offset]
        assert (message.content(), message.flag, message.tags, message.keys) == (bodies[n], n, "T", f"k{n}")
        assert message.offset_message_id == result.offset_message_id
        assert message.message_id == result.message_id
    assert len(found) == 300
    async with Admin(namesrv) as admin:
        for result in (sent[7], sent[250]):
            (message,) = await admin.messages.by_unique_key(topic, result.message_id)
            assert message.queue_offset == result.queue_offset


async def order_by_key(namesrv: str, directory: Path) -> None:
    """Messages of a key are in one queue, in the order of the calls, batched or not, from asyncio and from threads."""
    topic = await make_topic(namesrv)
    numbered = [(KEYS[n % len(KEYS)], b"%05d" % n) for n in range(200)]
    async with (
        Producer(fresh("P"), namesrv=namesrv) as alone,
        Producer(fresh("P"), namesrv=namesrv, linger_ms=1) as batched,
        PullConsumer(fresh("G"), namesrv=namesrv) as pull,
    ):
        for producer in (alone, batched):
            sent = await asyncio.gather(
                *[producer.send(Message(topic, body), ordering_key=key, timeout_s=DEADLINE_S) for key, body in numbered]
            )
            _check_order(numbered, sent)
        sent = await asyncio.to_thread(_send_blocking, namesrv, topic, numbered)
        _check_order(numbered, sent)
        found = await all_messages(pull, sent)
        for (key, body), result in zip(numbered, sent, strict=True):
            message = found[result.queue, result.queue_offset]
            assert message.content() == body and message.properties["__SHARDINGKEY"] == key


def _send_blocking(namesrv: str, topic: str, numbered: list[tuple[str, bytes]]) -> list[SendResult]:
    with sync.Producer(fresh("P"), namesrv=namesrv, linger_ms=2) as producer:
        futures = [
            producer.enqueue(Message(topic, body), ordering_key=key, timeout_s=DEADLINE_S) for key, body in numbered
        ]
        producer.flush()
        return [future.result(DEADLINE_S) for future in futures]


def _check_order(numbered: list[tuple[str, bytes]], sent: list[SendResult]) -> None:
    for key in KEYS:
        mine = [result for (own, _), result in zip(numbered, sent, strict=True) if own == key]
        assert len({one.queue for one in mine}) == 1
        offsets = [one.queue_offset for one in mine]
        assert offsets == sorted(set(offsets))


async def inner_batches(namesrv: str, directory: Path) -> None:
    """A batch of a topic with batch queues is one record, and comes as its messages, also from an offset inside it."""
    topic = await make_topic(namesrv, 1, {"queue.type": "BatchCQ"})
    inbox = Inbox()
    consumer = PushConsumer(fresh("G"), namesrv=namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(topic)
    async with Producer(fresh("P"), namesrv=namesrv) as producer, PullConsumer(fresh("G"), namesrv=namesrv) as pull:
        messages = [Message(topic, b"%d" % n, tags="T", keys=[f"k{n}"]) for n in range(5)]
        first = await producer.send_batch(messages, timeout_s=DEADLINE_S)
        behind = await producer.send(Message(topic, b"5"), timeout_s=DEADLINE_S)
        assert (first.queue_offset, behind.queue_offset) == (0, 5)
        await _stored(pull, first.queue, 6)
        result = await pull.pull(first.queue, 2)
        found = [(message.queue_offset, message.content(), message.keys) for message in result.messages()]
        assert found[:3] == [(n, b"%d" % n, f"k{n}") for n in (2, 3, 4)]
        assert await pull.max_offset(first.queue) == 6
    async with consumer:
        await until(lambda: len(inbox.messages) >= 6, "six messages")
    assert sorted((one.queue_offset, one.body) for one in inbox.messages) == [(n, b"%d" % n) for n in range(6)]


async def timers_and_recall(namesrv: str, directory: Path) -> None:
    """Timer messages come when they are due and never before; a recalled one does not come."""
    topic, inbox = await make_topic(namesrv), Inbox()
    consumer = PushConsumer(fresh("G"), namesrv=namesrv, on_message=inbox, consume_from="first")
    consumer.subscribe(topic)
    async with Producer(fresh("P"), namesrv=namesrv) as producer, consumer:
        begun_ms = time.time_ns() // 1_000_000
        gone = await producer.send(Message(topic, b"gone", deliver_at_ms=begun_ms + 2000), timeout_s=DEADLINE_S)
        await producer.send(Message(topic, b"at", deliver_at_ms=begun_ms + 2500), timeout_s=DEADLINE_S)
        await producer.send(Message(topic, b"in", delay_ms=2500), timeout_s=DEADLINE_S)
        assert await producer.recall(topic, gone.recall_handle) == gone.message_id
        await until(lambda: set(inbox.bodies) >= {b"at", b"in"}, "two timers")
        with pytest.raises(RefusedError, match="timestamp invalid"):
            await producer.recall(topic, gone.recall_handle)
    assert set(inbox.bodies) == {b"at", b"in"}
    assert all(message.store_timestamp_ms >= begun_ms + 2500 for message in inbox.messages)


SENDING_SCENARIOS = [batches, order_by_key, inner_batches, timers_and_recall]
