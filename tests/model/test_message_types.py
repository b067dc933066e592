"""The type of a message, and what a topic with a type takes."""

from __future__ import annotations

import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st

from pymq.model.message_types import MARKS, TYPES, message_type, type_problem, wanted_type
from pymq.model.properties import decode_properties, encode_properties

KINDS = {
    "NORMAL": [{}, {"TAGS": "A"}, {"DELAY": "0"}, {"TRAN_MSG": "false"}, {"SHARDINGKEY": "x"}, {"XDELAY": "3"}],
    "FIFO": [{"__SHARDINGKEY": "k"}, {"__SHARDINGKEY": "k", "_SYS_MSG_PRIORITY_": "3"}],
    "DELAY": [{"DELAY": "3"}, {"__STARTDELIVERTIME": "9"}, {"DELAY": "1", "__SHARDINGKEY": "k"}],
    "PRIORITY": [{"_SYS_MSG_PRIORITY_": "3"}, {"_SYS_MSG_PRIORITY_": "3", "DELAY": "0"}],
    "TRANSACTION": [{"TRAN_MSG": "true"}, {"TRAN_MSG": "True", "__SHARDINGKEY": "k"}],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "given"), [(kind, given) for kind, rows in KINDS.items() for given in rows])
def test_a_topic_takes_messages_of_its_type_alone(kind: str, given: dict[str, str]) -> None:
    properties = encode_properties(given)
    assert message_type(properties) == kind
    for wanted in TYPES:
        problem = type_problem("T", wanted, properties)
        assert (problem is None) == (wanted == kind)
        assert problem is None or (wanted in problem and kind in problem and "message.type" in problem)


@pytest.mark.parametrize("value", ["UNSPECIFIED", "MIXED"])
def test_a_topic_without_a_type_takes_all(value: str) -> None:
    assert wanted_type({}) is None and wanted_type({"queue.type": "SimpleCQ"}) is None
    assert wanted_type({"message.type": value}) is None
    assert wanted_type({"message.type": "FIFO"}) == "FIFO"


NAMES = st.sampled_from([*sorted(MARKS), "TAGS", "XDELAY", "DELAY2", "TIMER_DELAY", "a"])


@given_any(
    st.lists(st.tuples(NAMES, st.sampled_from(["", "0", "1", "true", "k"])), max_size=4), st.sampled_from("\x02a")
)
def test_a_message_without_a_mark_is_normal(pairs: list[tuple[str, str]], end: str) -> None:
    raw = ("".join(f"{name}\x01{value}\x02" for name, value in pairs) + end).encode()
    if MARKS.isdisjoint(decode_properties(raw)):
        assert message_type(raw) == "NORMAL"
