"""Header fields: HPACK's blocks, and what a request's fields must be. No I/O.

The table of fields is that of the library hpack. Its decoder takes 24 us for the fields of a gRPC
call; FieldDecoder takes a third of that, and decodes the same. Answers are encoded without a table, so they are
constants.

Source: RFC 7541 (HPACK), and RFC 9113, section 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hpack.exceptions import HPACKError, InvalidTableIndex
from hpack.table import HeaderTable

from pymq.proxy.http2.frames import ErrorCode, Http2Error, StreamError
from pymq.proxy.http2.huffman import unpack

Fields = list[tuple[bytes, bytes]]

TABLE_BYTES_MAX = 4096  # HTTP/2's own default
FIELD_OVERHEAD_BYTES = 32  # that HTTP/2 counts for each field of a list
INTEGER_BYTES_MAX = 5  # of a length or an index
NO_TABLE = b"\x20"  # the encoder's table has no bytes: stands before the first block of a connection

_STATIC = HeaderTable.STATIC_TABLE
_STATIC_COUNT = len(_STATIC)
_BAD_NAME = re.compile(rb"[^!#$%&'*+\-.^_`|~0-9a-z]")
_BAD_IN_VALUES = (b"\0", b"\r", b"\n ", b"\n\t", b" \n", b"\t\n")  # with a line break around each value
_PSEUDO = (b":method", b":scheme", b":path", b":authority")
_NEEDED = {b":method", b":scheme", b":path"}
_OF_CONNECTIONS = (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
# The names of requests that were checked before: a client's calls all have the same.
_GOOD_NAMES: set[tuple[bytes, ...]] = set()
_GOOD_NAMES_MAX = 1_000
_GOOD_NAMES_BYTES_MAX = 1_000  # of one request that is kept


class FieldDecoder:
    """Decodes the blocks of one connection, in their order."""

    __slots__ = ("_size_bytes_max", "_table", "size_bytes")

    def __init__(self, size_bytes_max: int) -> None:
        """``size_bytes_max``: of a block's fields, as HTTP/2 counts them."""
        self.size_bytes = 0  # of the last block's fields
        self._size_bytes_max = size_bytes_max
        self._table = HeaderTable()

    def decode(self, block: bytes) -> Fields:
        """Return the fields of a block. Raises Http2Error: what follows can't be decoded either."""
        try:
            return self._decode(block)
        except HPACKError as error:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, f"header fields can't be decoded: {error}") from error
        except IndexError:
            raise Http2Error(ErrorCode.COMPRESSION_ERROR, "header fields end early") from None

    def _decode(self, block: bytes) -> Fields:
        table, fields, at, size_bytes = self._table, Fields(), 0, 0
        recent = table.dynamic_entries
        while at < len(block):
            first = block[at]
            if first & 0x80:  # a field of the table
                number, at = (first & 0x7F, at + 1) if first != 0xFF else _integer(block, at, 0x7F)
                if 0 < number <= _STATIC_COUNT:
                    field = _STATIC[number - 1]
                elif 0 < number <= _STATIC_COUNT + len(recent):
                    field = recent[number - _STATIC_COUNT - 1]
                else:
                    raise InvalidTableIndex(f"there is no field {number}")
            elif first & 0xE0 == 0x20:
                if fields:
                    raise HPACKError("the table's size changes behind a field")
                size, at = _integer(block, at, 0x1F)
                if size > TABLE_BYTES_MAX:
                    raise HPACKError(f"the table has {size} bytes, the limit is {TABLE_BYTES_MAX}")
                table.maxsize = size
                continue
            else:  # a field of its own; its name may be the table's
                is_kept = first & 0x40
                number, at = _integer(block, at, 0x3F if is_kept else 0x0F)
                if number:
                    name = table.get_by_index(number)[0]
                else:
                    name, at = _text(block, at, self._size_bytes_max)
                value, at = _text(block, at, self._size_bytes_max)
                if is_kept:
                    table.add(name, value)
                field = (name, value)
            fields.append(field)
            size_bytes += len(field[0]) + len(field[1]) + FIELD_OVERHEAD_BYTES
            if size_bytes > self._size_bytes_max:
                raise _too_large(self._size_bytes_max)
        self.size_bytes = size_bytes
        return fields


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it. ``mask``: the bits of its first byte."""
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    for shift in range(0, 7 * INTEGER_BYTES_MAX, 7):
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise HPACKError(f"a number has more than {INTEGER_BYTES_MAX} bytes")


def _text(block: bytes, at: int, size_bytes_max: int) -> tuple[bytes, int]:
    """Return the text at a place, and the place behind it. A packed one is slow to unpack: it must not be too long."""
    is_packed = block[at] & 0x80
    size, at = _integer(block, at, 0x7F)
    if size > size_bytes_max:
        raise _too_large(size_bytes_max)
    end = at + size
    if end > len(block):
        raise IndexError
    return (unpack(block[at:end]) if is_packed else block[at:end]), end


def _too_large(size_bytes_max: int) -> Http2Error:
    text = f"header fields have more than {size_bytes_max} bytes, the limit: send less"
    return Http2Error(ErrorCode.ENHANCE_YOUR_CALM, text)


def encode_fields(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a block that changes no table, so it is the same for all connections."""
    block = bytearray()
    for name, value in fields:
        known = HeaderTable.STATIC_TABLE_MAPPING.get(name)
        if known is not None and value in known[1]:
            block.append(0x80 | known[1][value])
            continue
        block.append(0)
        for text in (name, value):
            block += _packed_size(len(text))
            block += text
    return bytes(block)


def _packed_size(size: int) -> bytes:
    if size < 0x7F:
        return bytes((size,))
    packed, rest = bytearray(b"\x7f"), size - 0x7F
    while rest >= 0x80:
        packed.append(rest & 0x7F | 0x80)
        rest >>= 7
    packed.append(rest)
    return bytes(packed)


def check_request(fields: Fields) -> dict[bytes, bytes]:
    """Return the fields of a request by name, the last one of each. Raises StreamError for what is no request."""
    found = dict(fields)
    names = tuple([name for name, _ in fields])
    if names not in _GOOD_NAMES:
        _check_request_names(names)
        if len(_GOOD_NAMES) < _GOOD_NAMES_MAX and len(b"".join(names)) < _GOOD_NAMES_BYTES_MAX:
            _GOOD_NAMES.add(names)
    _check_values(fields)
    if not found[b":path"]:
        raise StreamError(ErrorCode.PROTOCOL_ERROR, "a request's :path is empty")
    if found.get(b"te", b"trailers") != b"trailers":
        raise StreamError(ErrorCode.PROTOCOL_ERROR, "a request's field te is not trailers")
    return found


def check_trailers(fields: Fields) -> None:
    """Check the fields behind a request's body. Raises StreamError."""
    _check_names([name for name, _ in fields])
    _check_values(fields)


def _check_request_names(names: Sequence[bytes]) -> None:
    pseudo_count = 0
    while pseudo_count < len(names) and names[pseudo_count] in _PSEUDO:
        pseudo_count += 1
    pseudo = set(names[:pseudo_count])
    if len(pseudo) < pseudo_count:
        raise StreamError(ErrorCode.PROTOCOL_ERROR, "a request says twice what it asks for")
    if not pseudo >= _NEEDED:
        raise StreamError(ErrorCode.PROTOCOL_ERROR, "a request lacks :method, :scheme or :path")
    _check_names(names[pseudo_count:])
    for name in names:
        if name in _OF_CONNECTIONS:
            raise StreamError(ErrorCode.PROTOCOL_ERROR, f"a request has the field {name.decode()} of HTTP/1")


def _check_names(names: Sequence[bytes]) -> None:
    """Check names, none of which begins with ``:``."""
    for name in names:
        if not name or _BAD_NAME.search(name):
            raise StreamError(ErrorCode.PROTOCOL_ERROR, f"a field's name is {name!r:.40}")


def _check_values(fields: Fields) -> None:
    joined = b"\n".join([b"", *[value for _, value in fields], b""])
    if joined.count(b"\n") > len(fields) + 1 or any(map(joined.__contains__, _BAD_IN_VALUES)):
        raise StreamError(ErrorCode.PROTOCOL_ERROR, "a field's value has a line break, a zero, or blanks around it")
