"""FrameBuffer: whole payloads from a stream in any pieces, and a limit for lengths."""

from __future__ import annotations

import tracemalloc

import pytest

from pymq.errors import ProtocolViolation
from pymq.wire.command import FRAME_SIZE_MAX_BYTES
from pymq.wire.framing import HTTP_BEGINS, FrameBuffer


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@pytest.mark.parametrize("step", [1, 2, 3, 5, 8, 1000])
def test_a_stream_in_any_pieces_gives_the_same_frames(step: int) -> None:
    payloads = [b"abcd", b"0123456789" * 7, b"x" * 4]
    stream = b"".join(map(frame, payloads))
    buffer = FrameBuffer()
    got = [p for at in range(0, len(stream), step) for p in buffer.feed(stream[at : at + step])]
    assert got == payloads
    assert buffer.pending_size_bytes == 0


def test_bytes_of_an_unfinished_frame_are_counted() -> None:
    buffer = FrameBuffer()
    assert buffer.feed(frame(b"abcd") + b"\0\0") == [b"abcd"]
    assert buffer.pending_size_bytes == 2
    assert buffer.feed(b"\0\x05abc") == []
    assert buffer.pending_size_bytes == 7
    assert buffer.feed(b"de") == [b"abcde"]
    assert buffer.pending_size_bytes == 0


@pytest.mark.parametrize("size", [0, 1, 3, 101, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
def test_impossible_lengths_are_refused_at_once(size: int) -> None:
    buffer = FrameBuffer(size_max_bytes=100)
    with pytest.raises(ProtocolViolation) as caught:
        buffer.feed(size.to_bytes(4, "big"))
    assert caught.value.reason == "frame-length"


@pytest.mark.parametrize("size", [4, 100])
def test_the_limits_themselves_are_allowed(size: int) -> None:
    assert FrameBuffer(size_max_bytes=100).feed(frame(bytes(size))) == [bytes(size)]


def test_an_empty_read_changes_nothing() -> None:
    buffer = FrameBuffer()
    assert buffer.feed(b"") == []
    assert buffer.feed(frame(b"abcd")) == [b"abcd"]


def test_an_unfinished_frame_takes_what_has_arrived_and_no_more() -> None:
    buffer = FrameBuffer()
    read_size = 256 * 1024
    tracemalloc.start()
    try:
        assert buffer.feed((16 * 1024 * 1024).to_bytes(4, "big")) == []
        for _ in range(20):
            assert buffer.feed(bytes(read_size)) == []
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert buffer.pending_size_bytes == 4 + 20 * read_size
    assert size < buffer.pending_size_bytes + 100_000


def test_single_bytes_are_joined_before_they_cost_much() -> None:
    raw = frame(bytes(range(256)) * 400)
    buffer = FrameBuffer()
    tracemalloc.start()
    try:
        for i in range(len(raw) - 1):
            assert buffer.feed(raw[i : i + 1]) == []
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert size < 2 * len(raw)
    (payload,) = buffer.feed(raw[-1:])
    assert payload == raw[4:] and buffer.pending_size_bytes == 0


def test_a_cleared_buffer_begins_with_a_new_frame() -> None:
    raw = frame(b"x" * 100_000)
    buffer = FrameBuffer()
    buffer.feed(raw[:-1])
    buffer.clear()
    assert buffer.pending_size_bytes == 0
    assert buffer.feed(raw) == [raw[4:]]


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (b"HTTP/1.1 400 Bad Request", "it answers in HTTP: this port is a web server's"),
        (b"GET /metrics HTTP/1.1", "it speaks HTTP, and this port takes RocketMQ's protocol alone"),
        (b"PRI * HTTP/2.0", "the console, metrics and gRPC have ports of their own"),
    ],
)
def test_http_is_named_as_such(begin: bytes, said: str) -> None:
    with pytest.raises(ProtocolViolation, match=said) as caught:
        FrameBuffer().feed(begin)
    assert caught.value.reason == "http"


def test_all_that_begins_like_http_is_no_frame() -> None:
    assert all(int.from_bytes(begin, "big") > FRAME_SIZE_MAX_BYTES for begin in HTTP_BEGINS)
