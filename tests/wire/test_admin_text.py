"""Bodies in steps: the same text as in one go, small steps, and an end for bodies that no client could take."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from pymq.errors import Refusal
from pymq.model import fastjson
from pymq.model.message import MessageQueue
from pymq.model.tables import TopicConfig
from pymq.wire.admin_text import encode_in_steps, encode_table_in_steps, encode_whole
from pymq.wire.bodies_admin import ConsumeOffset, ConsumeStats, ConsumeTimeSpans, QueueTimeSpan, SubscriptionAnswer
from pymq.wire.bodies_client import QueueName


def result(steps: Generator[None, None, bytes]) -> tuple[bytes, int]:
    """Return the text and how often its making could rest."""
    rests = 0
    while True:
        try:
            next(steps)
            rests += 1
        except StopIteration as stop:
            return stop.value, rests


def consume_stats(count: int) -> ConsumeStats:
    offsets = {MessageQueue('T"ü', "b", i): ConsumeOffset(broker_offset=i) for i in range(count)}
    return ConsumeStats(consume_tps=1.5, offset_table=offsets)


@pytest.mark.parametrize(
    "body",
    [
        ConsumeStats(),
        consume_stats(1),
        consume_stats(1000),
        ConsumeTimeSpans(
            consume_time_span_set=[
                QueueTimeSpan(message_queue=QueueName(topic="T", broker_name="b", queue_id=i)) for i in range(200)
            ]
        ),
        SubscriptionAnswer(group="g", topic="T"),
    ],
)
def test_steps_make_the_same_text(body: Any) -> None:
    text, _ = result(encode_in_steps(body))
    assert text == encode_whole(body)


def test_queue_keys_are_objects_and_nulls_are_left_out() -> None:
    parsed = fastjson.loads(encode_whole(consume_stats(2)))
    assert parsed["consumeTps"] == 1.5
    assert parsed["offsetTable"][MessageQueue('T"ü', "b", 1)]["brokerOffset"] == 1
    assert json.loads(encode_whole(SubscriptionAnswer(group="g", topic="T"))) == {"group": "g", "topic": "T"}


def test_a_large_body_rests_often() -> None:
    assert result(encode_in_steps(consume_stats(6400)))[1] >= 100


def test_a_body_beyond_a_frame_is_refused_before_it_is_whole() -> None:
    steps = encode_in_steps(consume_stats(100_000), size_max_bytes=10_000)
    with pytest.raises(Refusal, match="more than 10000 bytes"):
        result(steps)
    size = len(encode_whole(consume_stats(3)))
    assert len(result(encode_in_steps(consume_stats(3), size_max_bytes=size))[0]) == size
    with pytest.raises(Refusal):
        result(encode_in_steps(consume_stats(3), size_max_bytes=size - 1))


def test_tables_are_strict_json_in_steps() -> None:
    topics = {f"T{i}": TopicConfig(topic_name=f"T{i}") for i in range(1200)}
    table = {"version": None, "topics": topics, "empty": {}, "offsets": {"T@g": {0: 1}}}
    text, rests = result(encode_table_in_steps(table))
    assert msgspec.json.decode(text) == msgspec.json.decode(msgspec.json.encode(table)) and rests >= 3
    with pytest.raises(Refusal):
        result(encode_table_in_steps(table, size_max_bytes=1000))
