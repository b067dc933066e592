"""Messages to JSON objects, and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.errors import UsageError
from pymq.model.compression import compress_body
from pymq.model.properties import RESERVED
from pymq.operations.message.records import LINE_MEMBERS, json_line, message_from_json, message_in_lane, message_record
from tests.cli.common.test_message_text import stored

# Property names and values as brokers store them: text without the two separators, and no name twice.
texts = st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8"), min_size=1, max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
json_bodies = st.builds(
    lambda value, indent, around: (around + json.dumps(value, indent=indent) + around).encode(),
    json_values,
    st.sampled_from([None, 0, 2]),
    st.sampled_from(["", "\n", " ", "\r\n", "\t"]),
)


@given(
    st.binary(min_size=1, max_size=200) | json_bodies | st.text(min_size=1).map(str.encode),
    st.sampled_from(["", "a", "a b", "ключ", "\x1b[2J", '"\n']),
    st.dictionaries(texts.filter(lambda name: name not in RESERVED), texts, max_size=3),
)
def test_a_line_keeps_body_tag_keys_and_properties(body: bytes, label: str, properties: dict[str, str]) -> None:
    known = {**properties, "TAGS": label, "KEYS": label, "UNIQ_KEY": "U", "WAIT": "true"}
    line = json_line(stored(body, known))
    assert line.count(b"\n") == 1
    again, lane = message_in_lane("copy", line)
    assert (again.topic, again.body, again.tags, again.keys) == ("copy", body, label, label)
    assert again.properties == properties
    assert lane == properties.get("__SHARDINGKEY", "broker-a/3")


def test_a_body_that_a_program_changed_wins_over_its_text() -> None:
    record = json.loads(json_line(stored(b'{\n  "a": 1\n}')))
    assert record["body_text"] == '{\n  "a": 1\n}'
    record["body"]["a"] = 2
    assert message_from_json("t", json.dumps(record).encode()).body == b'{"a": 2}'


def test_a_body_that_stayed_compressed_is_not_sent_as_it_is() -> None:
    body, flags = compress_body(bytes(1_000_000))
    line = json_line(stored(body, sys_flag=flags), lambda message: message.body)
    with pytest.raises(UsageError, match="inflate-ratio"):
        message_from_json("t", line)


@pytest.mark.parametrize(
    ("line", "body"),
    [
        (b'{"body": "text"}', b"text"),
        (b'{"body": {"a": 1.50}}', b'{"a": 1.50}'),
        (b'{"body": 7}', b"7"),
        (b'{"body": "/wA=", "body_encoding": "base64"}', b"\xff\x00"),
    ],
)
def test_bodies_of_json_lines(line: bytes, body: bytes) -> None:
    assert message_from_json("t", line).body == body


def test_labels_of_json_lines() -> None:
    line = b'{"body": "b", "tags": "t", "keys": ["k1", "k2"], "properties": {"p": "v", "KEYS": "x"}, "delay_level": 3}'
    message = message_from_json("t", line)
    assert (message.tags, message.keys, message.properties, message.delay_level) == ("t", "k1 k2", {"p": "v"}, 3)


@pytest.mark.parametrize(
    "line", [b"", b"text", b"[]", b"{}", b'{"body": "x", "tags": 1}', b'{"body": "!", "body_encoding": "base64"}']
)
def test_lines_that_are_not_messages_are_refused(line: bytes) -> None:
    with pytest.raises(UsageError, match="no message"):
        message_from_json("t", line)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"body": "x", "tag": "A"}', r"unknown member 'tag' \(do you mean 'tags'\?\): use body, tags, keys"),
        (b'{"body": "x", "key": "A", "Tags": "B"}', r"'key' \(do you mean 'keys'\?\), 'Tags' \(do you mean 'tags'"),
        (b'{"body": "x", "delayLevel": 3}', "do you mean 'delay_level'"),
        (b'{"body": "x", "zzz": 3}', "unknown member 'zzz': use"),
        (b'{"body": "x", "keys": ["a b"]}', "is no key"),
    ],
)
def test_a_member_that_would_be_lost_is_refused(line: bytes, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        message_from_json("t", line)


def test_every_member_that_tail_prints_is_known() -> None:
    printed = message_record(stored(b"\xff", {"TAGS": "A"}))
    assert set(printed) == set(LINE_MEMBERS) - {"delay_level", "body_text"}
