"""OrderedSends: order in each queue over failures, batches within their limits, and what a failure means for others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from pymq.client import ordered_sends
from pymq.client.ordered_sends import OrderedSends
from pymq.client.producer import COMPRESS_ABOVE_BYTES, Producer
from pymq.errors import NotFoundError, PymqError, RefusedError, UnreachableError
from pymq.model.message import Message, MessageQueue
from pymq.wire.codes import ResponseCode

FIRST, SECOND = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)
ILLEGAL = RefusedError(ResponseCode.MESSAGE_ILLEGAL, "too large")
BUSY = RefusedError(ResponseCode.SYSTEM_BUSY, "busy")


class Broker:
    """Takes the place of a producer: stores what it is sent, after the failures that a test planned."""

    def __init__(self) -> None:
        self.stored: dict[MessageQueue, list[bytes]] = {FIRST: [], SECOND: []}
        self.requests: list[list[bytes]] = []
        self.failures: list[PymqError] = []
        self.refused_bodies: set[bytes] = set()
        self.under_way: set[MessageQueue] = set()

    async def send(self, message: Message, *, queue: MessageQueue) -> None:
        await self.send_batch([message], queue=queue)

    async def send_batch(self, messages: Sequence[Message], *, queue: MessageQueue) -> None:
        assert queue not in self.under_way, "one request at a time for each queue"
        self.under_way.add(queue)
        await asyncio.sleep(0)
        self.under_way.discard(queue)
        self.requests.append([message.body for message in messages])
        if self.failures:
            raise self.failures.pop(0)
        if any(message.body in self.refused_bodies for message in messages):
            raise ILLEGAL
        self.stored[queue] += [message.body for message in messages]


def send_all(
    broker: Broker, messages: list[tuple[Message, MessageQueue]], **options: Any
) -> list[tuple[bytes, PymqError | None]]:
    """Send the messages and return the result of each, in the order of the results."""
    results: list[tuple[bytes, PymqError | None]] = []

    async def scenario() -> None:
        sends = OrderedSends(cast(Producer, broker), **options)
        for message, queue in messages:

            def done(error: PymqError | None, body: bytes = message.body) -> None:
                results.append((body, error))

            await sends.put(message, queue, done)
        await sends.flush()

    asyncio.run(scenario())
    return results


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_sends, "PAUSE_FIRST_S", 0.0)


def numbered(count: int, queue: MessageQueue = FIRST) -> list[tuple[Message, MessageQueue]]:
    return [(Message("t", b"%d" % at), queue) for at in range(count)]


def bodies(count: int) -> list[bytes]:
    return [b"%d" % at for at in range(count)]


def test_each_queue_keeps_its_order_and_fills_its_batches() -> None:
    broker = Broker()
    mixed = [pair for two in zip(numbered(100), numbered(100, SECOND), strict=True) for pair in two]
    assert {error for _, error in send_all(broker, mixed, retry_count=0, batch_count=10)} == {None}
    assert broker.stored == {FIRST: bodies(100), SECOND: bodies(100)}
    assert max(map(len, broker.requests)) == 10


@pytest.mark.parametrize("error", [BUSY, UnreachableError("gone"), NotFoundError("no route")])
def test_without_an_end_of_retries_nothing_overtakes_what_fails(error: PymqError) -> None:
    broker = Broker()
    broker.failures = [error] * 7
    heard: list[PymqError | None] = []
    results = send_all(broker, numbered(20), retry_count=None, on_trouble=lambda _, what: heard.append(what))
    assert [body for body, _ in results] == bodies(20) and {what for _, what in results} == {None}
    assert broker.stored[FIRST] == bodies(20)
    assert heard == [error] * 7 + [None]


def test_retries_that_are_used_up_fail_the_message_alone() -> None:
    broker = Broker()
    broker.failures = [BUSY] * 4  # twice for the batch, twice for its first message
    results = send_all(broker, numbered(5), retry_count=1)
    assert results == [(b"0", BUSY), *((body, None) for body in bodies(5)[1:])]
    assert broker.stored[FIRST] == bodies(5)[1:]


def test_a_message_that_is_refused_stops_its_queue_if_asked() -> None:
    broker = Broker()
    broker.refused_bodies = {b"2"}
    pairs = [*numbered(5), *numbered(2, SECOND)]
    results = send_all(broker, pairs, retry_count=None, stops_after_failure=True)
    assert broker.stored == {FIRST: bodies(2), SECOND: bodies(2)}
    assert [body for body, error in results if error is ILLEGAL] == [b"2", b"3", b"4"]


def test_large_and_delayed_messages_leave_alone() -> None:
    broker = Broker()
    large = b"x" * (COMPRESS_ABOVE_BYTES + 1)
    messages = [Message("t", b"a"), Message("t", large), Message("t", b"b"), Message("t", b"c", delay_level=1)]
    send_all(broker, [(message, FIRST) for message in messages], retry_count=0)
    assert broker.requests == [[b"a"], [large], [b"b"], [b"c"]]
