"""fastjson's dialect: its keys are read, queues are written as objects, invalid text is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.model.fastjson import KEY_LENGTH_MAX, NESTING_MAX, JsonError, loads
from pymq.model.message import MessageQueue
from pymq.wire.admin_text import encode_whole

QUEUE = MessageQueue("T", "broker-a", 3)

numbers = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, width=32)
leaves = st.one_of(numbers.filter(lambda leaf: leaf not in (float("inf"), float("-inf"))), st.text(max_size=8))
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
queues = st.builds(MessageQueue, st.text(max_size=6), st.text(max_size=6), st.integers(0, 2**31 - 1))


def odd(value: Any) -> str:
    """Put strict JSON behind a bare number key, so that the Python parser reads all of it."""
    return "{0:" + json.dumps(value, ensure_ascii=False) + "}"


@given(values)
def test_strict_json_means_the_same_to_both_parsers(value: Any) -> None:
    assert loads(odd(value)) == {"0": loads(json.dumps(value))} == {"0": value}


@given(values)
def test_dumped_text_is_strict_json(value: Any) -> None:
    assert json.loads(encode_whole(value)) == value == loads(encode_whole(value))


@given(st.dictionaries(queues, values, max_size=4), values)
def test_maps_by_queue_survive(table: dict[MessageQueue, Any], other: Any) -> None:
    assert loads(encode_whole({"offsetTable": table, "x": [other, {"deeper": table}]})) == {
        "offsetTable": table,
        "x": [other, {"deeper": table}],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{0:1}", {"0": 1}),
        ("{-1:1,2.5:2}", {"-1": 1, "2.5": 2}),
        ("{true:1,false:2,null:3}", {"true": 1, "false": 2, "null": 3}),
        ("{{}:1}", {"{}": 1}),
        ('{{"b":1,"a":[2]}:3}', {'{"a":[2],"b":1}': 3}),
        ('{{{"x":1}:2}:3}', {'{"{\\"x\\":1}":2}': 3}),
        ('{ 0 : [ 1 , 2 ] , "a" : { } }\r\n\t', {"0": [1, 2], "a": {}}),
        ("[1,{0:2},]", [1, {"0": 2}]),
        ("{0:1,0:2}", {"0": 2}),
        ("{0:1,}", {"0": 1}),
        ('{0:"\\ud83d\\ude00\\u00e9"}', {"0": "😀é"}),
        ('{0:"\\ud83d"}', {"0": "?"}),
        ("{0:-1.5e3}", {"0": -1500.0}),
        ("{0:123456789012345678901234567890}", {"0": 123456789012345678901234567890}),
    ],
)
def test_non_standard_json_is_read_as_fastjson_reads_it(text: str, expected: Any) -> None:
    assert loads(text) == loads(text.encode()) == expected


@pytest.mark.parametrize(
    "key",
    [
        '{"brokerName":"broker-a","queueId":3,"topic":"T"}',
        '{ "topic" : "T" , "queueId" : "3", "brokerName":"broker-a" }',
        '{"topic":"T","brokerName":"broker-a","queueId":3,"more":{"x":[1]}}',
    ],
)
def test_queues_as_keys_with_members_in_any_order(key: str) -> None:
    assert loads("{" + key + ":7}") == {QUEUE: 7}


def test_an_object_that_is_not_a_key_stays_an_object() -> None:
    member = '{"brokerName":"broker-a","queueId":3,"topic":"T"}'
    assert loads("{0:[" + member + "]}") == {"0": [{"brokerName": "broker-a", "queueId": 3, "topic": "T"}]}


def test_queues_are_written_as_fastjson_writes_them() -> None:
    written = '{"brokerName":"broker-a","queueId":3,"topic":"T"}'
    assert encode_whole(QUEUE).decode() == written
    assert encode_whole({QUEUE: {"minOffset": 0}}) == ("{" + written + ':{"minOffset":0}}').encode()
    # As a value a queue is the same object, with or without a map by queue beside it.
    assert encode_whole([QUEUE]) == f"[{written}]".encode()
    assert encode_whole({QUEUE: (QUEUE,)}) == ("{" + written + ":[" + written + "]}").encode()


def test_names_with_quotes_are_escaped_in_keys() -> None:
    queue = MessageQueue('T"\\', "b\n", 0)
    assert loads(encode_whole({queue: 1})) == {queue: 1}
    assert loads(encode_whole({QUEUE: {'"': 1}})) == {QUEUE: {'"': 1}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "[",
        "[1",
        "[1 2]",
        "[,]",
        "{,}",
        "{0}",
        "{0:}",
        "{0:1 2}",
        "{0 1}",
        "{a:1}",
        "{'a':1}",
        "{[1]:2}",
        "{0:1}}",
        "{0:1}x",
        '{0:"',
        '{0:"\\u12"}',
        "{0:--1}",
        "{0:" + "9" * 401 + "}",
        '{{"topic":"T","brokerName":"b","queueId":"x"}:1}',
        '{{"topic":"T","brokerName":"b","queueId":null}:1}',
        '{{"topic":"T","brokerName":"b","queueId":1e999}:1}',
    ],
)
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(JsonError, match="not JSON"):
        loads(text)


def test_invalid_utf_8_and_lone_surrogates_are_replaced() -> None:
    assert loads(b'{0:"\xff"}') == {"0": "\ufffd"}
    assert loads('{0:"\ud800"}') == {"0": "?"}


@pytest.mark.parametrize(("opener", "closer"), [("[", "]"), ('{"a":', "}")])
def test_nesting_at_its_limit(opener: str, closer: str) -> None:
    def nested(depth: int) -> str:
        return "{0:" + opener * depth + "0" + closer * depth + "}"

    assert loads(nested(NESTING_MAX - 1))
    with pytest.raises(JsonError, match=f"deeper than {NESTING_MAX}"):
        loads(nested(NESTING_MAX))


def test_a_keys_length_at_its_limit() -> None:
    room = KEY_LENGTH_MAX - len('{"a":""}')
    assert loads('{{"a":"' + "x" * room + '"}:1}') == {'{"a":"' + "x" * room + '"}': 1}
    with pytest.raises(JsonError, match=f"{KEY_LENGTH_MAX + 1} characters, the limit is {KEY_LENGTH_MAX}"):
        loads('{{"a":"' + "x" * (room + 1) + '"}:1}')


def test_the_limit_on_fastjson_text_does_not_apply_to_strict_json() -> None:
    assert loads(b'{"a":0}', odd_size_max_bytes=1) == {"a": 0}
    assert loads(b"{0:0}", odd_size_max_bytes=5) == {"0": 0}
    with pytest.raises(JsonError, match="5 bytes are too many"):
        loads(b"{0:0}", odd_size_max_bytes=4)
