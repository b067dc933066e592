"""Positions in addresses."""

from __future__ import annotations

import pytest

from pymq.client import MessageQueue
from pymq.console.messages.positions import POSITION_LENGTH_MAX, decode_position, encode_position
from pymq.console.web.parameters import BadRequest
from pymq.operations.message.search import QUEUES_MAX


def test_a_position_comes_back_whatever_brokers_are_called() -> None:
    names = ("broker-a", "a~b", "~~", "50%", "ä:1", "0-1")
    reached = {MessageQueue("orders", name, number): number * 7 for name in names for number in (0, 3)}
    text = encode_position(reached)
    assert decode_position("at", "orders", text) == reached and text.isascii()


def test_the_position_of_as_many_queues_as_a_search_reads_fits() -> None:
    reached = {MessageQueue("orders", f"broker-{at % 16}", at): 10**12 for at in range(QUEUES_MAX)}
    assert len(encode_position(reached)) < POSITION_LENGTH_MAX


@pytest.mark.parametrize(
    "text", ["x", "broker-a~1", "broker-a~1-2-3", "broker-a~-1-2", "~1-٣", "broker-a~1-" + "9" * 20, "~~"]
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="at"):
        decode_position("at", "orders", text)
