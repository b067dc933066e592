"""The form in which a message is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.client.outgoing import Outgoing, _all_properties, own_properties, send_result, wait_property
from pymq.client.preparing import with_id
from pymq.client.send_frames import SendFrames
from pymq.errors import ProtocolViolation, UsageError
from pymq.model.message import Message, MessageQueue
from pymq.wire.codes import RequestCode
from pymq.wire.command import Command, encode_command
from pymq.wire.header import decode_header, encode_header
from pymq.wire.headers.send import SendMessageV2Header, send_v2_fields


def test_the_fast_field_encoder_equals_the_typed_header() -> None:
    values: dict[str, Any] = {
        "producer_group": "P",
        "topic": "T",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 3,
        "sys_flag": 0x301,
        "born_timestamp": 1_700_000_000_000,
        "flag": -5,
        "properties": "a\x01b\x02",
        "batch": True,
        "broker_name": "broker-a",
    }
    for batch in (True, False):
        values["batch"] = batch
        assert send_v2_fields(**values) == encode_header(SendMessageV2Header(**values))


def test_retries_carry_their_counts() -> None:
    outgoing = Outgoing("%RETRY%G", b"x", "UNIQ_KEY\x01U\x02", "U", 0, 0, False)
    command = outgoing.retry_command("P", MessageQueue("%RETRY%G", "b", 0), 5, 3, 16)
    header = decode_header(SendMessageV2Header, command.ext)
    assert (header.reconsume_times, header.max_reconsume_times, header.born_timestamp) == (3, 16, 5)


def test_what_is_sent_again_says_so() -> None:
    outgoing = Outgoing("T", b"x", "UNIQ_KEY\x01U\x02", "U", 0, 0, False)
    queue = MessageQueue("T", "b", 0)
    assert outgoing.command("P", queue, 5).ext["i"] == "UNIQ_KEY\x01U\x02"
    outgoing.attempt = 2
    assert outgoing.command("P", queue, 5).ext["i"] == "UNIQ_KEY\x01U\x02PYMQ_RESEND\x012\x02"


PLAIN = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)


@given(PLAIN, PLAIN)
def test_the_short_way_to_properties_equals_the_long_one(tags: str, keys: str) -> None:
    message = Message("T", b"x", tags, keys)
    try:
        expected: Any = _all_properties(message, "U", None)
    except UsageError as error:
        expected = str(error)
    try:
        found: Any = own_properties(message, "U")
    except UsageError as error:
        found = str(error)
    assert found == expected


NAMES = st.text("abz09-_%|", min_size=1, max_size=12)


@given(NAMES, NAMES, NAMES, PLAIN, st.booleans(), st.integers(0, 2**31 - 1))
def test_frames_from_templates_equal_encoded_commands(
    group: str, topic: str, broker: str, tags: str, wait_store: bool, opaque: int
) -> None:
    if "\x01" in tags or "\x02" in tags:
        return
    queue, born_ms, body = MessageQueue(topic, broker, opaque % 9), 1_790_000_000_000 + opaque, b"body %d"
    start = (f"TAGS\x01{tags}\x02" if tags else "").encode() + b"UNIQ_KEY\x01"
    text = with_id(start, "7F00AB").decode() + wait_property(wait_store)
    command = Outgoing(topic, body, text, "7F00AB", 0, 0, False).command(group, queue, born_ms)
    command.opaque, command.language, command.version = opaque, "PYTHON", 479
    frames = SendFrames(group, "PYTHON", 479)
    for _ in range(2):
        assert frames.frame(queue, start, wait_store, "7F00AB", body, 0, born_ms, opaque) == encode_command(command)
    assert frames.frame(queue, start, wait_store, "7F00AB", body, 1, born_ms, opaque) is None


@given(
    NAMES,
    NAMES,
    NAMES,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.sampled_from([0, 1, 0x301]),
    st.sampled_from([0, 7, -1]),
    st.booleans(),
    st.integers(0, 2),
    st.integers(-1, 2**31 - 1),
)
def test_frames_of_any_properties_equal_encoded_commands(
    group: str,
    topic: str,
    broker: str,
    properties: str,
    sys_flag: int,
    flag: int,
    is_batch: bool,
    attempt: int,
    number: int,
) -> None:
    queue, born_ms = MessageQueue(topic, broker, number % 9), 1_790_000_000_000 * (number % 2) + number
    outgoing = Outgoing(topic, b"body %d", properties, "7F00AB", flag, sys_flag, is_batch)
    outgoing.attempt = attempt
    frames = SendFrames(group, "PYTHON", 479)
    for code in (outgoing.code, RequestCode.SEND_REPLY_MESSAGE_V2) * 2:
        outgoing.code = code
        command = outgoing.command(group, queue, born_ms)
        command.opaque, command.language, command.version = max(number, 0), "PYTHON", 479
        assert frames.frame_of(outgoing, queue, born_ms, max(number, 0)) == encode_command(command)


def test_the_short_way_to_a_result_equals_the_typed_one() -> None:
    queue = MessageQueue("T", "b", 3)
    for fields in (
        {"msgId": "A", "queueId": "3", "queueOffset": "5"},
        {"msgId": "A", "queueId": "1", "queueOffset": "12345678901"},
        {"msgId": "A", "queueId": "3", "queueOffset": "7", "recallHandle": "h"},
        {"msgId": "A", "queueId": "3", "queueOffset": "-1"},
        {"msgId": "A", "queueId": "٣", "queueOffset": "5"},
        {"msgId": "A", "queueId": "3"},
        {"queueId": "3", "queueOffset": "5"},
    ):
        found: list[Any] = []
        for ext in (fields, {"recallHandle": "", **fields}):  # with it the typed way is taken
            try:
                found.append(send_result(Command(0, ext=ext), "U", queue, "a:1"))
            except ProtocolViolation as error:
                found.append(str(error))
        assert found[0] == found[1]


def test_a_priority_is_a_property() -> None:
    for priority in (0, 7, 2**31 - 1):
        message = Message("T", b"x", priority=priority)
        message.check()
        assert own_properties(message, "U")[0] == b"_SYS_MSG_PRIORITY_\x01%d\x02UNIQ_KEY\x01U\x02" % priority


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"priority": -1}, "to 2147483647"),
        ({"priority": 2**31}, "to 2147483647"),
        ({"priority": True}, "whole number"),
        ({"priority": "3"}, "whole number"),
        ({"priority": 1, "delay_level": 2}, "no priority"),
        ({"priority": 1, "delay_ms": 2}, "no priority"),
    ],
)
def test_a_priority_that_brokers_would_drop_is_refused(fields: dict[str, Any], part: str) -> None:
    with pytest.raises(UsageError, match=part):
        Message("T", b"x", **fields).check()


def test_an_ordering_key_and_a_priority_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="leave one of them out"):
        own_properties(Message("T", b"x", priority=1), "U", "key")
