"""What becomes of a message whose handler fails, by acknowledgement policy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from faststream import AckPolicy
from faststream.exceptions import AckMessage, NackMessage, RejectMessage
from pymq_faststream import PymqBroker, PymqMessage, PymqRouter, TestPymqBroker
from pymq_faststream.testing import _stored

from pymq.client import ConsumeResult, Message
from pymq.model import sysflag
from pymq.testing.broker import TestBroker

pytestmark = pytest.mark.anyio
WAIT_S = 20.0
SUCCESS, LATER, DEAD = ConsumeResult.SUCCESS, ConsumeResult.RECONSUME_LATER, ConsumeResult.DEAD_LETTER
Policy = AckPolicy


async def result_of(
    act: Callable[[PymqMessage], Any], body: bytes = b"1", sys_flag: int = 0, **options: Any
) -> ConsumeResult:
    """Return what PyMQ is told after a handler did ``act``."""
    broker = PymqBroker(logger=None)
    subscriber = broker.subscriber("t", **options)

    @subscriber
    async def handle(value: Any, message: PymqMessage) -> None:
        if (acting := act(message)) is not None:
            await acting

    raw = _stored(Message("t", body, properties={"content-type": "application/json"}))
    async with TestPymqBroker(broker):
        return await subscriber._on_messages([replace(raw, sys_flag=sys_flag)])


def nothing(message: PymqMessage) -> None: ...


def raising(error: BaseException) -> Callable[[PymqMessage], None]:
    def act(message: PymqMessage) -> None:
        raise error

    return act


@pytest.mark.parametrize(
    ("policy", "done", "failed"),
    [
        (Policy.ACK_FIRST, SUCCESS, SUCCESS),
        (Policy.ACK, SUCCESS, SUCCESS),
        (Policy.REJECT_ON_ERROR, SUCCESS, DEAD),
        (Policy.NACK_ON_ERROR, SUCCESS, LATER),
        (Policy.MANUAL, LATER, LATER),
    ],
)
async def test_each_policy(policy: AckPolicy, done: ConsumeResult, failed: ConsumeResult) -> None:
    assert await result_of(nothing, ack_policy=policy) is done
    assert await result_of(raising(ValueError("no")), ack_policy=policy) is failed
    assert await result_of(nothing, b"{no json", ack_policy=policy) is failed
    assert await result_of(nothing, b"no zlib", sysflag.COMPRESSED, ack_policy=policy) is failed
    batch: dict[str, Any] = {"ack_policy": policy, "batch": True}
    assert await result_of(nothing, **batch) is done
    assert await result_of(nothing, b"{no json", **batch) is failed


async def test_nack_on_error_is_the_default_and_outer_policies_count() -> None:
    assert await result_of(raising(ValueError("no"))) is LATER
    router = PymqRouter("a-", ack_policy=Policy.REJECT_ON_ERROR)
    inner, own = router.subscriber("t"), router.subscriber("u", ack_policy=Policy.ACK)
    broker = PymqBroker(ack_policy=Policy.ACK_FIRST, routers=[router])
    assert (inner.ack_policy, own.ack_policy) == (Policy.REJECT_ON_ERROR, Policy.ACK)
    assert broker.subscriber("x").ack_policy is Policy.ACK_FIRST


@pytest.mark.parametrize(
    ("error", "result"), [(AckMessage(), SUCCESS), (NackMessage(), LATER), (RejectMessage(), DEAD)]
)
async def test_a_handler_decides_by_what_it_raises(error: Exception, result: ConsumeResult) -> None:
    for policy in (Policy.REJECT_ON_ERROR, Policy.NACK_ON_ERROR, Policy.ACK):
        assert await result_of(raising(error), ack_policy=policy) is result


@pytest.mark.parametrize(("verb", "result"), [("ack", SUCCESS), ("nack", LATER), ("reject", DEAD)])
async def test_a_handler_decides_by_hand_and_the_first_word_counts(verb: str, result: ConsumeResult) -> None:
    async def twice(message: PymqMessage) -> None:
        await getattr(message, verb)()
        await message.ack()
        await message.nack()

    for policy in (Policy.MANUAL, Policy.NACK_ON_ERROR):
        assert await result_of(twice, ack_policy=policy) is result


async def test_what_is_given_back_comes_again_and_ends_as_a_dead_letter(
    server: TestBroker, broker: PymqBroker, topic: str
) -> None:
    tries: asyncio.Queue[int] = asyncio.Queue()

    @broker.subscriber(topic, group=topic, retry_delay_level=1, max_retries=1)
    async def handle(body: str, message: PymqMessage) -> None:
        await tries.put(message.retry_count)
        assert message.topic == topic
        raise ValueError(body)

    dead = broker.subscriber(f"%DLQ%{topic}", group=f"{topic}-dead", consume_from="first")
    async with broker:
        await broker.start()
        await broker.publish("x", topic)
        async with asyncio.timeout(WAIT_S):
            assert [await tries.get(), await tries.get()] == [0, 1]
            letter = None
            while letter is None:
                letter = await dead.get_one(timeout=1)
    assert await letter.decode() == "x"
    assert tries.empty()


async def test_a_body_that_no_handler_can_read_is_rejected_and_the_rest_goes_on(broker: PymqBroker, topic: str) -> None:
    inbox: asyncio.Queue[int] = asyncio.Queue()

    @broker.subscriber(topic, group=topic, ack_policy=Policy.REJECT_ON_ERROR)
    async def handle(number: int) -> None:
        await inbox.put(number)

    dead = broker.subscriber(f"%DLQ%{topic}", group=f"{topic}-dead", consume_from="first")
    async with broker:
        await broker.start()
        await broker.publish(b"\xff\xfe", topic, headers={"content-type": "text/plain"})
        await broker.publish(b"{", topic, headers={"content-type": "application/json"})
        await broker.publish("no number", topic)
        await broker.publish(b"[" * 100_000, topic)
        await broker.publish(5, topic)
        async with asyncio.timeout(WAIT_S):
            assert await inbox.get() == 5
            bodies: list[bytes] = []
            while len(bodies) < 4:
                if (letter := await dead.get_one(timeout=1)) is not None:
                    bodies.append(letter.body)
    assert sorted(bodies) == [b"[" * 100_000, b"no number", b"{", b"\xff\xfe"]
    assert inbox.empty()
