"""Huffman's code of header fields, a byte at a time: the library hpack does half of one. No I/O.

Go's clients pack each value that gets shorter by it, so this runs for some 60 bytes of each of their calls.
Source: RFC 7541, section 5.2 and appendix B. The table is the library's.
"""

from __future__ import annotations

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import HUFFMAN_COMPLETE, HUFFMAN_EMIT_SYMBOL, HUFFMAN_FAIL, HUFFMAN_TABLE

# By a state and the next byte, in one number: the state behind it, what it says, and whether a text may end there.
# Made as needed, up to 256 times 256.
_STEPS: dict[int, tuple[int, bytes, int]] = {}


def unpack(packed: bytes) -> bytes:
    """Return a packed text. Raises HPACKDecodingError for what is none."""
    state, may_end, texts = 0, HUFFMAN_COMPLETE, []
    for byte in packed:
        step = _STEPS.get(state | byte) or _step(state, byte)
        state, text, may_end = step
        texts.append(text)
    if not may_end:
        raise HPACKDecodingError("a packed text ends within a character")
    return b"".join(texts)


def _step(state: int, byte: int) -> tuple[int, bytes, int]:
    """Make a step from two of the library's. Raises HPACKDecodingError for a byte that no text has there."""
    place, text, flags = state >> 8, b"", 0
    for half in (byte >> 4, byte & 0xF):
        place, flags, character = HUFFMAN_TABLE[place << 4 | half]
        if flags & HUFFMAN_FAIL:
            raise HPACKDecodingError("a packed text has a code of no character")
        if flags & HUFFMAN_EMIT_SYMBOL:
            text += bytes((character,))
    step = _STEPS[state | byte] = (place << 8, text, flags & HUFFMAN_COMPLETE)
    return step
