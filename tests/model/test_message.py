"""Value types of applications: queues sort, messages carry reserved properties, pulls decode their records."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pymq.errors import UsageError
from pymq.model.hosts import pack_host
from pymq.model.message import Message, MessageQueue, PullResult, PullStatus
from pymq.model.record import MalformedRecordError, encode_record

HOST = pack_host("127.0.0.1", 10911)


def test_queues_sort_by_topic_then_broker_then_number() -> None:
    ordered = [
        MessageQueue("A", "b", 9),
        MessageQueue("T", "a", 2),
        MessageQueue("T", "a", 10),
        MessageQueue("T", "b", 0),
        MessageQueue("a", "a", 0),
    ]
    shuffled = [ordered[i] for i in (2, 4, 0, 3, 1)]
    assert sorted(shuffled) == ordered


def test_a_queue_is_a_maps_key_by_value() -> None:
    assert {MessageQueue("T", "b", 0): 1}[MessageQueue("T", "b", 0)] == 1


def test_a_plain_messages_properties() -> None:
    assert Message("T", b"x").wire_properties("U") == {"UNIQ_KEY": "U", "WAIT": "true"}


def test_all_of_a_messages_properties() -> None:
    message = Message("T", b"x", "A", "k1 k2", {"a": "b"}, delay_level=18, wait_store=False)
    expected = {"a": "b", "TAGS": "A", "KEYS": "k1 k2", "DELAY": "18", "UNIQ_KEY": "U", "WAIT": "false"}
    assert message.wire_properties("U") == expected
    assert message.properties == {"a": "b"}


def test_an_existing_unique_key_is_kept() -> None:
    # A resend must be recognized as the same message.
    assert Message("T", b"x", properties={"UNIQ_KEY": "first"}).wire_properties("second")["UNIQ_KEY"] == "first"


def test_messages_do_not_share_properties() -> None:
    Message("T", b"x").properties["a"] = "b"
    assert Message("T", b"x").properties == {}


def record(queue_offset: int) -> bytes:
    return encode_record(
        topic=b"T",
        queue_id=0,
        queue_offset=queue_offset,
        physical_offset=0,
        body=b"x",
        properties=b"",
        flag=0,
        sys_flag=0,
        born_timestamp_ms=0,
        born_host=HOST,
        store_timestamp_ms=0,
        store_host=HOST,
    )


def test_a_pulls_messages_know_their_broker() -> None:
    result = PullResult(PullStatus.FOUND, 2, 0, 2, record(0) + record(1), broker_name="broker-a")
    assert [(message.queue_offset, message.broker_name) for message in result.messages()] == [
        (0, "broker-a"),
        (1, "broker-a"),
    ]


def test_an_empty_pull_has_no_messages() -> None:
    assert PullResult(PullStatus.NO_NEW_MESSAGE, 0, 0, 0).messages() == []


def test_a_truncated_pull_is_marked() -> None:
    with pytest.raises(MalformedRecordError):
        PullResult(PullStatus.FOUND, 2, 0, 2, record(0) + record(1)[:-1]).messages()


@pytest.mark.parametrize(
    ("body", "sent"),
    [("Köln", b"K\xc3\xb6ln"), (b"x", b"x"), (bytearray(b"x"), b"x"), (memoryview(b"xy")[1:], b"y")],
)
def test_a_body_of_text_is_sent_as_utf8(body: bytes | str, sent: bytes) -> None:
    message = Message("T", body)
    assert message.body == sent and type(message.body) is bytes


@pytest.mark.parametrize("body", [{"a": 1}, None, 7, ["x"], "\ud800"], ids=repr)
def test_another_body_is_refused(body: Any) -> None:
    with pytest.raises(UsageError, match="body"):
        Message("T", body)


@pytest.mark.parametrize(
    ("keys", "stored"), [(["a", "b"], "a b"), (("a",), "a"), ([], ""), ("a b", "a b"), (["Köln"], "Köln")]
)
def test_several_keys_are_stored_as_rocketmq_does(keys: Any, stored: str) -> None:
    properties = Message("T", b"x", keys=keys).wire_properties("U")
    assert properties.get("KEYS", "") == stored


@pytest.mark.parametrize("keys", [7, b"ab", {"a": 1}, {"a"}, [7], ["a b"], ["a", ""], [["a"]]], ids=repr)
def test_other_keys_are_refused(keys: Any) -> None:
    with pytest.raises(UsageError, match="key"):
        Message("T", b"x", keys=keys)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"tags": ["a"]}, "one tag"),
        ({"properties": {"n": 0}}, r"'n' has the value 0 \(int\)"),
        ({"properties": {1: "x"}}, "text"),
        ({"delay_level": 19}, "delay_level is 19, the largest is 18: .*raise delay_level_max"),
        ({"delay_level": -1}, "delay_level is -1: it is a number from 1 to 18"),
        ({"delay_level": "3"}, "it is a number"),
        ({"delay_level": True}, "it is a number"),
    ],
)
def test_values_that_would_be_stored_as_others_are_refused(fields: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Message("T", b"x", **fields).check()


def test_a_broker_may_have_more_delay_levels() -> None:
    Message("T", b"x", delay_level=18).check()
    Message("T", b"x", delay_level=30).check(30)
    with pytest.raises(UsageError, match="largest is 30"):
        Message("T", b"x", delay_level=31).check(30)


def test_an_attribute_that_is_set_later_is_converted_too() -> None:
    message = Message("T", b"x")
    message.body, message.keys = "Köln", ["a", "b"]  # type: ignore[assignment]
    message.check()
    assert (message.body, message.keys) == ("Köln".encode(), "a b")


def test_messages_copy_and_compare_by_value() -> None:
    message = Message("T", "x", "A", ["k"], {"a": "b"}, 1, 2, False)
    assert dataclasses.replace(message) == message == Message("T", b"x", "A", "k", {"a": "b"}, 1, 2, False)
    assert Message("T", b"").properties is not Message("T", b"").properties
