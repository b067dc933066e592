"""PoppedQueue: how popped messages are settled, with a clock moved by hand and brokers that are not asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client import ConsumeResult, PushConsumer, popped_queue
from pymq.client.popped_queue import PoppedQueue
from pymq.client.received import Received
from pymq.clock import ManualClock
from pymq.errors import RefusedError, UsageError
from pymq.model.message import MessageQueue
from pymq.model.record import StoredMessage
from tests.client.messages import message as stored

QUEUE = MessageQueue("T", "broker-a", -1)


class NotedPopping:
    """Notes what would be asked of a broker, which refuses a message with the body ``gone``."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, int]] = []

    async def ack(self, received: Received) -> None:
        self._ask("ack", received, 0)

    async def give_back(self, received: Received, invisible_ms: int = 0) -> None:
        self._ask("give back", received, invisible_ms)

    def _ask(self, what: str, received: Received, invisible_ms: int) -> None:
        self.asked.append((what, received.message.body, invisible_ms))
        if received.message.body == b"gone":
            raise RefusedError(208, "the receipt is over", "broker-a")


def filled(*bodies: bytes, **settings: Any) -> tuple[PoppedQueue, NotedPopping, list[StoredMessage], ManualClock]:
    """Return a queue with one message of each body, all with the same queue offset."""
    clock = ManualClock()
    consumer = PushConsumer("G", on_message=lambda messages: None, client_rebalance=False, clock=clock, **settings)
    popping: Any = NotedPopping()
    queue = PoppedQueue(QUEUE, consumer._state, popping)
    found = [Received(stored(body), "receipt", "T", "broker-a") for body in bodies]
    return queue, popping, queue.take(found, clock.monotonic_ms()), clock


def test_results_become_acknowledgements_and_delays() -> None:
    queue, popping, (done, later, last), _ = filled(b"done", b"later", b"last")
    assert queue.count == 3
    last.reconsume_times = 2
    asyncio.run(queue.settle([done], ConsumeResult.SUCCESS))
    asyncio.run(queue.settle([later, last], ConsumeResult.RECONSUME_LATER))
    assert popping.asked == [("ack", b"done", 0), ("give back", b"later", 10_000), ("give back", b"last", 60_000)]
    assert (queue.count, queue.size_bytes) == (0, 0)


def test_a_given_delay_level_counts() -> None:
    queue, popping, messages, _ = filled(b"x", delay_level=2)
    asyncio.run(queue.settle(messages, ConsumeResult.RECONSUME_LATER))
    assert popping.asked == [("give back", b"x", 5000)]


@pytest.mark.parametrize("is_taken", [True, False])
def test_dead_letters_are_acknowledged_once_they_are_stored(is_taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def send_back(state: object, message: StoredMessage, level: int) -> bool:
        assert level == -1
        return is_taken

    monkeypatch.setattr(popped_queue, "send_back", send_back)
    queue, popping, (asked, tried), _ = filled(b"asked", b"tried", max_reconsume_times=3)
    tried.reconsume_times = 3
    asyncio.run(queue.settle([asked], ConsumeResult.DEAD_LETTER))
    asyncio.run(queue.settle([tried], ConsumeResult.RECONSUME_LATER))
    assert popping.asked == ([("ack", b"asked", 0), ("ack", b"tried", 0)] if is_taken else [])


def test_what_waited_for_too_long_is_left_to_the_broker() -> None:
    queue, popping, messages, clock = filled(b"a", b"b", invisible_ms=5000)
    clock.advance(4999)
    assert not queue.is_over(messages)
    clock.advance(1)
    assert queue.is_over(messages)
    asyncio.run(queue.give_all_back())
    assert popping.asked == [] and queue.count == 0


def test_a_stop_gives_the_rest_back_even_if_one_is_refused() -> None:
    queue, popping, _, _ = filled(b"gone", b"b")
    asyncio.run(queue.give_all_back())
    assert popping.asked == [("give back", b"gone", 0), ("give back", b"b", 0)] and queue.count == 0


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"orderly": True}, "orderly=True excludes client_rebalance=False"),
        ({"broadcasting": True}, "broadcasting=True excludes client_rebalance=False"),
        ({"strategy": "CONSISTENT_HASH"}, "use AVG or AVG_BY_CIRCLE"),
        ({"invisible_ms": 4999}, "use 5000 to 300000"),
    ],
)
def test_settings_that_brokers_can_not_assign_for_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        PushConsumer("G", on_message=lambda messages: None, client_rebalance=False, **settings)


def test_filters_of_the_client_are_refused() -> None:
    consumer = PushConsumer("G", on_message=lambda messages: None, client_rebalance=False)
    with pytest.raises(UsageError, match="use tags or sql"):
        consumer.subscribe("T", filter="jsonpath", expression="$.total")
