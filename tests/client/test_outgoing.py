"""The form in which a message is sent."""

from __future__ import annotations

from typing import Any

from pymq.client.outgoing import prepare
from pymq.clock import ManualClock
from pymq.model.ids import UniqueIdMaker
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
    ids = UniqueIdMaker(ManualClock(), b"\x7f\0\0\1", 1, 2)
    outgoing = prepare(Message("%RETRY%G", b"x"), ids, "zlib", 4096)
    command = outgoing.retry_command("P", MessageQueue("%RETRY%G", "b", 0), 5, 3, 16)
    header = decode_header(SendMessageV2Header, command.ext)
    assert (header.reconsume_times, header.max_reconsume_times, header.born_timestamp) == (3, 16, 5)
