"""Messages of lite topics: what is refused before it leaves, and the queue that they go to."""

from __future__ import annotations

from typing import Any

import pytest

from pymq.client.outgoing import fits_batch, is_batchable, own_properties, prepare_batch
from pymq.client.queue_picker import queue_of_lite_topic
from pymq.clock import ManualClock
from pymq.errors import UsageError
from pymq.model.ids import UniqueIdMaker
from pymq.model.lite_topics import lite_queue_number
from pymq.model.message import Message, MessageQueue

QUEUES = [MessageQueue("P", broker, number) for broker in ("b", "a") for number in range(3)]


def test_the_lite_topic_is_a_property() -> None:
    message = Message("P", b"m", lite_topic="chat$1")
    message.check()
    encoded, _ = own_properties(message, "U")
    assert encoded == b"__LITE_TOPIC\x01chat$1\x02UNIQ_KEY\x01U\x02"
    assert not is_batchable(message) and not fits_batch(message, encoded)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"lite_topic": "a,b"}, "a comma"),
        ({"lite_topic": " "}, "blank"),
        ({"lite_topic": "n" * 256}, "the limit is 255"),
        ({"lite_topic": 7}, "give text"),
        ({"lite_topic": "a", "delay_level": 1}, "no delay and no priority"),
        ({"lite_topic": "a", "delay_ms": 10}, "no delay and no priority"),
        ({"lite_topic": "a", "priority": 1}, "no delay and no priority"),
    ],
)
def test_what_brokers_refuse_is_refused_before(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Message("P", b"m", **fields).check()


def test_no_batch_and_no_ordering_key() -> None:
    message = Message("P", b"m", lite_topic="a")
    with pytest.raises(UsageError, match="can't be sent as a batch"):
        prepare_batch([message], UniqueIdMaker(ManualClock(), b"\x7f\0\0\1", 1, 1), 1 << 20)
    with pytest.raises(UsageError, match="leave ordering_key out"):
        own_properties(message, "U", ordering_key="k")


def test_the_queue_is_that_of_the_name_whatever_the_order_of_the_route() -> None:
    for number in range(50):
        lite = f"lite-{number}"
        chosen = queue_of_lite_topic(QUEUES, lite)
        assert chosen == queue_of_lite_topic(QUEUES[::-1], lite) == sorted(QUEUES)[lite_queue_number(lite, 6)]
