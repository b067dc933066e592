"""Header fields are decoded as the library hpack decodes them, and what is no request is refused."""

from __future__ import annotations

import pytest
from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.proxy.http2 import fields as fields_module
from pymq.proxy.http2.fields import (
    FIELD_OVERHEAD_BYTES,
    INTEGER_BYTES_MAX,
    NO_TABLE,
    TABLE_BYTES_MAX,
    FieldDecoder,
    check_request,
    check_trailers,
    encode_fields,
)
from pymq.proxy.http2.frames import ErrorCode, Http2Error, StreamError
from tests.proxy.http2.recording import request_fields

SIZE_MAX = 20_000
NAMES = st.sampled_from([b":path", b":method", b"grpc-timeout", b"x-mq-client-id", b"te", b"cookie"])
TEXTS = st.binary(max_size=30) | st.sampled_from([b"POST", b"x" * 200, b"y" * 5000])
BLOCKS = st.lists(st.tuples(NAMES | st.binary(min_size=1, max_size=8), TEXTS), max_size=8)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(BLOCKS, st.booleans(), st.none() | st.sampled_from([0, 64, 4096])), max_size=6))
def test_blocks_of_an_encoder_are_decoded(blocks: list[tuple[list[tuple[bytes, bytes]], bool, int | None]]) -> None:
    encoder, decoder = Encoder(), FieldDecoder(10**6)
    for block, is_packed, table_bytes in blocks:
        if table_bytes is not None:
            encoder.header_table_size = table_bytes
        assert decoder.decode(encoder.encode(block, huffman=is_packed)) == block
        assert decoder.size_bytes == sum(len(name) + len(value) + FIELD_OVERHEAD_BYTES for name, value in block)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40) | st.lists(st.integers(0x3C, 0x60), max_size=9).map(bytes), max_size=5))
def test_any_bytes_are_decoded_or_refused_as_by_the_library(blocks: list[bytes]) -> None:
    library, decoder = Decoder(max_header_list_size=SIZE_MAX), FieldDecoder(SIZE_MAX)
    for block in blocks:
        try:
            expected = [(bytes(name), bytes(value)) for name, value in library.decode(block, raw=True)]
        except HPACKError:
            with pytest.raises(Http2Error):
                decoder.decode(block)
            return
        assert decoder.decode(block) == expected


def test_a_packed_text_over_the_limit_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacking takes 0.2 us a byte, in the event loop."""
    monkeypatch.setattr(fields_module, "unpack", lambda text: pytest.fail("unpacked"))
    with pytest.raises(Http2Error, match="more than 20000 bytes, the limit"):
        FieldDecoder(SIZE_MAX).decode(bytes([0, 1]) + b"a" + b"\xff" + fields_module._packed_size(SIZE_MAX + 1)[1:])


def test_limits_of_blocks() -> None:
    field = (b"name", b"v" * (SIZE_MAX - FIELD_OVERHEAD_BYTES - 4))
    block = encode_fields([field])
    assert FieldDecoder(SIZE_MAX).decode(block) == [field]
    with pytest.raises(Http2Error, match="more than 19999 bytes, the limit") as caught:
        FieldDecoder(SIZE_MAX - 1).decode(block)
    assert caught.value.code == ErrorCode.ENHANCE_YOUR_CALM
    longest = b"\x3f" + b"\x80" * (INTEGER_BYTES_MAX - 1) + b"\x00"
    assert FieldDecoder(SIZE_MAX).decode(longest) == []
    size = bytes([0x3F, *_rest(TABLE_BYTES_MAX - 0x1F)])
    assert FieldDecoder(SIZE_MAX).decode(size) == []
    over = bytes([0x3F, *_rest(TABLE_BYTES_MAX + 1 - 0x1F)])
    for wrong in (
        b"\x3f" + b"\x80" * INTEGER_BYTES_MAX + b"\x00",
        over,
        b"\x82" + size,
        b"\x80",
        b"\xff\x70",
        b"\x00\x7f",
    ):
        with pytest.raises(Http2Error) as caught:
            FieldDecoder(SIZE_MAX).decode(wrong)
        assert caught.value.code == ErrorCode.COMPRESSION_ERROR


def _rest(number: int) -> list[int]:
    return [number & 0x7F | 0x80, number >> 7]


@settings(deadline=None)
@given(BLOCKS, st.sampled_from([0, 4096]))
def test_what_is_encoded_needs_no_table(block: list[tuple[bytes, bytes]], table_bytes: int) -> None:
    decoder = Decoder()
    decoder.max_allowed_table_size = table_bytes
    for prefix in (NO_TABLE, b""):
        assert decoder.decode(prefix + encode_fields(block), raw=True) == block
        assert not decoder.header_table.dynamic_entries


def test_the_fields_of_a_request() -> None:
    fields = request_fields(x_name=b"a\xff b", empty=b"")
    assert check_request([*fields, (b"x-name", b"last")]) == {**dict(fields), b"x-name": b"last"}
    check_trailers([(b"x-name", b"a")])


@pytest.mark.parametrize(
    "wrong",
    [
        request_fields(**{":path": None}),
        request_fields(**{":path": b""}),
        request_fields(**{":method": None}),
        request_fields(**{":scheme": None}),
        [*request_fields(), (b":path", b"/behind")],
        [(b":path", b"/twice"), *request_fields()],
        [(b":status", b"200"), *request_fields()],
        [(b":other", b""), *request_fields()],
        request_fields(te=b"gzip"),
        request_fields(connection=b"close"),
        request_fields(transfer_encoding=b"chunked"),
        request_fields(UPPER=b"case"),
        [*request_fields(), (b"", b"no name")],
        [*request_fields(), (b"a b", b"")],
        request_fields(x=b"a\nb"),
        request_fields(x=b"a\rb"),
        request_fields(x=b"a\0b"),
        request_fields(x=b" a"),
        request_fields(x=b"a\t"),
    ],
)
def test_what_is_no_request(wrong: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(StreamError) as caught:
        check_request(wrong)
    assert caught.value.code == ErrorCode.PROTOCOL_ERROR


def test_pseudo_fields_behind_a_body_are_refused() -> None:
    with pytest.raises(StreamError):
        check_trailers([(b":path", b"/")])


def test_names_that_were_good_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields_module, "_GOOD_NAMES", kept := set[tuple[bytes, ...]]())
    monkeypatch.setattr(fields_module, "_GOOD_NAMES_MAX", 3)
    short = tuple(name for name, _ in request_fields())
    for number in range(5):
        for name in (b"x-%d" % number, b"long" * fields_module._GOOD_NAMES_BYTES_MAX):
            for _ in range(2):
                check_request([*request_fields(), (name, b"")])
    assert kept == {(*short, b"x-%d" % number) for number in range(3)}
    with pytest.raises(StreamError):
        check_request([*request_fields(), (b"x-0", b"\n")])
