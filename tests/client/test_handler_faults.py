"""Handlers that hang or give messages up, in a consumer: a defined outcome, and the others go on."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from pymq.client import ConsumeResult, MessageQueue, PushConsumer
from pymq.client.consumer_settings import ConsumerSettings
from pymq.errors import UsageError
from pymq.model.record import StoredMessage
from pymq.wire.codes import RequestCode, ResponseCode
from pymq.wire.header import decode_header
from pymq.wire.headers.send import ConsumerSendMsgBackHeader, SendMessageV2Header
from tests.client.fake_group import FakeGroup
from tests.client.scenarios import Inbox, until
from tests.client.test_push_consumer import run

QUEUE = MessageQueue("T", "b", 0)


def put(group: FakeGroup, count: int = 3) -> None:
    for number in range(count):
        group.put(b"%d" % number)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_time_out_is_above_zero(seconds: float) -> None:
    with pytest.raises(UsageError, match="consume_timeout_s is "):
        ConsumerSettings(consume_timeout_s=seconds).check()


def test_a_coroutine_that_hangs_is_cancelled_and_its_message_sent_back() -> None:
    cancelled = []

    async def handle(messages: list[StoredMessage]) -> None:
        if messages[0].content() == b"0":
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(messages[0].queue_offset)

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        command = await group.server.wait_for(RequestCode.CONSUMER_SEND_MSG_BACK)
        assert decode_header(ConsumerSendMsgBackHeader, command.ext).offset == 1000
        await until(lambda: consumer._state.offsets.current(QUEUE) == 3, "the offset behind all")
        assert cancelled == [0]

    run(scenario, handler=handle, prepare=put, consume_timeout_s=0.1, concurrency_max=1)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_message_of_a_call_that_nothing_ends_comes_again(asynchronous: bool, caplog: Any) -> None:
    gate = threading.Event()

    def handle(messages: list[StoredMessage]) -> None:
        if messages[0].content() == b"0":
            gate.wait(50)

    async def stubborn(messages: list[StoredMessage]) -> None:
        while messages[0].content() == b"0" and not gate.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await group.server.wait_for(RequestCode.CONSUMER_SEND_MSG_BACK)
        await until(lambda: consumer._state.offsets.current(QUEUE) == 3, "the offset behind all")
        gate.set()
        # The call's late result changes nothing, and its place is free again.
        await until(lambda: not consumer._consumption._running_count(), "the end of the call")  # type: ignore[attr-defined]
        assert group.server.count(RequestCode.CONSUMER_SEND_MSG_BACK) == 1
        assert "runs for more than consume_timeout_s=0.1 on ['U0-0']" in caplog.text

    run(
        scenario,
        handler=stubborn if asynchronous else handle,
        prepare=put,
        consume_timeout_s=0.1,
        concurrency_max=2,
    )


def test_a_queue_in_order_waits_for_a_thread_that_hangs(caplog: Any) -> None:
    gate = threading.Event()
    seen: list[bytes] = []

    def handle(messages: list[StoredMessage]) -> None:
        seen.append(messages[0].content())
        if len(seen) == 1:
            gate.wait(50)

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: "the queue waits, to keep its order" in caplog.text, "the line in the log")
        assert seen == [b"0"]
        gate.set()
        await until(lambda: len(seen) == 3, "all messages")
        assert seen == [b"0", b"1", b"2"]

    run(scenario, handler=handle, prepare=put, consume_timeout_s=0.1, orderly=True)


def test_a_queue_in_order_calls_again_after_a_cancelled_coroutine() -> None:
    seen: list[bytes] = []

    async def handle(messages: list[StoredMessage]) -> None:
        seen.append(messages[0].content())
        if len(seen) == 1:
            await asyncio.Event().wait()

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        await until(lambda: len(seen) == 4, "all messages")
        assert seen == [b"0", b"0", b"1", b"2"]

    run(scenario, handler=handle, prepare=put, consume_timeout_s=0.1, orderly=True, suspend_ms=1)


async def give_up_the_first(messages: list[StoredMessage]) -> ConsumeResult:
    return ConsumeResult.DEAD_LETTER if messages[0].content() == b"0" else ConsumeResult.SUCCESS


def test_a_handler_sends_a_message_to_the_dead_letters_at_once() -> None:
    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        command = await group.server.wait_for(RequestCode.CONSUMER_SEND_MSG_BACK)
        assert decode_header(ConsumerSendMsgBackHeader, command.ext).delay_level == -1
        await until(lambda: consumer._state.offsets.current(QUEUE) == 3, "the offset behind all")

    run(scenario, handler=give_up_the_first, prepare=put)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_copy_beyond_the_limit_becomes_a_dead_letter(orderly: bool) -> None:
    def prepare(group: FakeGroup) -> None:
        group.server.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR)
        put(group)

    async def scenario(group: FakeGroup, consumer: PushConsumer, inbox: Inbox) -> None:
        command = await group.server.wait_for(RequestCode.SEND_MESSAGE_V2)
        header = decode_header(SendMessageV2Header, command.ext)
        assert (header.topic, header.reconsume_times, header.max_reconsume_times) == ("%RETRY%G", 1, 0)
        await until(lambda: consumer._state.offsets.current(QUEUE) == 3, "the offset behind all")

    run(scenario, handler=give_up_the_first, prepare=prepare, orderly=orderly)
