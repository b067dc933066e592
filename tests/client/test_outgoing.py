"""The form in which a message is sent."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pymq.client.outgoing import Outgoing, _all_properties, own_properties
from pymq.errors import UsageError
from pymq.model.message import Message, MessageQueue
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
