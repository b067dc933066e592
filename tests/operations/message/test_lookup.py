"""Messages by their place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pymq.client import MessageQueue
from pymq.errors import NotFoundError
from pymq.operations.message.lookup import find_at, parse_place, place_id
from tests.console.messages.world import FakeTopic, stored

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.mark.parametrize("broker", ["broker-a", "a:b", "ä\n"])
def test_a_place_is_a_text_and_back(broker: str) -> None:
    assert parse_place("orders", place_id(broker, 3, 17)) == (MessageQueue("orders", broker, 3), 17)


@pytest.mark.parametrize("text", ["", "7F01", "a:b", ":1:2", "a:1:-2", "a:1:x", "a:1:" + "9" * 20])
def test_another_text_is_no_place(text: str) -> None:
    assert parse_place("orders", text) is None


@pytest.mark.parametrize(("offset", "is_there"), [(4, False), (5, True), (6, False), (7, True), (8, False)])
def test_only_the_message_at_the_very_place_is_found(offset: int, is_there: bool) -> None:
    topic: Any = FakeTopic(stored(5), stored(7))

    async def pull(queue: MessageQueue, offset: int, count_max: int, options: Any, take: Any) -> Any:
        return take(await topic.pull_as(queue, offset, options, count_max=count_max, bytes_max=1))

    if is_there:
        assert asyncio.run(find_at(pull, QUEUE, offset)).queue_offset == offset
    else:
        with pytest.raises(NotFoundError, match="broker-a queue 0 of orders"):
            asyncio.run(find_at(pull, QUEUE, offset))
