"""Messages from what people write, and copies of stored ones."""

from __future__ import annotations

import asyncio
import zlib
from datetime import UTC
from types import SimpleNamespace
from typing import Any

import pytest

from pymq.client import Message, MessageQueue, SendResult
from pymq.client.outgoing import BODY_SIZE_MAX_BYTES
from pymq.errors import NotFoundError, UsageError
from pymq.model import sysflag
from pymq.model.message import SendStatus
from pymq.operations.message.sending import (
    check,
    copy_to_send,
    find_queue,
    new_message,
    result_record,
    send_one,
    with_timer,
)
from pymq.operations.queues import QueueChoice
from tests.console.messages.world import stored

NOW_MS = 1_700_000_000_000


def test_a_message_is_made_of_what_is_written() -> None:
    made = new_message("orders", b"x", tags="paid", keys=["a", "b"], properties={"color": "red"}, delay_level=3)
    assert made == Message("orders", b"x", tags="paid", keys="a b", properties={"color": "red"}, delay_level=3)
    for wrong in ({"properties": {"KEYS": "x"}}, {"delay_level": 19}, {"delay_level": -1}):
        arguments: dict[str, Any] = wrong
        with pytest.raises(UsageError):
            new_message("orders", **arguments)
    with pytest.raises(UsageError):
        new_message("a b")


def test_a_message_has_one_delay() -> None:
    plain = new_message("orders")
    assert with_timer(plain, None, None, NOW_MS) is plain
    assert with_timer(plain, "90s", None, NOW_MS).delay_ms == 90_000
    assert with_timer(plain, None, "2026-01-31T12:00", NOW_MS, UTC).deliver_at_ms == 1_769_860_800_000
    for message, delay, deliver_at in (
        (plain, "1s", "now"),
        (new_message("orders", delay_level=1), "1s", None),
        (plain, "soon", None),
        (plain, None, "soon"),
    ):
        with pytest.raises(UsageError):
            with_timer(message, delay, deliver_at, NOW_MS)


def test_a_copy_has_what_an_application_gave() -> None:
    given = {"TAGS": "paid", "KEYS": "a b", "color": "red", "__SHARDINGKEY": "k"}
    written = {"UNIQ_KEY": "7F01", "PYMQ_RESEND": "2", "RETRY_TOPIC": "x", "DELAY": "3", "WAIT": "true"}
    packed = zlib.compress(b"body " * 100)
    copy = copy_to_send(stored(0, packed, sys_flag=sysflag.COMPRESSED, **given, **written), "copies")  # type: ignore[arg-type]
    assert (copy.topic, copy.body, copy.tags, copy.keys) == ("copies", b"body " * 100, "paid", "a b")
    assert copy.properties == {"color": "red", "__SHARDINGKEY": "k"} and not copy.is_delayed


@pytest.mark.parametrize("body", [b"no zlib", zlib.compress(b"x" * (BODY_SIZE_MAX_BYTES + 1))])
def test_a_body_that_can_t_be_inflated_is_not_copied(body: bytes) -> None:
    with pytest.raises(UsageError, match="can't be sent again"):
        copy_to_send(stored(0, body, sys_flag=sysflag.COMPRESSED), "copies")


def test_what_a_producer_would_refuse_is_found_before_one_is_there() -> None:
    check(Message("orders", b"x" * BODY_SIZE_MAX_BYTES))
    for message in (
        Message("orders", b""),
        Message("orders", b"x" * (BODY_SIZE_MAX_BYTES + 1)),
        Message("orders", b"x", tags="a\x01b"),
        Message("orders", b"x", properties={"REAL_TOPIC": "x"}),
        Message("orders", b"x", properties={"long": "x" * 40_000}),
        Message("orders", b"x", delay_level=1, delay_ms=5),
    ):
        with pytest.raises(UsageError):
            check(message)


class FakeProducer:
    """Keeps what it is to send."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    async def send(self, message: Message, **asked: Any) -> SendResult:
        self.asked = asked
        queue = MessageQueue(message.topic, "broker-a", 1)
        return SendResult(SendStatus.SEND_OK, "7F01", "0A00", queue, 17)


def test_a_sharding_key_chooses_the_queue_unless_one_is_given() -> None:
    producer: Any = FakeProducer()
    keyed = Message("orders", b"x", properties={"__SHARDINGKEY": "k"})
    queue = MessageQueue("orders", "broker-a", 1)
    result = asyncio.run(send_one(producer, keyed, None))
    assert producer.asked == {"queue": None, "ordering_key": "k"}
    asyncio.run(send_one(producer, keyed, queue))
    assert producer.asked == {"queue": queue, "ordering_key": None}
    asyncio.run(send_one(producer, Message("orders", b"x"), None))
    assert producer.asked == {"queue": None, "ordering_key": None}
    assert result_record(result) == {
        "status": "SEND_OK",
        "topic": "orders",
        "broker": "broker-a",
        "queue": 1,
        "offset": 17,
        "message_id": "7F01",
        "offset_message_id": "0A00",
    }


def test_a_queue_is_one_of_one_broker() -> None:
    async def route(topic: str) -> Any:
        brokers = {"broker-a": 4, "broker-b": 2}
        return SimpleNamespace(
            queue_datas=[SimpleNamespace(broker_name=name, write_queue_nums=count) for name, count in brokers.items()]
        )

    admin: Any = SimpleNamespace(topics=SimpleNamespace(route=route))
    found = asyncio.run(find_queue(admin, "orders", QueueChoice(None, 3)))
    assert found == MessageQueue("orders", "broker-a", 3)
    assert asyncio.run(find_queue(admin, "orders", QueueChoice("broker-c", 9))).broker_name == "broker-c"
    with pytest.raises(UsageError, match="broker-a, broker-b"):
        asyncio.run(find_queue(admin, "orders", QueueChoice(None, 1)))
    with pytest.raises(NotFoundError):
        asyncio.run(find_queue(admin, "orders", QueueChoice(None, 4)))
