"""The type of a message, and what a topic with a type takes."""

from __future__ import annotations

import pytest

from pymq.model.message_types import TYPES, message_type, type_problem, wanted_type
from pymq.model.properties import encode_properties

KINDS = {
    "NORMAL": [{}, {"TAGS": "A"}, {"DELAY": "0"}, {"TRAN_MSG": "false"}, {"SHARDINGKEY": "x"}, {"XDELAY": "3"}],
    "FIFO": [{"__SHARDINGKEY": "k"}],
    "DELAY": [{"DELAY": "3"}, {"__STARTDELIVERTIME": "9"}, {"DELAY": "1", "__SHARDINGKEY": "k"}],
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
