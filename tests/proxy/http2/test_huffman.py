"""Packed texts are read as the library hpack reads them."""

from __future__ import annotations

import pytest
from hpack.exceptions import HPACKDecodingError
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman
from hypothesis import given, settings
from hypothesis import strategies as st

from pymq.proxy.http2.huffman import unpack

ENCODER = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_what_is_packed_is_unpacked(text: bytes) -> None:
    assert unpack(ENCODER.encode(text)) == text


@settings(deadline=None)
@given(st.binary(max_size=20))
def test_any_bytes_are_unpacked_or_refused_as_by_the_library(packed: bytes) -> None:
    try:
        expected = decode_huffman(packed)
    except HPACKDecodingError:
        with pytest.raises(HPACKDecodingError):
            unpack(packed)
    else:
        assert unpack(packed) == expected
