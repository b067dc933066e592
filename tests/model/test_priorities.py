"""The priority of raw properties, the queue that it gives, and how often a group's pops go by it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.model.priorities import FACTOR_MAX, factor_of, priority_of, routed
from pymq.model.properties import decode_properties, encode_properties
from pymq.model.tables import SubscriptionGroupConfig, TopicConfig

NAME = "_SYS_MSG_PRIORITY_"


def _java_int(text: str) -> int:
    """Return what Java's NumberUtils.toInt(text, -1) does, for ASCII text."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return -1
    return int(text) if -(2**31) <= int(text) < 2**31 else -1


@given(st.text("0123456789+- a.", max_size=11), st.integers(1, 16), st.integers(0, 20))
def test_a_priority_is_read_as_java_reads_it(text: str, queues: int, asked: int) -> None:
    raw = encode_properties({"TAGS": "A", NAME: text, "UNIQ_KEY": "k"})
    wanted = _java_int(text)
    assert priority_of(raw) == (wanted if wanted >= 0 else None)
    assert routed(raw, asked, queues) == (raw, min(wanted, queues - 1) if wanted >= 0 else asked)


def test_names_that_only_look_like_it_are_none() -> None:
    for raw in (b"", b"X_SYS_MSG_PRIORITY_\x013\x02", b"k\x01_SYS_MSG_PRIORITY_\x02", b"_SYS_MSG_PRIORITY_2\x013\x02"):
        assert priority_of(raw) is None and routed(raw, 5, 8) == (raw, 5)


@pytest.mark.parametrize("other", [{"TRAN_MSG": "true"}, {"DELAY": "2"}, {"__SHARDINGKEY": "s"}])
def test_other_types_lose_a_priority_alone(other: dict[str, str]) -> None:
    properties, queue_id = routed(encode_properties({"a": "b", NAME: "3", **other}), 1, 8)
    assert (decode_properties(properties), queue_id) == ({"a": "b", **other}, 1)


@pytest.mark.parametrize(
    ("factor", "percent"),
    [(None, 100), ("0", 0), ("50", 50), ("100", 100), ("101", 100), ("x", 100), ("-1", 100), ("1" * 9, 100)],
)
def test_the_factor_of_a_group(factor: str | None, percent: int) -> None:
    group = SubscriptionGroupConfig(group_name="g", attributes={} if factor is None else {"priority.factor": factor})
    topic = TopicConfig(topic_name="T", attributes={"message.type": "PRIORITY"})
    assert factor_of(topic, group) == percent <= FACTOR_MAX
    for attributes in ({}, {"message.type": "NORMAL"}, {"queue.type": "SimpleCQ"}):
        assert factor_of(TopicConfig(topic_name="T", attributes=attributes), group) == 0
