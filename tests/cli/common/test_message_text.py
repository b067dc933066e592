"""Messages to text, JSON and raw bodies, and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.cli.common.message_text import (
    message_stream,
    raw_line,
    text_line,
)
from pymq.cli.output import MessageOutput, printable
from pymq.model.compression import compress_body
from pymq.model.hosts import pack_host
from pymq.model.properties import encode_properties
from pymq.model.record import StoredMessage, decode_record, encode_record
from pymq.operations.message.records import json_line


def stored(body: bytes, properties: dict[str, str] | None = None, *, sys_flag: int = 0) -> StoredMessage:
    record = encode_record(
        topic=b"orders",
        queue_id=3,
        queue_offset=42,
        physical_offset=1000,
        body=body,
        properties=encode_properties(properties or {}),
        flag=0,
        sys_flag=sys_flag,
        born_timestamp_ms=1_700_000_000_000,
        born_host=pack_host("127.0.0.1", 50000),
        store_timestamp_ms=1_700_000_000_123,
        store_host=pack_host("127.0.0.1", 10911),
    )
    message = decode_record(record)
    message.broker_name = "broker-a"
    return message


def test_text_has_place_labels_and_body_on_one_line() -> None:
    line = text_line(stored(b"hello\nworld", {"TAGS": "new", "KEYS": "k1 k2"})).decode()
    assert line.endswith(" orders broker-a/3@42 [new] k1 k2 hello\\nworld\n")
    assert line.count("\n") == 1


def test_text_of_bytes_that_are_not_text() -> None:
    assert b"<3 bytes: ff fe 00>" in text_line(stored(b"\xff\xfe\x00"))


def test_a_message_cannot_control_the_terminal() -> None:
    line = text_line(stored(b"\x1b[2J", {"TAGS": "\x1b[31m", "KEYS": "\x07"}))
    assert b"\x1b" not in line
    assert b"\x07" not in line


def test_color_codes_only_surround_the_text() -> None:
    message = stored(b"body", {"TAGS": "t"})
    line = message_stream(MessageOutput.text, color=True)(message).decode()
    assert line.startswith("\033[2m")
    assert line.endswith("\033[0mbody\n")


def test_compressed_bodies_are_inflated() -> None:
    body, flags = compress_body(b"x" * 1000)
    assert raw_line(stored(body, sys_flag=flags)) == b"x" * 1000 + b"\n"


def test_bodies_beyond_the_budget_are_shown_as_stored_and_noted_once() -> None:
    body, flags = compress_body(bytes(1_000_000))
    message = stored(body, sys_flag=flags)
    notes: list[str] = []
    to_bytes = message_stream(MessageOutput.raw, color=False, inflation_ratio_max=1, note=notes.append)
    lines = [to_bytes(message) for _ in range(80)]
    inflated = lines.count(bytes(1_000_000) + b"\n")
    assert inflated == 67  # 64 MiB
    assert lines[inflated:] == [body + b"\n"] * (80 - inflated)
    assert len(notes) == 1 and "allow a higher ratio" in notes[0]


@pytest.mark.parametrize(
    "body", [b'{"a": 1}', b"[1, 2]", b' {"n": 12345678901234567890.10}\n', b'{"a":\n{"b": "\\u00e9"}}']
)
def test_json_bodies_stay_json(body: bytes) -> None:
    line = json_line(stored(body)).decode()
    assert line.count("\n") == 1
    assert json.loads(line)["body"] == json.loads(body)
    assert body.strip().replace(b"\n", b" ").decode() in line, "digits and order stay as they were"


@pytest.mark.parametrize("body", [b"12", b'"text"', b"{broken", b"null", b"hello", b'{"a": NaN}'])
def test_other_text_is_a_string(body: bytes) -> None:
    assert json.loads(json_line(stored(body)))["body"] == body.decode()


def test_bytes_are_marked_base64() -> None:
    record = json.loads(json_line(stored(b"\xff\x00")))
    assert record["body_encoding"] == "base64"
    assert record["body"] == "/wA="


def test_json_carries_the_whole_message() -> None:
    record = json.loads(json_line(stored(b"b", {"TAGS": "t", "KEYS": "k", "UNIQ_KEY": "U", "color": "red"})))
    assert (record["topic"], record["broker"], record["queue"], record["offset"]) == ("orders", "broker-a", 3, 42)
    assert (record["tags"], record["keys"], record["message_id"]) == ("t", "k", "U")
    assert record["offset_message_id"] == "7F00000100002A9F00000000000003E8"
    assert record["store_timestamp_ms"] == 1_700_000_000_123
    assert record["properties"]["color"] == "red"


@given(st.text())
def test_printable_text(text: str) -> None:
    assert printable(text).isprintable()
