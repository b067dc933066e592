"""Bytes are cut into frames: the same ones, in their order, whatever pieces come when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.proxy.http2.frames import HEAD_BYTES, PAYLOAD_BYTES_MAX, PREFACE, Http2Error, pack_frame
from pymq.proxy.http2.inbox import Inbox


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), max_size=60),
)
def test_frames_come_in_their_order(sizes: list[int], steps: list[tuple[int, int]]) -> None:
    """``steps``: how many bytes come, and how many frames are taken then."""
    expected = [(number % 10, 0, number + 1, bytes([number]) * size) for number, size in enumerate(sizes)]
    data = b"".join([pack_frame(kind, flags, stream, payload) for kind, flags, stream, payload in expected])
    inbox, at, found = Inbox(), 0, []
    for size, count in [*steps, (len(data), len(expected))]:
        inbox.receive(data[at : at + size])
        at += len(data[at : at + size])
        for _ in range(count):
            if (frame := inbox.take()) is not None:
                found.append(frame)
        assert inbox.size_bytes == at - sum(HEAD_BYTES + len(frame[3]) for frame in found)
    assert found == expected and inbox.take() is None and inbox.size_bytes == 0


def test_a_frame_over_the_limit_is_refused_by_its_head() -> None:
    inbox = Inbox()
    inbox.receive((PAYLOAD_BYTES_MAX + 1).to_bytes(3, "big") + bytes(HEAD_BYTES - 3))
    with pytest.raises(Http2Error):
        inbox.take()
    inbox.clear()
    assert inbox.size_bytes == 0 and inbox.take() is None


def test_the_preface_may_come_in_pieces() -> None:
    inbox = Inbox()
    for at in range(len(PREFACE)):
        assert not inbox.take_preface()
        inbox.receive(PREFACE[at : at + 1])
    inbox.receive(b"rest")
    assert inbox.take_preface() and inbox.size_bytes == 4
    wrong = Inbox()
    wrong.receive(b"GET /")
    with pytest.raises(Http2Error):
        wrong.take_preface()
