"""gRPC's own bytes: any cut of them is read the same, and what is wrong has a status."""

from __future__ import annotations

import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.proxy.rpc.wire import (
    GrpcCode,
    GrpcError,
    Inflation,
    MessageParser,
    Metadata,
    encode_text,
    frame_message,
    parse_timeout_ms,
)


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(0, 300), max_size=8))
def test_messages_are_the_same_however_they_are_cut(messages: list[bytes], cuts: list[int]) -> None:
    data = b"".join(map(frame_message, messages))
    parser = MessageParser(40, 9)
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for first, last in pairwise(bounds):
        parser.feed(data[first:last])
    assert [message for _, message in parser.found] == messages
    assert parser.is_complete


def test_a_message_over_the_limit_is_refused_by_its_prefix() -> None:
    MessageParser(40, 9).feed(frame_message(bytes(40)))
    with pytest.raises(GrpcError, match="the message has 41 bytes, the limit is 40") as caught:
        MessageParser(40, 9).feed(frame_message(bytes(41))[:5])
    assert caught.value.code is GrpcCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("text", "expected"),
    [(b"15S", 15_000), (b"1H", 3_600_000), (b"2M", 120_000), (b"7m", 7), (b"0n", 0), (b"5u", 0.005)],
)
def test_timeouts(text: bytes, expected: float) -> None:
    assert parse_timeout_ms(text) == expected


@pytest.mark.parametrize("text", [b"", b"S", b"123456789S", b"1s", b"-1S", b"1S ", b"\xff"])
def test_timeouts_that_cannot_be_read(text: bytes) -> None:
    with pytest.raises(GrpcError, match="grpc-timeout is"):
        parse_timeout_ms(text)


def test_compressed_messages_are_inflated_up_to_the_limit() -> None:
    content = b"a" * 5000
    for encoding, data in ((b"gzip", gzip.compress(content)), (b"deflate", zlib.compress(content))):
        assert Inflation(data, encoding, 5000).inflate_all() == content
        for wrong, limit, code in (
            (data, 4999, GrpcCode.RESOURCE_EXHAUSTED),
            (data[:-5], 5001, GrpcCode.INTERNAL),
            (b"no " + data, 5000, GrpcCode.INTERNAL),
        ):
            with pytest.raises(GrpcError) as caught:
                Inflation(wrong, encoding, limit).inflate_all()
            assert caught.value.code is code
    with pytest.raises(GrpcError, match=r"'snappy' is not known here: use gzip, deflate, or none"):
        Inflation(content, b"snappy", 5000)


def test_texts_of_statuses_are_printable_ascii() -> None:
    assert encode_text("100 % of queue é\n") == b"100 %25 of queue %C3%A9%0A"


def test_metadata_is_what_the_client_s_program_said() -> None:
    fields = [
        (b":path", b"/a"),
        (b"grpc-timeout", b"1S"),
        (b"x-mq-client-id", b"me"),
        (b"trace-bin", b"AA"),
        (b"a", b"\xff"),
    ]
    assert dict(Metadata(dict(fields))) == {"x-mq-client-id": "me", "a": "�"}
