"""Fields are counted before a message is decoded: as many as there are, and no memory for them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("google.protobuf")

from google.protobuf.message import DecodeError

from pymq.proxy.protocol import messages as m
from pymq.proxy.rpc.field_count import count_fields, shape_of

SEND = shape_of(m.SendMessageRequest.DESCRIPTOR)


def send(count: int, properties: int = 0) -> Any:
    request = m.SendMessageRequest()
    for number in range(count):
        message = request.messages.add(body=b"b" * 200)
        message.topic.name = "T"
        message.system_properties.keys.extend(["a", "b"])
        for each in range(properties):
            message.user_properties[f"k{number}-{each}"] = "v"
    return request


@pytest.mark.parametrize(("count", "properties"), [(0, 0), (1, 0), (3, 2), (200, 5)])
def test_each_field_counts_with_those_within(count: int, properties: int) -> None:
    """A message has its own field, a topic with a name, system properties with two keys, a body, and its properties."""
    fields = 7 + 3 * properties
    assert count_fields(send(count, properties).SerializeToString(), SEND, 10**6) == count * fields


def test_the_count_ends_at_the_limit() -> None:
    bomb = b"\x0a\x00" * 1_000_000
    assert count_fields(bomb, SEND, 1_000) == 1_001
    assert count_fields(b"\x0a\x00" * 1_000, SEND, 1_000) == 1_000


def test_packed_numbers_count_each() -> None:
    queue = m.MessageQueue()
    queue.accept_message_types.extend([1] * 300)
    assert count_fields(queue.SerializeToString(), shape_of(m.MessageQueue.DESCRIPTOR), 10**6) == 1 + 300


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05", b"\x0a\xff", b"\x0b", b"\x08" + b"\xff" * 11, b"\x0d\x00", b"\x09\x00", b"\x0a\x02\x0a\x05"],
)
def test_what_is_cut_short_is_no_message(data: bytes) -> None:
    with pytest.raises(ValueError):
        count_fields(data, SEND, 100)


@given(st.binary(max_size=60))
def test_what_the_library_reads_is_counted(data: bytes) -> None:
    """No bytes raise anything but ValueError, and what is read has as many fields as were counted, or fewer."""
    try:
        count = count_fields(data, SEND, 10**6)
    except ValueError:
        return
    try:
        found = m.SendMessageRequest.FromString(data)
    except DecodeError:
        return
    assert len(found.messages) <= count
