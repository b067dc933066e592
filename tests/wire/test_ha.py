"""The codec of the HA connection: bytes in any pieces, and refusals."""

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymq.errors import ProtocolViolation
from pymq.wire.ha import (
    BODY_BYTES_MAX,
    OFFSET_MAX,
    FrameReader,
    ReportReader,
    Reports,
    encode_head,
    encode_report,
)

SEGMENT = 1 << 20


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(places)]


def read_reports(data: bytes, cuts: list[int]) -> list[Reports]:
    reader = ReportReader()
    return [reader.feed(piece) for piece in pieces_of(data, cuts)]


@given(st.lists(st.integers(0, OFFSET_MAX), min_size=1, max_size=20), st.lists(st.integers(0, 1000), max_size=30))
def test_reports_in_any_pieces(offsets: list[int], cuts: list[int]) -> None:
    found = read_reports(b"".join(map(encode_report, offsets)), cuts)
    assert [reports.offset for reports in found if reports.offset is not None][-1] == offsets[-1]
    assert all(reports.token is None for reports in found)
    went_back = any(b < a for a, b in pairwise(offsets))
    assert any(reports.went_back for reports in found) == went_back


@given(st.integers(-(2**63), -1), st.integers(0, OFFSET_MAX), st.lists(st.integers(0, 16), max_size=4))
def test_a_token_comes_first(token: int, offset: int, cuts: list[int]) -> None:
    found = read_reports(encode_report(token) + encode_report(offset), cuts)
    assert [reports.token for reports in found if reports.token is not None] == [token]
    assert [reports.offset for reports in found if reports.offset is not None] == [offset]


def test_a_report_is_eight_bytes_big_endian() -> None:
    assert encode_report(0x0102030405060708) == bytes(range(1, 9))


@pytest.mark.parametrize("offset", [-1, -(2**63), OFFSET_MAX + 1, 2**63 - 1])
def test_a_later_report_that_is_not_an_offset_is_refused(offset: int) -> None:
    reader = ReportReader()
    reader.feed(encode_report(5))
    with pytest.raises(ProtocolViolation, match=f"reported offset {offset}, allowed are 0 to {OFFSET_MAX}"):
        reader.feed(encode_report(offset))


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "'47 45 54 20 2f 20 48 54' ('GET / HT')"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "'16 03 01 02 00 01 00 01' ('........')"),
        (b"it's me!", "'69 74 27 73 20 6d 65 21' ('it.s me!')"),
        (encode_report(OFFSET_MAX + 1), "'01 00 00 00 00 00 00 01' ('........')"),
    ],
)
def test_a_peer_that_does_not_begin_as_a_slave_is_refused(data: bytes, shown: str) -> None:
    with pytest.raises(ProtocolViolation) as caught:
        ReportReader().feed(data)
    assert f"it began with the bytes {shown}, and no slave does that" in str(caught.value)
    assert ReportReader().feed(encode_report(OFFSET_MAX)).offset == OFFSET_MAX


def test_a_second_token_is_refused() -> None:
    with pytest.raises(ProtocolViolation):
        ReportReader().feed(encode_report(-5) + encode_report(-6))


frames = st.lists(
    st.one_of(st.just(b""), st.binary(min_size=1, max_size=300), st.just(b"x" * 5000)), min_size=1, max_size=8
)


@given(frames, st.integers(0, 100), st.lists(st.integers(0, 50_000), max_size=40))
def test_frames_in_any_pieces(bodies: list[bytes], start: int, cuts: list[int]) -> None:
    data, at = b"", start
    beats = []
    for body in bodies:
        data += encode_head(at, len(body)) + body
        if not body:
            beats.append(at)
        at += len(body)
    reader = FrameReader(SEGMENT)
    found = [found for piece in pieces_of(data, cuts) for found in reader.feed(piece)]
    expected_at, joined = start, b""
    for piece_start, piece in found:
        assert piece_start == expected_at
        expected_at += len(piece)
        joined += piece
    assert joined == b"".join(bodies)
    assert [piece_start for piece_start, piece in found if not piece] == beats


def test_a_frame_has_twelve_bytes_before_its_body() -> None:
    assert encode_head(0x0102030405060708, 0x090A0B0C) == bytes(range(1, 13))


def test_bytes_of_a_partial_frame_are_delivered() -> None:
    reader = FrameReader(SEGMENT)
    assert reader.feed(encode_head(0, 100)) == []
    ((start, piece),) = reader.feed(b"a" * 60)
    assert (start, bytes(piece)) == (0, b"a" * 60)
    ((start, piece),) = reader.feed(b"b" * 40)
    assert (start, bytes(piece)) == (60, b"b" * 40)


@pytest.mark.parametrize("size", [-1, -(2**31), BODY_BYTES_MAX + 1, 2**31 - 1])
def test_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(ProtocolViolation, match=f"{size} log bytes, allowed are 0 to {BODY_BYTES_MAX}"):
        FrameReader(1 << 30).feed(struct.pack(">qi", 0, size))


def test_the_largest_frame_is_accepted() -> None:
    assert FrameReader(1 << 30).feed(encode_head(0, BODY_BYTES_MAX)) == []


@pytest.mark.parametrize("start", [-1, OFFSET_MAX + 1])
def test_an_impossible_offset_is_refused(start: int) -> None:
    with pytest.raises(ProtocolViolation, match=f"offset {start}"):
        FrameReader(SEGMENT).feed(encode_head(start, 1))


def test_a_frame_ends_with_its_segment() -> None:
    reader = FrameReader(SEGMENT)
    assert len(reader.feed(encode_head(SEGMENT - 2, 2) + b"ab")) == 1
    with pytest.raises(ProtocolViolation, match="mappedFileSizeCommitLog"):
        reader.feed(encode_head(2 * SEGMENT - 2, 3) + b"abc")


@given(st.binary(max_size=200))
def test_garbage_is_read_or_refused(data: bytes) -> None:
    for reader in (ReportReader(), FrameReader(SEGMENT)):
        try:
            reader.feed(data)
        except ProtocolViolation as violation:
            assert violation.reason.startswith("ha-")
